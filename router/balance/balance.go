package balance

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weir/router/prefix"
)

// ErrNone says that no replica may take a request: none is active, or the caller avoids all that are.
var ErrNone = errors.New("no replica may take the request")

// Config is how a balancer chooses. Zero fields get defaults.
type Config struct {
	Policy Policy
	Index  prefix.Config // of the policy Prefix; its number of replicas is that of the balancer
	Seed   uint64        // of everything that is drawn

	Prefill     time.Duration // of a prompt token at a replica of which nothing is known; default 1 ms
	Pressure    float64       // weight of slowing down what runs there; default 0.25; below 0 is none
	Session     int           // prompt tokens that a session's home is worth; default 64
	Sample      int           // candidates that are drawn at random; default 4
	GateFactor  float64       // a replica is passed over above this times the mean load …
	GateSlack   float64       // … and above the mean by this many requests; defaults 1.25 and 10
	ReportsLast time.Duration // how long a report counts; default 5 s
	SlowStart   time.Duration // how long a replica that comes back takes fewer requests; default 30 s
	Speculative time.Duration // how long a pick counts as cached while no answer has begun, at least; default 2 s
}

func (c *Config) defaults() {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&c.Prefill, time.Millisecond)
	set(&c.ReportsLast, 5*time.Second)
	set(&c.SlowStart, 30*time.Second)
	set(&c.Speculative, 2*time.Second)
	if c.Pressure == 0 {
		c.Pressure = 0.25
	}
	if c.Session == 0 {
		c.Session = 64
	}
	if c.Sample == 0 {
		c.Sample = 4
	}
	if c.GateFactor == 0 {
		c.GateFactor = 1.25
	}
	if c.GateSlack == 0 {
		c.GateSlack = 10
	}
}

// Set is a short list of replicas.
type Set []ReplicaID

// Has says whether a replica is in the set.
func (s Set) Has(id ReplicaID) bool { return slices.Contains(s, id) }

// Request is what a pick needs to know of a request. It is only read. The keys must stay as they are until the lease is done.
type Request struct {
	Keys    []prefix.Key // of the prompt, nil: unknown
	Tokens  int          // of the prompt
	Output  int          // expected tokens of the answer
	Session uint64       // hint: requests of one session profit from one replica; 0 is none
	Avoid   Set          // replicas that must not get it
	Pool    Pool         // whose replicas may get it
	// Holders are replicas from which others can fetch KV blocks of the prompt, those with the most keys of it first.
	Holders []prefix.Match
	Seen    *[]Candidate // gets what the pick has looked at; nil: not wanted
}

// Balancer chooses among the replicas of one model. It is safe for concurrent use. What every pick changes shares no cache line with
// what it only reads.
type Balancer struct {
	c         Config
	zero      time.Time
	index     *prefix.Index
	replicas  []replica
	members   atomic.Pointer[[numPools]members]
	nextSweep atomic.Int64 // when loads are summed again

	mu     sync.Mutex // members change
	expire time.Duration

	_      [64]byte
	source source
	turns  atomic.Uint64 // of RoundRobin
	_      [64]byte
	pools  [numPools]poolLoad

	leases leases
}

// Pool is a group of replicas. A pick is among those of one pool, and compares their loads with one another only; what all of them have
// cached is known together.
type Pool uint8

// The pools.
const (
	Decoding   Pool = iota // replicas that answer requests
	Prefilling             // replicas that compute prompts for them
	numPools
)

// poolLoad is what the replicas of a pool have to do together.
type poolLoad struct {
	flying   atomic.Int64 // requests in flight
	_        [64]byte
	surplus  atomic.Int64 // what active replicas have above what is in flight
	furthest rate         // ramp of the replica that is furthest in its slow start
	_        [64]byte
}

// New makes a balancer without replicas. Times are measured from now on.
func New(now time.Time, c Config) (*Balancer, error) {
	c.defaults()
	if c.Policy > ConsistentHash {
		return nil, fmt.Errorf("balance: policy %d is not known; known are 0 to %d", c.Policy, ConsistentHash)
	}
	if c.Sample < 1 || c.Sample > maxSample {
		return nil, fmt.Errorf("balance: a sample of %d replicas, want 1 to %d", c.Sample, maxSample)
	}
	index, err := prefix.New(c.Index)
	if err != nil {
		return nil, fmt.Errorf("balance: %w", err)
	}
	b := &Balancer{c: c, zero: now, index: index, replicas: make([]replica, index.Replicas())}
	b.source.seed = c.Seed
	b.members.Store(&[numPools]members{})
	return b, nil
}

// Index is what is known of the replicas' caches, for their events.
func (b *Balancer) Index() *prefix.Index { return b.index }

