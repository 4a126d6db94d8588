// Package ratelimit counts what tenants use in Redis, for all servers that share it: package quota's buckets and reservations, decided by one
// script.
package ratelimit

import (
	_ "embed"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/redis"
	"weir/scheduler/quota"
)

//go:embed quota.lua
var quotaScript string

// Local is what a Meter falls back on: the meter of this process alone.
type Local interface {
	Reserve(who quota.Holder, ask quota.Ask) (quota.Grant, error)
	TopUp(g *quota.Grant, generated, cover int64) error
	Settle(g *quota.Grant, use quota.Use)
	Remaining(who quota.Holder) (quota.Remaining, error)
	Standings(who quota.Holder) ([]quota.LimitUsage, error)
}

// Options are those of Open. Zero values take what stands beside each.
type Options struct {
	Terms

	Prefix string        // "weir:quota:"; begins the names of all keys
	Retry  time.Duration // 1 s: how soon Redis is asked again after it could not be reached

	// Local decides while Redis cannot be reached and the terms are not Closed: each weir
	// by itself. Without it they are.
	Local Local
	// Spent tells what a tenant has spent before Redis knew of it: of the day and the month
	// of a time. Nil: Redis begins with nothing spent.
	Spent func(tenant string, now time.Time) ([]quota.Spending, error)
	// Changed hears that Redis cannot be reached (err says why) or is back (nil). It
	// must not block.
	Changed func(err error)
}

// Terms are the options that can be changed while a meter is open.
type Terms struct {
	Lease   time.Duration // 30 s: after the death of a process its reservations end
	Timeout time.Duration // 250 ms: for one decision
	Closed  bool          // while Redis cannot be reached, requests are refused with ErrUnreachable
}

// completed fills in what stands beside each.
func (t Terms) completed() *Terms {
	if t.Lease <= 0 {
		t.Lease = 30 * time.Second
	}
	if t.Timeout <= 0 {
		t.Timeout = 250 * time.Millisecond
	}
	return &t
}

// ErrUnreachable refuses requests while Redis cannot be reached.
var ErrUnreachable = errors.New("the shared meter of quotas cannot be reached")

// Meter is the meter of quotas that several weirs share, in Redis 7 or later. Every
// decision is one script, atomic and by the server's time; settling happens in the
// background, several requests at once.
type Meter struct {
	o       Options // except for its terms
	terms   atomic.Pointer[Terms]
	changed chan struct{} // capacity 1: the terms are others
	client  atomic.Pointer[redis.Pool]
	url     string
	script  *redis.Script
	down    atomic.Int64 // Unix nanoseconds from which on Redis is asked again; 0: it can be reached
	stats   counts

	seeding sync.Mutex // held by who tells Redis what a tenant has spent

	mu    sync.Mutex
	open  map[uint64]*running // grants that run
	ended chan ended
	stop  chan struct{}
	wg    sync.WaitGroup
}

// running is a grant that runs.
type running struct {
	tenant string
	at     int64 // when it was granted, by Redis, in Unix milliseconds

	input     int64
	price     quota.Price
	generated *atomic.Int64 // output tokens
	pace      pace
}

// ended is a grant on its way to being settled.
type ended struct {
	grant quota.Grant
	use   quota.Use
	at    int64     // when it was granted
	until time.Time // beyond it the lease has given everything back
}

type counts struct{ failures, local, lost atomic.Int64 }

// Stats counts since the meter was opened.
type Stats struct {
	Up       bool
	Failures int64 // calls that Redis did not answer
	Local    int64 // reservations that this process decided by itself
	Lost     int64 // requests whose use was not counted
	Open     int   // grants that run
}

const (
	endedRoom  = 1 << 14 // requests that wait to be settled
	endedBatch = 128     // settled in one round trip
)

