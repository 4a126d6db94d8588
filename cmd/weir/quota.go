package main

import (
	"go.uber.org/zap"

	"weir/api/meter"
	"weir/api/openai"
	"weir/api/usage"
	"weir/configs"
	"weir/internal/store"
	"weir/telemetry"
)

// openMeter is what counts the use of tenants: this process, or a Redis that several
// weirs share.
func (s *server) openMeter() (meter.Meter, error) {
	c, local := s.config.Quota, meter.NewLocal()
	if c.Redis == "" {
		return local, nil
	}
	o := store.MeterOptions{Lease: c.Lease, Timeout: c.Timeout, Changed: func(err error) {
		if err == nil {
			s.log.Info("quotas: Redis is back")
			return
		}
		s.log.Error("quotas: Redis cannot be reached", zap.String("failure", c.Failure), zap.Error(err))
	}}
	if c.Failure == configs.QuotaOpen {
		o.Local = local
	}
	var err error
	if s.shared, err = store.OpenMeter(c.Redis, o); err != nil {
		return nil, err
	}
	return s.shared, s.metrics.AddQuota(func() telemetry.Quota {
		st := s.shared.Stats()
		return telemetry.Quota{Up: st.Up, Failures: uint64(st.Failures), Local: uint64(st.Local), Lost: uint64(st.Lost)}
	})
}

// accounted lets a ledger keep what every finished request has used.
func accounted(ledger usage.Ledger, h openai.Hooks) openai.Hooks {
	finish := h.OnRequestFinish
	h.OnRequestFinish = func(f openai.RequestFinish) {
		finish(f)
		if f.PromptTokens+f.OutputTokens == 0 || f.FirstToken.IsZero() {
			return // nothing was computed
		}
		if f.FromCache {
			f.OutputTokens = 0 // they are charged once
		}
		ledger.Record(usage.Record{
			Ended: f.Finished, Tenant: f.Tenant, Model: f.Model, Input: int64(f.PromptTokens), Cached: int64(f.CachedTokens),
			Output: int64(f.OutputTokens), Compute: f.Compute, Cost: usage.Money(f.Cost),
		})
	}
	return h
}
