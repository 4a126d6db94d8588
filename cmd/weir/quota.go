package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"go.uber.org/zap"

	"weir/api/edge"
	"weir/api/meter"
	"weir/api/tenant"
	"weir/api/usage"
	"weir/configs"
	"weir/internal/store"
	"weir/scheduler/quota"
	"weir/telemetry"
)

// seedBudgets tells the process's own meter what tenants have spent of this day's and
// this month's budgets, so that a restart is no new budget. Without a ledger the
// counts begin at 0.
func seedBudgets(ctx context.Context, local *meter.Local, ledger usage.Ledger, tenants *tenant.Directory, now time.Time) error {
	spent, err := readSpent(ctx, ledger, "", now)
	if err != nil {
		return err
	}
	for name, list := range spent {
		t, ok := tenants.Find(name)
		if !ok {
			continue
		}
		for _, s := range list {
			who := quota.Holder{Tenant: name, Limits: &t.Limits}
			if s.Model != "" {
				who = quota.Holder{Tenant: name, Model: s.Model, ModelLimits: t.LimitsOf(s.Model)}
			}
			if who.Unlimited() {
				continue
			}
			if err := local.Seed(who, s.Day, s.Month); err != nil {
				return fmt.Errorf("budgets of tenant %q: %w", name, err)
			}
		}
	}
	return nil
}

// readSpent is what a tenant has spent of the day and the month of a time, by the ledger: of
// all models together, then of each. With "" it is that of every tenant.
func readSpent(ctx context.Context, ledger usage.Ledger, name string, now time.Time) (map[string][]store.Spent, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	today, utc := usage.DayOf(now), now.UTC()
	first := usage.DayOf(time.Date(utc.Year(), utc.Month(), 1, 0, 0, 0, 0, time.UTC))
	report, err := ledger.Report(ctx, usage.Query{From: first, To: today, Tenant: name})
	if err != nil {
		return nil, fmt.Errorf("read what budgets have been spent: %w", err)
	}
	spent := make(map[string][]store.Spent)
	for _, r := range report.Rows {
		list := spent[r.Tenant]
		for _, model := range [...]string{"", r.Model} {
			i := slices.IndexFunc(list, func(s store.Spent) bool { return s.Model == model })
			if i < 0 {
				i, list = len(list), append(list, store.Spent{Model: model})
			}
			list[i].Month = spend(list[i].Month, r.Sums)
			if r.Day == today {
				list[i].Day = spend(list[i].Day, r.Sums)
			}
		}
		spent[r.Tenant] = list
	}
	return spent, nil
}

func spend(s quota.Spent, u usage.Sums) quota.Spent {
	return quota.Spent{Tokens: s.Tokens + u.Input + u.Output, Money: s.Money + quota.Money(u.Cost)}
}

// openMeter is what counts the use of tenants: this process, or a Redis that several
// weirs share.
func (s *server) openMeter() (meter.Meter, error) {
	c, local := s.config.Quota, meter.NewLocal()
	s.local = local
	if s.ledger != nil {
		if err := seedBudgets(context.Background(), local, s.ledger, s.callers.authenticator.Directory(), time.Now()); err != nil {
			return nil, err
		}
	}
	if c.Redis == "" {
		return meter.NewEnds(meter.NewTurns(local)), nil
	}
	o := store.MeterOptions{MeterTerms: meterTerms(c), Local: local, Changed: func(err error) {
		if err == nil {
			s.log.Info("quotas: Redis is back")
			return
		}
		s.log.Error("quotas: Redis cannot be reached", zap.String("failure", *s.quotaFailure.Load()), zap.Error(err))
	}}
	if s.ledger != nil {
		o.Spent = func(name string, now time.Time) ([]store.Spent, error) {
			spent, err := readSpent(context.Background(), s.ledger, name, now)
			return spent[name], err
		}
	}
	s.quotaFailure.Store(&c.Failure)
	var err error
	if s.shared, err = store.OpenMeter(c.Redis, o); err != nil {
		return nil, err
	}
	return meter.NewEnds(meter.NewTurns(s.shared)), s.metrics.AddQuota(func() telemetry.Quota {
		st := s.shared.Stats()
		return telemetry.Quota{Up: st.Up, Failures: uint64(st.Failures), Local: uint64(st.Local), Lost: uint64(st.Lost)}
	})
}

func meterTerms(c configs.Quota) store.MeterTerms {
	return store.MeterTerms{Lease: c.Lease, Timeout: c.Timeout, Closed: c.Failure == configs.QuotaClosed}
}

// quotaTerms is the live part of the quotas, which a process that counts by itself has none of.
func (s *server) quotaTerms(c configs.Config) (commit func(), err error) {
	return func() {
		if s.shared != nil {
			s.quotaFailure.Store(&c.Quota.Failure)
			s.shared.SetTerms(meterTerms(c.Quota))
		}
	}, nil
}

// price is what a model's tokens cost now.
func (s *server) price(model string) quota.Price { return (*s.prices.Load())[model] }

// newPrices is the live part of the prices.
func (s *server) newPrices(c configs.Config) (commit func(), err error) {
	return func() {
		s.prices.Store(&c.Prices)
		s.edge.SetPrices(c.Prices)
	}, nil
}

// accounted lets a ledger keep what every finished request has used.
func accounted(ledger usage.Ledger, h edge.Hooks) edge.Hooks {
	finish := h.OnRequestFinish
	h.OnRequestFinish = func(f edge.RequestFinish) {
		finish(f)
		if r, ok := used(&f); ok {
			ledger.Record(r)
		}
	}
	return h
}

// used is what a finished request has used; false where nothing was computed.
func used(f *edge.RequestFinish) (r usage.Record, ok bool) {
	if f.PromptTokens+f.OutputTokens == 0 || f.FirstToken.IsZero() && f.Status != http.StatusOK {
		return r, false
	}
	r = usage.Record{
		Ended: f.Finished, Tenant: f.Tenant, Model: f.Model, Key: f.Key, Input: int64(f.PromptTokens), Cached: int64(f.CachedTokens),
		Output: int64(f.OutputTokens), Compute: f.Compute, Cost: usage.Money(f.Cost),
	}
	if f.FromCache {
		r.Output = 0 // they are charged once
	}
	return r, true
}
