// Package meter is the edge's side of quotas: who counts what tenants use, how
// long answers are expected to get, and how refusals and what is left are told to
// clients. The counting itself is scheduler/quota's.
package meter

import (
	"fmt"
	"sync"
	"time"

	"weir/scheduler/quota"
)

// Meter counts what tenants use against their limits: Local for one process, or one
// that several processes share. All methods may be called from any goroutine.
type Meter interface {
	// Reserve takes what a request asks for, from all of the holder's limits or from
	// none. Errors are *quota.Refusal; any other error says that the meter cannot
	// decide now.
	Reserve(who quota.Holder, ask quota.Ask) (quota.Grant, error)
	// TopUp reserves up to cover output tokens for a request that has generated so
	// many. A *quota.Refusal says that the answer is to be cut off.
	TopUp(g *quota.Grant, generated, cover int64) error
	// Settle ends a grant with what was really used. Only the first call counts.
	Settle(g *quota.Grant, use quota.Use)
	// Remaining is what a holder has left of its limits per minute.
	Remaining(who quota.Holder) (quota.Remaining, error)
	// Standings are all limits of a holder that hold for several requests together.
	Standings(who quota.Holder) ([]quota.LimitUsage, error)
}

// Local is the meter of one process.
type Local struct {
	spent Spent

	seeding sync.Mutex // held by who tells the meter what was spent
	mu      sync.Mutex
	meter   *quota.Meter
}

// Spent tells what a tenant has spent of the day and the month of a time, before it was counted here: of all models
// together, of each, and with each key.
type Spent func(tenant string, now time.Time) ([]quota.Spending, error)

// NewLocal returns a meter that asks what was spent of a budget when it first counts it; nil: nothing was.
func NewLocal(spent Spent) *Local { return &Local{spent: spent, meter: quota.NewMeter(quota.Config{})} }

// Reserve implements Meter.
func (l *Local) Reserve(who quota.Holder, ask quota.Ask) (quota.Grant, error) {
	if err := l.seed(who); err != nil {
		return quota.Grant{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.meter.Reserve(time.Now(), who, ask)
}

// TopUp implements Meter.
func (l *Local) TopUp(g *quota.Grant, generated, cover int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.meter.TopUp(time.Now(), g, generated, cover)
}

// Settle implements Meter.
func (l *Local) Settle(g *quota.Grant, use quota.Use) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.meter.Settle(time.Now(), g, use)
}

// Remaining implements Meter; its error is always nil.
func (l *Local) Remaining(who quota.Holder) (quota.Remaining, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.meter.Remaining(time.Now(), who), nil
}

// Standings implements Meter.
func (l *Local) Standings(who quota.Holder) ([]quota.LimitUsage, error) {
	if err := l.seed(who); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.meter.Standings(time.Now(), who), nil
}

// Seed tells what a holder's tenant has spent, before anybody asks.
func (l *Local) Seed(who quota.Holder, list []quota.Spending) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.meter.Seed(time.Now(), who, list)
}

// seed sees to it that the holder's budgets are counted from what was spent of them.
func (l *Local) seed(who quota.Holder) error {
	if l.spent == nil || !who.HasBudgets() || l.counted(who) {
		return nil
	}
	l.seeding.Lock()
	defer l.seeding.Unlock()
	if l.counted(who) {
		return nil
	}
	list, err := l.spent(who.Tenant, time.Now())
	if err != nil {
		return fmt.Errorf("what tenant %q has spent: %w", who.Tenant, err)
	}
	return l.Seed(who, list)
}

func (l *Local) counted(who quota.Holder) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.meter.Counted(time.Now(), who)
}

// Stats counts what the meter holds.
func (l *Local) Stats() quota.Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.meter.Stats()
}

var _ Meter = (*Local)(nil)
