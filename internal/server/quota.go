package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"weir/internal/server/state"

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

// keyList is a store's list of keys.
type keyList func(ctx context.Context, tenant string) ([]tenant.Key, error)

// spent tells a meter what a tenant has spent of the day and the month of a time, so that a restart, a Redis that began
// anew and a limit that is new are no new budget: by the ledger, of all models together, of each, and with each key that
// has limits. Without a ledger it is nil: counts begin at 0.
func (s *Server) spent() meter.Spent {
	if s.ledger == nil {
		return nil
	}
	return func(name string, now time.Time) ([]quota.Spending, error) {
		ctx, cancel := context.WithTimeout(context.Background(), state.Timeout)
		defer cancel()
		var keys keyList
		if s.store != nil {
			keys = s.store.List
		}
		return readSpent(ctx, s.ledger, keys, name, now)
	}
}

func readSpent(ctx context.Context, ledger usage.Ledger, keys keyList, name string, now time.Time) ([]quota.Spending, error) {
	utc := now.UTC()
	q := usage.Query{Tenant: name, Alone: true, To: usage.DayOf(now), From: usage.DayOf(time.Date(utc.Year(), utc.Month(), 1, 0, 0, 0, 0, time.UTC))}
	report, err := ledger.Report(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("read what budgets have been spent: %w", err)
	}
	var list spendings
	for _, r := range report.Rows {
		list.add(quota.Spending{}, &r, q.To)
		list.add(quota.Spending{Model: r.Model}, &r, q.To)
	}
	accounts, err := accountsOf(ctx, keys, name)
	if err != nil || len(accounts) == 0 {
		return list, err
	}
	q.Keys = true
	if report, err = ledger.Report(ctx, q); err != nil {
		return nil, fmt.Errorf("read what keys have spent: %w", err)
	}
	for _, r := range report.Rows {
		if account := accounts[r.Key]; account != "" {
			list.add(quota.Spending{Account: account}, &r, q.To)
		}
	}
	return list, nil
}

// accountsOf are the accounts of a tenant's keys, by id; none where no key has limits.
func accountsOf(ctx context.Context, list keyList, name string) (map[string]string, error) {
	if list == nil {
		return nil, nil
	}
	keys, err := list(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("read the keys of tenant %q: %w", name, err)
	}
	accounts, limited := map[string]string{}, false
	for i := range keys {
		who := keys[i].Holder()
		accounts[who.Key] = who.KeyAccount
		limited = limited || !who.Unlimited()
	}
	if !limited {
		return nil, nil
	}
	return accounts, nil
}

// spendings adds up usage.
type spendings []quota.Spending

func (l *spendings) add(of quota.Spending, r *usage.Row, today usage.Day) {
	i := slices.IndexFunc(*l, func(s quota.Spending) bool { return s.Model == of.Model && s.Account == of.Account })
	if i < 0 {
		i, *l = len(*l), append(*l, of)
	}
	s := &(*l)[i]
	if s.Month = spend(s.Month, r.Sums); r.Day == today {
		s.Day = spend(s.Day, r.Sums)
	}
}

func spend(s quota.Spent, u usage.Sums) quota.Spent {
	return quota.Spent{Tokens: s.Tokens + u.Input + u.Output, Money: s.Money + quota.Money(u.Cost)}
}

// openMeter is what counts the use of tenants: this process, or a Redis that several
// weirs share.
func (s *Server) openMeter() (meter.Meter, error) {
	c, local := s.config.Quota, meter.NewLocal(s.spent())
	if c.Redis == "" {
		return meter.NewEnds(meter.NewTurns(local)), nil
	}
	o := store.MeterOptions{MeterTerms: meterTerms(c), Local: local, Spent: s.spent(), Changed: func(err error) {
		if err == nil {
			s.log.Info("quotas: Redis is back")
			return
		}
		s.log.Error("quotas: Redis cannot be reached", zap.String("failure", *s.quotaFailure.Load()), zap.Error(err))
	}}
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
func (s *Server) quotaTerms(c configs.Config) (commit func(), err error) {
	return func() {
		if s.shared != nil {
			s.quotaFailure.Store(&c.Quota.Failure)
			s.shared.SetTerms(meterTerms(c.Quota))
		}
	}, nil
}

// price is what a model's tokens cost now.
func (s *Server) price(model string) quota.Price { return (*s.prices.Load())[model] }

// versionPrice is what the tokens of a version cost: its own price, or that of its model.
func (s *Server) versionPrice(model, version string) quota.Price {
	prices := *s.prices.Load()
	for _, name := range []string{model + "@" + version, model + ":" + version} {
		if p, ok := prices[name]; ok && version != "" {
			return p
		}
	}
	return prices[model]
}

// newPrices is the live part of the prices.
func (s *Server) newPrices(c configs.Config) (commit func(), err error) {
	return func() {
		s.prices.Store(&c.Prices)
		s.edge.SetPrices(c.Prices)
	}, nil
}

// accounted lets a ledger keep what every finished request has used.
func accounted(ledger usage.Ledger, h edge.Hooks) edge.Hooks {
	finish := h.OnRequestFinish
	h.OnRequestFinish = func(f edge.RequestFinish) {
		if r, ok := used(&f); ok { // first: what was used is owed, whatever befalls those who watch
			ledger.Record(r)
		}
		finish(f)
	}
	work := h.OnWork
	h.OnWork = func(w edge.Work) {
		if work != nil {
			work(w)
		}
		if w.Started {
			return
		}
		ledger.Record(usage.Record{Ended: w.Ended, Tenant: w.Tenant.Name, Model: w.Model, Key: w.Key, Compute: w.Took, Beside: true})
	}
	return h
}

// used is what a finished request has used; false where nothing was computed. Of what is not charged it is the time.
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
	if f.Prefix { // the replica that computes the answer counts the request and its tokens
		return usage.Record{Ended: r.Ended, Tenant: r.Tenant, Model: r.Model, Key: r.Key, Compute: r.Compute, Beside: true}, true
	}
	if !f.Charged() {
		r.Input, r.Cached, r.Output = 0, 0, 0
	}
	return r, true
}
