package balance

import (
	"sync"
	"time"

	"weir/router/prefix"
)

// Lease is a request that was counted as a replica's load. It is a plain value; of all copies together, the first Done counts.
type Lease struct {
	Replica ReplicaID
	Reason  Reason

	b    *Balancer
	slot uint32
	turn uint32
}

// Outcome is how a request ended.
type Outcome struct {
	Failed bool // it did not end as it should: nothing is learned from it
	Fault  bool // it failed by the replica's answer, which came sooner than a good one: the replica shall not get more requests for that
	Output int  // tokens, as far as is known
	// Overrun is how long the prompt takes where it was given up here, which took far longer than expected: until then, and to compute it
	// elsewhere. 0: it was not.
	Overrun time.Duration
}

// record is what a balancer keeps of a lease.
type record struct {
	turn    uint32 // of the slot; another one after each end
	replica ReplicaID
	began   bool
	timed   bool // its time tells the replica's speed: it waits for no slot, and for no blocks of another replica, by estimate
	tokens  int  // of the prompt, not cached
	ahead   int  // tokens that waited there when it was picked
	fetch   int  // further tokens of the prompt, whose blocks come from another replica
	picked  time.Duration
	first   time.Duration
	keys    []prefix.Key // where the index is not sure that the replica holds them; nil: it is
	next    uint32       // of the free list, as place + 1
}

// leases keeps the records of all leases.
type leases struct{ parts [leaseParts]leasePart }

const leaseParts = 16

// leasePart is one part of the records, with a lock of its own.
type leasePart struct {
	mu      sync.Mutex
	records []record
	free    uint32 // place + 1
	_       [64]byte
}

// open keeps a record and returns its slot and turn.
func (l *leases) open(part uint32, r *record) (slot, turn uint32) {
	part %= leaseParts
	p := &l.parts[part]
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.free
	if at == 0 {
		p.records = append(p.records, record{})
		at = uint32(len(p.records))
	}
	old := &p.records[at-1]
	p.free, r.turn, r.next = old.next, old.turn+1, 0
	*old = *r
	return (at-1)*leaseParts + part, r.turn
}

// began notes the first token and returns the record, or false if it was noted or the lease has ended.
func (l *leases) began(slot, turn uint32, now time.Duration) (record, bool) {
	p := &l.parts[slot%leaseParts]
	p.mu.Lock()
	defer p.mu.Unlock()
	r := &p.records[slot/leaseParts]
	if r.turn != turn || r.began {
		return record{}, false
	}
	r.began, r.first = true, now
	return *r, true
}

// close ends a lease and returns its record, or false if it has ended.
func (l *leases) close(slot, turn uint32) (record, bool) {
	p := &l.parts[slot%leaseParts]
	p.mu.Lock()
	defer p.mu.Unlock()
	r := &p.records[slot/leaseParts]
	if r.turn != turn {
		return record{}, false
	}
	ended := *r
	*r = record{turn: turn + 1, next: p.free}
	p.free = slot/leaseParts + 1
	return ended, true
}

// Began says that the first token has come: the replica has computed the prompt. Only the first call counts.
func (l Lease) Began(now time.Time) {
	if l.b == nil {
		return
	}
	t := l.b.since(now)
	if r, ok := l.b.leases.began(l.slot, l.turn, t); ok {
		l.b.begin(&r, t)
	}
}

// Done gives the request's load back. It reports whether this was the first call for the lease; all others change nothing.
func (l Lease) Done(now time.Time, o Outcome) bool {
	if l.b == nil {
		return false
	}
	r, ok := l.b.leases.close(l.slot, l.turn)
	if ok {
		l.b.end(&r, l.b.since(now), o)
	}
	return ok
}

// begin gives the prompt's tokens back and learns how fast the replica computes prompts.
func (b *Balancer) begin(r *record, now time.Duration) {
	p := &b.replicas[r.replica]
	p.begun.Add(int64(r.tokens))
	p.inTime(now, now-r.picked, r.ahead+r.tokens+r.fetch)
	if n := r.ahead + r.tokens; r.timed && n >= leastTokens && now > r.picked {
		p.prefill.learn(float64(now-r.picked) / float64(n))
	}
	if len(r.keys) > 0 {
		b.index.Confirm(r.replica, r.keys)
	}
}

// leastTokens is how many tokens tell something of a replica's speed.
const leastTokens = 64

// end gives the rest back.
func (b *Balancer) end(r *record, now time.Duration, o Outcome) {
	p := &b.replicas[r.replica]
	if !r.began {
		p.begun.Add(int64(r.tokens))
	}
	p.ends.Add(1)
	b.pools[p.pool.Load()].flying.Add(-1)
	if o.Fault || !o.Failed {
		p.faults.learn(now, o.Fault)
	}
	if o.Overrun > 0 {
		p.overrun(now, o.Overrun, r.ahead+r.tokens+r.fetch)
	}
	if o.Failed {
		return
	}
	p.service.learn(float64(now - r.picked))
	if r.began && o.Output > 1 {
		p.decode.learn(float64(now-r.first) / float64(o.Output-1))
	}
	if !r.began && len(r.keys) > 0 {
		b.index.Confirm(r.replica, r.keys)
	}
}