// Open connects to a Redis of a URL such as redis://:PASSWORD@HOST:6379/0. A
// server that cannot be reached now is no error: the meter then begins as Options
// say.
func Open(url string, o Options) (*Meter, error) {
	if o.Prefix == "" {
		o.Prefix = "weir:quota:"
	}
	if o.Retry <= 0 {
		o.Retry = time.Second
	}
	if o.Changed == nil {
		o.Changed = func(error) {}
	}
	m := &Meter{
		o: o, url: url, changed: make(chan struct{}, 1), script: redis.NewScript(quotaScript),
		open: map[uint64]*running{}, ended: make(chan ended, endedRoom), stop: make(chan struct{}),
	}
	terms := o.completed()
	m.terms.Store(terms)
	client, err := m.connect(terms.Timeout)
	if err != nil {
		return nil, err
	}
	m.client.Store(client)
	m.wg.Go(m.settleAll)
	m.wg.Go(m.renewAll)
	return m, nil
}

// connect makes a client whose calls take no longer than timeout. None is made twice: a decision that may have been
// made must not be.
func (m *Meter) connect(timeout time.Duration) (*redis.Pool, error) {
	client, err := redis.Open(m.url, redis.Options{Dial: timeout, RoundTrip: timeout})
	if err != nil {
		return nil, fmt.Errorf("the URL of Redis: %w", err)
	}
	return client, nil
}

// SetTerms changes the terms of an open meter. Grants that run get the new lease with their
// next renewal, which is at once. It must not be called at the same time as Close or itself.
func (m *Meter) SetTerms(t Terms) {
	next := t.completed()
	before := m.terms.Swap(next)
	if before.Timeout != next.Timeout {
		client, _ := m.connect(next.Timeout) // the URL was good before
		old := m.client.Swap(client)
		m.wg.Go(func() { // when the calls that are under way have ended
			select {
			case <-time.After(2 * before.Timeout):
			case <-m.stop:
			}
			_ = old.Close()
		})
	}
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// local is what decides while Redis cannot be reached; nil: nothing does.
func (m *Meter) local() Local {
	if m.terms.Load().Closed {
		return nil
	}
	return m.o.Local
}

// Close settles what has ended, as far as Redis answers, and closes the connections.
// No other call may follow.
func (m *Meter) Close() error {
	close(m.stop)
	m.wg.Wait()
	return m.client.Load().Close()
}

// Stats may be called at any time.
func (m *Meter) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Stats{
		Up: m.down.Load() == 0, Failures: m.stats.failures.Load(), Local: m.stats.local.Load(), Lost: m.stats.lost.Load(), Open: len(m.open),
	}
}

// Reserve takes what a request asks for, from all limits or none, as quota.Meter does.
func (m *Meter) Reserve(who quota.Holder, ask quota.Ask) (quota.Grant, error) {
	ask = ask.Clamped()
	g := quota.Grant{Holder: who, Ask: ask}
	parts := who.Parts()
	if len(parts) == 0 {
		return g, nil
	}
	if !m.reachable() {
		return m.reserveLocally(who, ask)
	}
	id := newGrantID()
	reply, err := m.decide(&who, reserveArgs(m.command("reserve", &who), id, ask, parts))
	if err != nil {
		// The script may have run all the same: then this gives back what it took.
		g.ID = id
		m.settleLater(g, quota.Use{}, 0)
		return m.reserveLocally(who, ask)
	}
	states, err := reply.states(len(parts))
	if err != nil {
		return quota.Grant{}, err
	}
	if reply[0] == 0 {
		if r := quota.Explain(parts, states, ask); r != nil {
			return quota.Grant{}, r
		}
		return quota.Grant{}, errors.New("store: the script refuses what the meter of package quota admits")
	}
	g.ID, g.Ask.Output, g.Money, g.Remaining = id, reply[1], quota.Money(reply[2]), quota.RemainingOf(parts, states)
	g.Generated = &atomic.Int64{}
	m.mu.Lock()
	m.open[id] = &running{tenant: who.Tenant, at: states[0].At, input: ask.Input, price: ask.Price, generated: g.Generated, pace: pace{at: time.Now()}}
	m.mu.Unlock()
	return g, nil
}

func (m *Meter) reserveLocally(who quota.Holder, ask quota.Ask) (quota.Grant, error) {
	local := m.local()
	if local == nil {
		return quota.Grant{}, ErrUnreachable
	}
	m.stats.local.Add(1)
	g, err := local.Reserve(who, ask)
	g.Degraded = true
	return g, err
}

