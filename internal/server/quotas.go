package server

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"weir/api/meter"
	"weir/api/tenant"
	"weir/api/usage"
	"weir/configs"
	"weir/internal/server/state"
	"weir/internal/store/ratelimit"
	"weir/scheduler/quota"
	"weir/telemetry"
)

// keyList is a store's list of keys.
type keyList func(ctx context.Context, tenant string) ([]tenant.Key, error)

// quotas count what tenants use against their limits: in this process, or in a Redis that several servers share.
type quotas struct {
	ledger  usage.Ledger // nil: usage is not kept
	keys    keyList      // nil: there is no store of keys
	log     *zap.Logger
	shared  *ratelimit.Meter       // in Redis; nil: each process counts by itself
	failure atomic.Pointer[string] // configs.Quota.Failure, as it is in force
}

// spent tells a meter what a tenant has spent of the day and the month of a time, so that a restart, a Redis that began
// again and a limit that is new are no new budget: by the ledger, of all models together, of each, and with each key that
// has limits. Without a ledger it is nil: counts begin at 0.
func (q *quotas) spent() meter.Spent {
	if q.ledger == nil {
		return nil
	}
	return func(name string, now time.Time) ([]quota.Spending, error) {
		ctx, cancel := context.WithTimeout(context.Background(), state.Timeout)
		defer cancel()
		return readSpent(ctx, q.ledger, q.keys, name, now)
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

// open makes the meter.
func (q *quotas) open(c configs.Quota, m *telemetry.Metrics) (meter.Meter, error) {
	local := meter.NewLocal(q.spent())
	if c.Redis == "" {
		return meter.NewEndForecast(meter.NewRetrySpread(local)), nil
	}
	o := ratelimit.Options{Terms: meterTerms(c), Local: local, Spent: q.spent(), Changed: func(err error) {
		if err == nil {
			q.log.Info("quotas: Redis is back")
			return
		}
		q.log.Error("quotas: Redis cannot be reached", zap.String("failure", *q.failure.Load()), zap.Error(err))
	}}
	q.failure.Store(&c.Failure)
	var err error
	if q.shared, err = ratelimit.Open(c.Redis, o); err != nil {
		return nil, err
	}
	return meter.NewEndForecast(meter.NewRetrySpread(q.shared)), telemetry.AddQuota(m, func() telemetry.Quota {
		st := q.shared.Stats()
		return telemetry.Quota{Up: st.Up, Failures: uint64(st.Failures), Local: uint64(st.Local), Lost: uint64(st.Lost)}
	})
}

func meterTerms(c configs.Quota) ratelimit.Terms {
	return ratelimit.Terms{Lease: c.Lease, Timeout: c.Timeout, Closed: c.Failure == configs.QuotaClosed}
}

// terms is the live part of the quotas, which a process that counts by itself has none of.
func (q *quotas) terms(c configs.Config) (commit func(), err error) {
	return func() {
		if q.shared != nil {
			q.failure.Store(&c.Quota.Failure)
			q.shared.SetTerms(meterTerms(c.Quota))
		}
	}, nil
}

// close ends the meter that servers share.
func (q *quotas) close() error {
	if q.shared == nil {
		return nil
	}
	return q.shared.Close()
}
