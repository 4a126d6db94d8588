package balance

import (
	"math"
	"sync/atomic"
	"time"

	"weir/router/prefix"
)

// ReplicaID is the number of a replica within a balancer. Numbers are used again.
type ReplicaID = prefix.Replica

// Member is what is known of a replica when it is added.
type Member struct {
	Slots    int // sequences that it runs at a time; 0 is unknown
	Blocks   int // of its prefix cache, as keys of the index; 0 is unknown
	Pool     Pool
	Distance time.Duration // what going there costs more than to others: another zone, another region
}

// Report is what a replica says of itself.
type Report struct {
	Running       int // requests
	Waiting       int
	WaitingTokens int     // prompt tokens that are not computed yet, of waiting and running requests; negative is unknown
	KV            float64 // share of the KV cache that is used
	PrefillRate   float64 // prompt tokens a second while it computes prompts; 0 is unknown
	FetchRate     float64 // prompt tokens a second whose KV blocks come from other replicas; 0 is unknown, or none do
	// Since is what the balancer had counted when the report was asked for, by Mark. Without it, the report is taken to be as new as its
	// arrival.
	Since Mark
}

// Mark is how far a balancer's counts of a replica had come.
type Mark struct {
	set    bool
	counts counts
}

// counts only grow, so that differences between two moments are exact.
type counts struct {
	picks, ends  int64 // requests
	given, begun int64 // prompt tokens not cached: of requests picked, and of those that began or ended
}

// state says whether a replica gets requests.
type state uint32

const (
	absent state = iota
	active
	suspended // it may come back: ejected, or not ready
	draining  // it ends what it has
)

// replica is one replica. Its counts are changed by anyone, all else behind the balancer's lock. It takes two cache lines: the second
// one has what each request changes.
type replica struct {
	state    atomic.Uint32
	pool     atomic.Uint32
	since    atomic.Int64 // when its slow start began, a duration since the balancer's start; a past one is over
	report   atomic.Pointer[reported]
	prefill  rate // nanoseconds per prompt token
	slots    atomic.Int64
	distance atomic.Int64            // nanoseconds
	fetch    rate                    // nanoseconds per prompt token whose KV is fetched; 0: it fetches none, as far as is known
	overran  atomic.Pointer[overrun] // nil: prompts ended in time

	picks, ends  atomic.Int64
	given, begun atomic.Int64
	service      rate // nanoseconds of a request from pick to end
	decode       rate // nanoseconds between two output tokens
	faults       faults
}

// reported is a report and when it came.
type reported struct {
	Report
	at time.Duration
}

func (r *replica) is(s state) bool { return state(r.state.Load()) == s }

func (r *replica) counts() counts {
	// Ends are read before picks, so that a request that comes and goes meanwhile is not an end without a pick.
	c := counts{ends: r.ends.Load(), begun: r.begun.Load()}
	c.picks, c.given = r.picks.Load(), r.given.Load()
	return c
}

// own is the number of requests in flight that this balancer picked.
func (c *counts) own() int { return int(c.picks - c.ends) }

// load is what a replica has to do, as far as is known.
type load struct {
	requests int
	tokens   int // of prompts, not computed yet
	kv       float64
	fresh    bool // a report counts
}

// load is the replica's load at a time.
func (r *replica) load(now, last time.Duration) load {
	c := r.counts()
	l := load{requests: c.own(), tokens: int(c.given - c.begun)}
	rep := r.report.Load()
	if rep == nil || now-rep.at > last {
		return l
	}
	at := &rep.Since.counts
	l.fresh, l.kv = true, rep.KV
	l.requests = max(l.requests, rep.Running+rep.Waiting+int(c.picks-at.picks)-int(c.ends-at.ends))
	if rep.WaitingTokens < 0 {
		return l // own counts are all that is known of them
	}
	// A report may leave out what running prompts still need, and own counts what they have got: the greater one is safe.
	l.tokens = max(l.tokens, rep.WaitingTokens+int(c.given-at.given)-int(c.begun-at.begun))
	return l
}

// ramp is the share of its requests that a replica in its slow start takes: from a tenth, growing to 1.
func (r *replica) ramp(now, slow time.Duration) float64 {
	past := now - time.Duration(r.since.Load())
	if past >= slow {
		return 1
	}
	return 0.1 + 0.9*float64(past)/float64(slow)
}

// reset makes a replica a new one.
func (r *replica) reset(m Member, prefill float64) {
	r.report.Store(nil)
	r.prefill.set(prefill)
	r.decode.set(0)
	r.fetch.set(0)
	r.service.set(0)
	r.faults.bits.Store(0)
	r.overran.Store(nil)
	r.slots.Store(int64(m.Slots))
	r.distance.Store(int64(m.Distance))
	r.pool.Store(uint32(m.Pool))
}

// faults is the share of a replica's latest requests that it answered with a fault. Without further requests it halves
// every faultsHalve, so that a replica which is avoided for it is tried again. Changes at the same time may be lost.
type faults struct {
	bits atomic.Uint64
	at   atomic.Int64 // when it was changed, since the balancer's start
}

const (
	faultsHalve = 10 * time.Second
	maxFaults   = 0.99 // of the share, so that the expected time stays finite
	leastFaults = 0.001
)

// share is between 0 and maxFaults.
func (f *faults) share(now time.Duration) float64 {
	v := math.Float64frombits(f.bits.Load())
	if v == 0 {
		return 0
	}
	v = min(v, maxFaults) * math.Exp2(-float64(now-time.Duration(f.at.Load()))/float64(faultsHalve))
	if v < leastFaults {
		return 0
	}
	return v
}

// learn takes in the end of a request. A good end changes nothing for a replica without faults.
func (f *faults) learn(now time.Duration, fault bool) {
	if !fault && f.bits.Load() == 0 {
		return
	}
	v := f.share(now) * (1 - learning)
	if fault {
		v += learning
	}
	if v < leastFaults {
		v = 0
	}
	f.at.Store(int64(now))
	f.bits.Store(math.Float64bits(v))
}

// rate is a running mean that is read and changed by anyone; 0 is nothing known.
type rate struct{ bits atomic.Uint64 }

func (r *rate) get() float64  { return math.Float64frombits(r.bits.Load()) }
func (r *rate) set(v float64) { r.bits.Store(math.Float64bits(v)) }

// learning is the weight of a new sample.
const learning = 0.1

// learn moves the mean towards a sample. One sample moves it by no more than to ten times what it was.
func (r *rate) learn(v float64) {
	for {
		old := r.bits.Load()
		mean := math.Float64frombits(old)
		next := v
		if mean > 0 {
			next = mean + learning*(min(v, 100*mean)-mean)
		}
		if r.bits.CompareAndSwap(old, math.Float64bits(next)) {
			return
		}
	}
}
