package ratelimit

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/reference"
	"weir/internal/store/storetest"
	"weir/scheduler/quota"
)

// emptyRedis forgets all of a tenant, as a Redis that restarts without its data does.
func emptyRedis(t *testing.T, m *Meter, tenant string) {
	t.Helper()
	keys := m.keys(tenant)
	if _, err := m.client.Load().Do(t.Context(), "DEL", keys[0], keys[1], keys[2]); err != nil {
		t.Fatal(err)
	}
}

// A Redis that knows nothing of a tenant, at first or because it lost its data, is told what
// the tenant has spent, by one of the callers; so a budget that is spent stays spent.
func TestAnEmptyRedisIsToldWhatWasSpent(t *testing.T) {
	asked := atomic.Int64{}
	o := Options{Spent: func(tenant string, _ time.Time) ([]quota.Spending, error) {
		asked.Add(1)
		if tenant != "a" {
			return nil, nil
		}
		return []quota.Spending{{Day: quota.Spent{Tokens: 90, Money: 7}, Month: quota.Spent{Tokens: 95, Money: 8}},
			{Model: "m", Day: quota.Spent{Tokens: 40}, Month: quota.Spent{Tokens: 60}},
			{Account: "k1", Day: quota.Spent{Tokens: 15}, Month: quota.Spent{Tokens: 15}}}, nil
	}}
	url, prefix := reference.Redis.Get(t), testPrefix()
	weirs := []*Meter{testMeter(t, url, prefix, o), testMeter(t, url, prefix, o)}
	limits := quota.Limits{DailyTokens: 100, MonthlyTokens: 1000, DailyCost: 1000, MonthlyCost: 10}
	who := quota.Holder{Tenant: "a", Model: "m", Limits: &limits, ModelLimits: &quota.Limits{MonthlyTokens: 65}}
	for round := range 3 {
		asked.Store(0)
		admitted := atomic.Int64{}
		var wg sync.WaitGroup
		for i := range 32 {
			wg.Go(func() {
				g, err := weirs[i%2].Reserve(who, quota.Ask{Input: 1})
				if err == nil {
					admitted.Add(1)
					weirs[i%2].Settle(&g, quota.Use{})
				} else if asRefusal(err) == nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if asked.Load() < 1 || asked.Load() > 2 || admitted.Load() < 5 {
			t.Errorf("round %d: the ledger was asked %d times, %d requests were admitted", round, asked.Load(), admitted.Load())
		}
		for _, c := range []struct {
			who  quota.Holder
			ask  quota.Ask
			kind quota.Kind
		}{
			{quota.Holder{Tenant: "a", Limits: &limits}, quota.Ask{Input: 11}, quota.DailyTokens},
			{quota.Holder{Tenant: "a", Limits: &limits}, quota.Ask{Input: 3, Price: quota.Price{Input: 1e6}}, quota.MonthlyCost},
			{who, quota.Ask{Input: 6}, quota.MonthlyTokens},
		} {
			for _, m := range weirs {
				if _, err := m.Reserve(c.who, c.ask); asRefusal(err) == nil || asRefusal(err).Kind != c.kind {
					t.Errorf("round %d: %+v gave %v, want %v", round, c.ask, err, c.kind)
				}
			}
		}
		emptyRedis(t, weirs[0], "a")
	}
	asked.Store(0)
	if _, err := weirs[0].Reserve(quota.Holder{Tenant: "b", Limits: &quota.Limits{RequestsPerMinute: 5}}, quota.Ask{}); err != nil || asked.Load() > 0 {
		t.Errorf("a tenant without budgets: %v; the ledger was asked %d times", err, asked.Load())
	}
}

// A ledger that does not answer is a meter that does not: closed, or each weir by itself.
func TestARedisWithoutTheLedgersCountsDecidesNothing(t *testing.T) {
	local := &localMeter{meter: quota.NewMeter(quota.Config{})}
	o := Options{Local: local, Spent: func(string, time.Time) ([]quota.Spending, error) { return nil, errors.New("the database is away") }}
	m := testMeter(t, reference.Redis.Get(t), testPrefix(), o)
	who := quota.Holder{Tenant: "a", Limits: &quota.Limits{DailyTokens: 10}}
	if g, err := m.Reserve(who, quota.Ask{Input: 1}); err != nil || !g.Degraded {
		t.Errorf("open: %v, degraded %v", err, g.Degraded)
	}
	terms := *m.terms.Load()
	terms.Closed = true
	m.SetTerms(terms)
	if _, err := m.Reserve(who, quota.Ask{Input: 1}); !errors.Is(err, ErrUnreachable) {
		t.Errorf("closed: %v", err)
	}
}

// What runs while Redis loses its data counts all the same: its next top-up opens its grant
// again, and what it used counts at its end.
func TestARunningAnswerOutlivesRedisData(t *testing.T) {
	o := Options{Spent: func(string, time.Time) ([]quota.Spending, error) {
		return []quota.Spending{{Day: quota.Spent{Tokens: 10}}}, nil
	}}
	m := testMeter(t, reference.Redis.Get(t), testPrefix(), o)
	who := quota.Holder{Tenant: "a", Limits: &quota.Limits{DailyTokens: 100, Enforcement: quota.Strict}}
	reserve := func() quota.Grant {
		t.Helper()
		g, err := m.Reserve(who, quota.Ask{Input: 10, Output: 10})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	topped, silent := reserve(), reserve()
	storetest.WaitUntil(t, func() bool { return time.Now().UnixMilli() > m.open[silent.ID].at }) // Redis counts in milliseconds
	emptyRedis(t, m, "a")
	if err := m.TopUp(&topped, 11, 75); err != nil || topped.Covered() != 75 {
		t.Fatalf("%v; %d tokens are covered of 75", err, topped.Covered())
	}
	if err := m.TopUp(&topped, 81, 90); asRefusal(err) == nil {
		t.Errorf("81 tokens beside a prompt of 10 and 10 that were spent, of 100: %v", err)
	}
	m.Settle(&silent, quota.Use{Ran: true, Input: 10, Output: 3})
	m.Settle(&topped, quota.Use{Ran: true, Input: 10, Output: 50})
	storetest.WaitUntil(t, func() bool { // 10 were spent, then 13 and 60
		_, err := m.Reserve(who, quota.Ask{Input: 101})
		return asRefusal(err).Left == 17
	})
}

// A budget that is new counts what was spent before, of a tenant and of a key that Redis knew without one; so does one
// that was taken away for a while.
func TestANewBudgetInRedisCountsWhatWasSpent(t *testing.T) {
	spent := atomic.Int64{}
	spent.Store(40)
	o := Options{Spent: func(string, time.Time) ([]quota.Spending, error) {
		n := quota.Spent{Tokens: spent.Load()}
		return []quota.Spending{{Day: n, Month: n}, {Account: "k1", Day: n, Month: n}}, nil
	}}
	m := testMeter(t, reference.Redis.Get(t), testPrefix(), o)
	who := quota.Holder{Tenant: "a", Limits: &quota.Limits{RequestsPerMinute: 1000}, Key: "k2", KeyAccount: "k1", KeyLimits: &quota.Limits{MaxStreams: 9}}
	reserve := func(tokens int64) *quota.Refusal {
		t.Helper()
		g, err := m.Reserve(who, quota.Ask{Input: tokens})
		if err == nil {
			m.Settle(&g, quota.Use{})
		} else if asRefusal(err) == nil {
			t.Fatal(err)
		}
		return asRefusal(err)
	}
	if r := reserve(0); r != nil {
		t.Fatal(r)
	}
	who.KeyLimits = &quota.Limits{DailyTokens: 50}
	if r := reserve(11); r == nil || r.Key != "k2" || r.Left != 10 {
		t.Errorf("a key's new budget: %v", r)
	}
	who.Limits = &quota.Limits{MonthlyTokens: 45}
	if r := reserve(6); r == nil || r.Key != "" || r.Left != 5 {
		t.Errorf("a tenant's new budget: %v", r)
	}
	who.KeyLimits = &quota.Limits{}
	reserve(0)
	spent.Store(48)
	who.Limits, who.KeyLimits = &quota.Limits{}, &quota.Limits{MaxStreams: 9}
	reserve(0)
	who.KeyLimits = &quota.Limits{DailyTokens: 50}
	if r := reserve(3); r == nil || r.Left != 2 {
		t.Errorf("a budget that was away for a while: %v", r)
	}
}
