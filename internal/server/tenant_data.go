package server

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"weir/api/admin"
	"weir/api/batch"
	"weir/api/openai"
	"weir/api/tenant"
	"weir/internal/server/state"
	"weir/telemetry/transcript"
)

// tenantData is what the process and its store keep of tenants' prompts and answers.
type tenantData struct {
	callers     *tenant.Authenticator
	store       *state.Store         // nil: none; its subjects forget one after the other
	transcripts *transcript.Recorder // nil: no store
	batches     *batch.Server
	edge        *openai.Server
	engines     *engines
	audit       *auditor
	log         *zap.Logger
}

// forget deletes what clients of a tenant asked and were answered, here and in the
// store. What they used is kept. by says who asked. A name that no tenant has is looked for all the same, since
// what was kept of a tenant outlives its entry in the configuration; where nothing was, it is an error.
func (d *tenantData) forget(ctx context.Context, name, by string) (f admin.DeletedCounts, err error) {
	known, err := d.knows(ctx, name)
	if err != nil {
		return f, err
	}
	if err := d.audit.Add(ctx, by, state.ActionTenantForget, name, state.Details{"known": known}); err != nil {
		return f, err
	}
	f, err = d.forgetAll(ctx, name)
	switch {
	case err != nil:
		return f, err
	case !known && f.Prompts+f.Answers+f.Files == 0:
		return f, fmt.Errorf("%w: %q is not configured, has no keys, and nothing was kept of it", admin.ErrNoTenant, name)
	}
	d.log.Info("what a tenant asked and was answered is deleted", zap.String("tenant", name), zap.String("by", by))
	return f, nil
}

// knows reports whether the configuration lists a tenant, or the store has a key of it.
func (d *tenantData) knows(ctx context.Context, name string) (bool, error) {
	if d.callers.Directory().Lists(name) || d.store == nil {
		return d.callers.Directory().Lists(name), nil
	}
	keys, err := d.store.Keys.List(ctx, name)
	return len(keys) > 0, err
}

func (d *tenantData) forgetAll(ctx context.Context, name string) (f admin.DeletedCounts, err error) {
	if d.store != nil {
		if err := d.store.ForgetKeys(ctx, name); err != nil { // first: from here on nothing can be read
			return f, err
		}
		if f.Prompts, err = d.transcripts.Forget(ctx, name); err != nil {
			return f, err
		}
		if f.Answers, err = d.store.Claims.ForgetAnswers(ctx, name); err != nil {
			return f, err
		}
		responses, err := d.store.Responses.ForgetResponses(ctx, name)
		if err != nil {
			return f, err
		}
		f.Answers += responses
	}
	if f.Files, err = d.batches.Forget(ctx, name); err != nil {
		return f, err
	}
	f.Answers += int64(d.edge.Forget(name))
	f.Blocks, err = d.engines.empty(ctx) // cached blocks are computed from prompts
	return f, err
}
