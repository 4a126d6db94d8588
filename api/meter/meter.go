// Package meter is the edge's side of quotas: who counts what tenants use, how
// long answers are expected to get, and how refusals and what is left are told to
// clients. The counting itself is scheduler/quota's.
package meter

import (
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
	Standings(who quota.Holder) ([]quota.Standing, error)
}

// Local is the meter of one process.
type Local struct {
	mu    sync.Mutex
	meter *quota.Meter
}

// NewLocal returns a meter that has seen nothing.
func NewLocal() *Local { return &Local{meter: quota.NewMeter(quota.Config{})} }

// Reserve implements Meter.
func (l *Local) Reserve(who quota.Holder, ask quota.Ask) (quota.Grant, error) {
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

// Standings implements Meter; its error is always nil.
func (l *Local) Standings(who quota.Holder) ([]quota.Standing, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.meter.Standings(time.Now(), who), nil
}

// Seed tells what a holder has spent of the running day and month before the
// process began.
func (l *Local) Seed(who quota.Holder, day, month quota.Spent) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.meter.Seed(time.Now(), who, day, month)
}

// Stats counts what the meter holds.
func (l *Local) Stats() quota.Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.meter.Stats()
}

var _ Meter = (*Local)(nil)
