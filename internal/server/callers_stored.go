package server

import (
	"context"
	"maps"
	"time"

	"go.uber.org/zap"

	"weir/api/tenant"
	"weir/internal/server/keychain"
	"weir/internal/server/state"
	"weir/telemetry"
)

// follow puts tenants into force that other processes make, until ctx ends.
func (c *callers) follow(ctx context.Context) {
	tick, trouble := time.NewTicker(tenant.FollowEvery), &telemetry.LogLimiter{Every: telemetry.TroubleEvery}
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		asking, cancel := context.WithTimeout(ctx, state.Timeout)
		if err := c.refresh(asking); err != nil && ctx.Err() == nil {
			trouble.Do(func(held int) {
				c.log.Error("the store of tenants failed; those that are known stay in force", zap.Error(err), zap.Int("times_before", held))
			})
		}
		cancel()
	}
}

// refresh puts the tenants of the store into force, if they changed.
func (c *callers) refresh(ctx context.Context) error {
	c.refreshing.Lock()
	defer c.refreshing.Unlock()
	revision, err := c.records.TenantRevision(ctx)
	if err != nil {
		return err
	}
	if revision == c.revision {
		return nil
	}
	stored, unreadable, err := keychain.Tenants(ctx, c.records)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.stored, c.unreadable = stored, unreadable
	c.enforce()
	c.mu.Unlock()
	c.revision = revision
	_, faults := c.origins()
	for name, err := range faults {
		c.log.Error("a tenant that was made by the API is not in force", zap.String("tenant", name), zap.Error(err))
	}
	return nil
}

// enforce puts configured and stored tenants into force together. The caller holds mu.
func (c *callers) enforce() {
	directory, faults := c.configured.With(c.stored)
	c.faults = make(map[string]error)
	maps.Copy(c.faults, c.unreadable)
	for _, f := range faults {
		c.faults[f.Name] = f.Err
	}
	c.authenticator.Replace(directory, c.config.API.APIKeys, c.tokens)
}

// origins are the tenants of the configuration, and why stored ones are not in force, by name.
func (c *callers) origins() (configured *tenant.Directory, faults map[string]error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.configured, maps.Clone(c.faults)
}
