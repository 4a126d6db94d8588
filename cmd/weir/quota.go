package main

import (
	"go.uber.org/zap"

	"weir/api/meter"
	"weir/api/openai"
	"weir/api/usage"
	"weir/configs"
	"weir/internal/store"
)

// newMeter is what counts the use of tenants: this process, or a Redis that several
// weirs share. Closing it is the caller's.
func newMeter(c configs.Quota, log *zap.Logger) (m meter.Meter, end func() error, err error) {
	local := meter.NewLocal()
	if c.Redis == "" {
		return local, func() error { return nil }, nil
	}
	o := store.MeterOptions{Lease: c.Lease, Timeout: c.Timeout, Changed: func(err error) {
		if err == nil {
			log.Info("quotas: Redis is back")
			return
		}
		log.Error("quotas: Redis cannot be reached", zap.String("failure", c.Failure), zap.Error(err))
	}}
	if c.Failure == configs.QuotaOpen {
		o.Local = local
	}
	shared, err := store.OpenMeter(c.Redis, o)
	if err != nil {
		return nil, nil, err
	}
	return shared, shared.Close, nil
}

// accounted lets a ledger keep what every finished request has used.
func accounted(ledger usage.Ledger, h openai.Hooks) openai.Hooks {
	finish := h.OnRequestFinish
	h.OnRequestFinish = func(f openai.RequestFinish) {
		finish(f)
		if f.PromptTokens+f.OutputTokens == 0 || f.FirstToken.IsZero() {
			return // nothing was computed
		}
		ledger.Record(usage.Record{
			Ended: f.Finished, Tenant: f.Tenant, Model: f.Model, Input: int64(f.PromptTokens), Cached: int64(f.CachedTokens),
			Output: int64(f.OutputTokens), Cost: usage.Money(f.Cost),
		})
	}
	return h
}