// since is a time as a duration since the balancer's start.
func (b *Balancer) since(now time.Time) time.Duration { return now.Sub(b.zero) }

// Mark is to be taken before a replica is asked for a report.
func (b *Balancer) Mark(id ReplicaID) Mark { return Mark{true, b.replicas[id].counts()} }

// Report takes in what a replica says of itself.
func (b *Balancer) Report(now time.Time, id ReplicaID, rep Report) {
	r := &b.replicas[id]
	if !rep.Since.set {
		rep.Since = b.Mark(id)
	}
	r.report.Store(&reported{rep, b.since(now)})
	if rep.PrefillRate > 0 {
		r.prefill.learn(float64(time.Second) / rep.PrefillRate)
	}
	if rep.FetchRate > 0 {
		r.fetch.set(float64(time.Second) / rep.FetchRate)
	}
}

// Pick chooses a replica and counts the request as its load, until the lease is done. The error is ErrNone.
func (b *Balancer) Pick(now time.Time, r *Request) (Lease, error) {
	p := b.picking(now, r)
	ok := p.choose()
	if r.Seen != nil {
		*r.Seen = p.seen((*r.Seen)[:0], ok)
	}
	if !ok {
		return Lease{}, fmt.Errorf("%w: %d are active, %d to be avoided", ErrNone, len(p.m.active), len(r.Avoid))
	}
	return p.take(), nil
}

func (b *Balancer) picking(now time.Time, r *Request) picking {
	all := b.members.Load()
	p := picking{b: b, m: &all[r.Pool], now: b.since(now), request: *r, random: b.source.draw()}
	for i := range all {
		p.all += len(all[i].active)
	}
	b.sweep(p.now)
	return p
}

// sweepEvery is how old the sum of loads may get.
const sweepEvery = 100 * time.Millisecond

// sweep adds up the loads of active replicas, now and then: what reports say, and what is in flight at others. Between two sweeps
// the mean follows what this balancer picks.
func (b *Balancer) sweep(now time.Duration) {
	if int64(now) < b.nextSweep.Load() || !b.mu.TryLock() {
		return
	}
	defer b.mu.Unlock()
	for i, m := range b.members.Load() {
		sum, furthest := int64(0), 0.0
		for _, id := range m.active {
			furthest = max(furthest, b.replicas[id].ramp(now, b.c.SlowStart))
			sum += int64(b.replicas[id].load(now, b.c.ReportsLast).requests)
		}
		of := &b.pools[i]
		of.furthest.set(furthest)
		of.surplus.Store(sum - of.flying.Load())
	}
	b.nextSweep.Store(int64(now + sweepEvery))
	if now >= b.expire {
		b.index.Expire(now)
		b.expire = now + time.Second
	}
}

// share is how much of its requests a replica takes: less than all while it is in its slow start and another one is further. Where all
// have just started, each takes all.
func (b *Balancer) share(r *replica, now time.Duration) float64 {
	ramp := r.ramp(now, b.c.SlowStart)
	if ramp == 1 {
		return 1
	}
	return ramp / max(ramp, b.pools[r.pool.Load()].furthest.get())
}

// mean is the mean load of a pool's n active replicas.
func (b *Balancer) mean(of Pool, n int) float64 {
	l := &b.pools[of]
	return float64(max(0, l.flying.Load()+l.surplus.Load())) / float64(n)
}

// Status is a replica as the balancer sees it.
type Status struct {
	ID       ReplicaID
	Active   bool
	Draining bool
	InFlight int           // own requests
	Load     int           // requests, with what reports add
	Tokens   int           // of prompts that are not computed yet
	Fresh    bool          // a report counts
	Share    float64       // of its requests that it takes, below 1 in its slow start
	Prefill  time.Duration // expected, of a prompt token
	Overruns int           // prompts in a row that were given up, because they took far longer than expected
	Decode   time.Duration // 0 is unknown
	Keys     int           // in the index
}

// Status lists the replicas.
func (b *Balancer) Status(now time.Time) []Status {
	t := b.since(now)
	b.sweep(t)
	var list []Status
	for i := range b.replicas {
		r := &b.replicas[i]
		if r.is(absent) {
			continue
		}
		l, c := r.load(t, b.c.ReportsLast), r.counts()
		list = append(list, Status{
			ID: ReplicaID(i), Active: r.is(active), Draining: r.is(draining), InFlight: c.own(), Load: l.requests, Tokens: l.tokens,
			Fresh: l.fresh, Share: b.share(r, t), Prefill: time.Duration(r.speed(t)), Overruns: r.overran.Load().count(),
			Decode: time.Duration(r.decode.get()), Keys: b.index.Entries(ReplicaID(i)),
		})
	}
	return list
}