// TopUp reserves up to cover output tokens for a request that has generated so many.
// While Redis cannot be reached a running answer goes on, unless the terms are Closed:
// then the error is ErrUnreachable.
func (m *Meter) TopUp(g *quota.Grant, generated, cover int64) error {
	if g.Degraded && m.o.Local != nil {
		return m.o.Local.TopUp(g, generated, cover)
	}
	if g.ID == 0 {
		return nil
	}
	if !m.reachable() {
		return m.goesOn()
	}
	reply, err := m.decide(&g.Holder, topUpArgs(m.command("topup", &g.Holder), g, generated, cover))
	if err != nil {
		return m.goesOn()
	}
	g.Ask.Output, g.Money = reply[1], quota.Money(reply[2]) // less than before where it was opened again
	if reply[0] == 0 {
		parts := g.Holder.Parts()
		states, err := reply.states(len(parts))
		if err != nil {
			return err
		}
		if r := quota.ExplainCut(parts, states, g, generated); r != nil {
			return r
		}
		return errors.New("store: the script cuts what the meter of package quota lets go on")
	}
	return nil
}

// goesOn says whether a running answer that Redis does not decide on goes on; nil: it does.
func (m *Meter) goesOn() error {
	if m.local() == nil {
		return ErrUnreachable
	}
	return nil
}

// Settle ends a grant. It does not wait for Redis.
func (m *Meter) Settle(g *quota.Grant, use quota.Use) {
	if g.ID == 0 {
		return
	}
	if g.Degraded && m.o.Local != nil {
		m.o.Local.Settle(g, use)
		return
	}
	m.mu.Lock()
	r, runs := m.open[g.ID]
	delete(m.open, g.ID)
	m.mu.Unlock()
	if runs { // else it was settled before
		m.settleLater(*g, use.Clamped(), r.at)
	}
}

// Remaining is what a holder has left.
func (m *Meter) Remaining(who quota.Holder) (left quota.Remaining, err error) {
	err = m.inspect(who, func(parts []quota.Part, states []quota.State) { left = quota.RemainingOf(parts, states) },
		func(local Local) error { left, err = local.Remaining(who); return err })
	return left, err
}

// Standings are the limits of a holder.
func (m *Meter) Standings(who quota.Holder) (list []quota.LimitUsage, err error) {
	err = m.inspect(who, func(parts []quota.Part, states []quota.State) { list = quota.StandingsOf(parts, states) },
		func(local Local) error { list, err = local.Standings(who); return err })
	return list, err
}

// inspect reads a holder's states from Redis, or lets the process's own meter answer where that counts.
func (m *Meter) inspect(who quota.Holder, read func([]quota.Part, []quota.State), locally func(Local) error) error {
	parts := who.Parts()
	if len(parts) == 0 {
		return nil
	}
	if m.reachable() {
		if reply, err := m.decide(&who, appendParts(m.command("remaining", &who), parts)); err == nil {
			states, err := reply.states(len(parts))
			if err == nil {
				read(parts, states)
			}
			return err
		}
	}
	if local := m.local(); local != nil {
		return locally(local)
	}
	return ErrUnreachable
}

func (m *Meter) settleLater(g quota.Grant, use quota.Use, at int64) {
	select {
	case m.ended <- ended{g, use, at, time.Now().Add(m.terms.Load().Lease)}:
	default:
		m.stats.lost.Add(1)
	}
}

func (m *Meter) lease() int64 { return m.terms.Load().Lease.Milliseconds() }

// reachable reports whether to ask Redis now. While it is down one caller in each
// Retry is told to try.
func (m *Meter) reachable() bool {
	at := m.down.Load()
	if at == 0 {
		return true
	}
	now := time.Now()
	return now.UnixNano() >= at && m.down.CompareAndSwap(at, now.Add(m.o.Retry).UnixNano())
}

// saw notes how a call went.
func (m *Meter) saw(err error) {
	if err == nil {
		if m.down.Swap(0) != 0 {
			m.o.Changed(nil)
		}
		return
	}
	m.stats.failures.Add(1)
	if m.down.Swap(time.Now().Add(m.o.Retry).UnixNano()) == 0 {
		m.o.Changed(err)
	}
}
