package balance

import (
	"math"
	"time"

	"weir/router/prefix"
)

const (
	maxSample     = 16
	maxMatches    = 8
	maxCandidates = maxMatches + maxSample + 1
	// Up to this many replicas, LeastLoad looks at all; above, at a sample: the least of 16 is hardly worse than the least of all.
	exactLoad = 64
)

// picking is one pick in progress.
type picking struct {
	b       *Balancer
	m       *members
	all     int // active replicas of all pools
	now     time.Duration
	request Request
	random  random

	list   [maxCandidates]candidate
	n      int // of list
	mean   float64
	chosen candidate
	why    Why
}

// candidate is a replica that a pick looks at.
type candidate struct {
	id     ReplicaID
	home   bool // of the session
	slot   bool // it need not wait for a slot
	hit    int  // keys that it holds
	tokens int  // of the prompt, not cached
	fetch  int  // further ones, whose KV blocks it fetches from another replica
	ahead  int  // tokens that wait there
	load   int
	kv     float64
	cost   float64 // nanoseconds for Prefix, requests for the others: the least is chosen
}

// choose finds the replica; false when none may take the request.
func (p *picking) choose() bool {
	n := len(p.m.active)
	if n == 0 {
		return false
	}
	p.mean = p.b.mean(p.request.Pool, n)
	ok := p.byPolicy(n)
	if n == 1 {
		p.why = Only
	}
	return ok
}

// byPolicy finds the replica among n.
func (p *picking) byPolicy(n int) bool {
	switch p.b.c.Policy {
	case LeastLoad:
		p.sample(n <= exactLoad, maxSample)
		return p.least()
	case PowerOfTwo:
		p.sample(n <= 2, 2)
		return p.least()
	case RoundRobin:
		return p.next()
	case ConsistentHash:
		return p.ring()
	default:
		return p.prefix()
	}
}

// may says whether a replica may get the request. In its slow start it may for a share of them.
func (p *picking) may(id ReplicaID) bool {
	r := &p.b.replicas[id]
	if !r.is(active) || Pool(r.pool.Load()) != p.request.Pool || p.request.Avoid.Has(id) {
		return false
	}
	share := p.b.share(r, p.now)
	return share >= 1 || p.random.float() < share
}

// consider puts a replica on the list if it may get the request and is not there yet.
func (p *picking) consider(id ReplicaID) *candidate {
	for i := range p.list[:p.n] {
		if p.list[i].id == id {
			return &p.list[i]
		}
	}
	if p.n == len(p.list) || !p.may(id) {
		return nil
	}
	p.list[p.n] = p.candidate(id)
	p.n++
	return &p.list[p.n-1]
}

func (p *picking) candidate(id ReplicaID) candidate {
	r := &p.b.replicas[id]
	l := r.load(p.now, p.b.c.ReportsLast)
	cost := float64(l.requests)
	if share := r.faults.share(p.now); share > 0 {
		cost = (cost+1)/(1-share) - 1 // requests until one is answered
	}
	return candidate{id: id, load: l.requests, ahead: l.tokens, kv: l.kv, tokens: p.tokens(), slot: true, cost: cost}
}

// tokens is the length of the prompt, guessed from its keys where it is not given.
func (p *picking) tokens() int {
	if p.request.Tokens > 0 {
		return p.request.Tokens
	}
	const bytesPerToken = 4
	return len(p.request.Keys) * prefix.PieceBytes / bytesPerToken
}

// sample considers n replicas drawn at random, or all.
func (p *picking) sample(all bool, n int) {
	if all || n >= len(p.m.active) {
		for _, id := range p.m.active {
			p.consider(id)
			if p.n == len(p.list) {
				p.keepLeast()
			}
		}
		return
	}
	for want := p.n + n; n > 0 && p.n < want; n-- {
		p.consider(p.m.active[p.random.below(len(p.m.active))])
	}
}

// keepLeast leaves the least loaded candidate on a list that is full.
func (p *picking) keepLeast() {
	p.least()
	p.list[0], p.n = p.chosen, 1
}

// least chooses the candidate of least cost, at random among equals; any other replica when there is no candidate.
func (p *picking) least() bool {
	best, ties := math.Inf(1), 0
	for i := range p.list[:p.n] {
		c := &p.list[i]
		switch {
		case c.cost < best:
			best, ties, p.chosen = c.cost, 1, *c
		case c.cost == best && ties > 0:
			if ties++; p.random.below(ties) == 0 {
				p.chosen = *c
			}
		}
	}
	return ties > 0 || p.any()
}

// any chooses a replica when no candidate is left, slow start or not.
func (p *picking) any() bool {
	n := len(p.m.active)
	from := p.random.below(n)
	for i := range n {
		id := p.m.active[(from+i)%n]
		if p.b.replicas[id].is(active) && !p.request.Avoid.Has(id) {
			p.chosen = p.candidate(id)
			return true
		}
	}
	return false
}

// next chooses the replica whose turn it is.
func (p *picking) next() bool {
	n := uint64(len(p.m.active))
	turn := p.b.turns.Add(1) - 1
	for i := range n {
		if id := p.m.active[(turn+i)%n]; p.may(id) {
			p.chosen = p.candidate(id)
			return true
		}
	}
	return p.any()
}

// ring chooses the first replica on the ring, from the prompt's place on, that is not loaded above its bound.
func (p *picking) ring() bool {
	at := p.m.at(p.place())
	bound := p.b.c.GateFactor*p.mean + 1
	for i := range p.m.ring {
		id := p.m.ring[(at+i)%len(p.m.ring)].replica
		seen := p.n
		c := p.consider(id)
		if c == nil || p.n == seen { // not allowed, or met before
			continue
		}
		if float64(c.load) <= bound {
			if p.chosen = *c; p.n > 1 {
				p.why = ByGate
			}
			return true
		}
		if p.n == len(p.list) {
			break
		}
	}
	p.why = ByGate
	return p.least()
}

// headKeys is how many keys of a prompt decide its place on the ring.
const headKeys = 4

// place is where on the ring a request belongs.
func (p *picking) place() uint64 {
	switch keys := p.request.Keys; {
	case len(keys) > 0:
		k := &keys[min(len(keys), headKeys)-1]
		place := uint64(0)
		for _, b := range k[:8] {
			place = place<<8 | uint64(b)
		}
		return place
	case p.request.Session != 0:
		return mix(p.request.Session)
	default:
		return p.random.next()
	}
}

// prefix chooses by expected time to the first token.
func (p *picking) prefix() bool {
	var buf [numPools * maxMatches]prefix.Match
	most := maxMatches
	if p.all > len(p.m.active) { // those of other pools are found, too
		most = len(buf)
	}
	for _, m := range p.b.index.Lookup(buf[:0:most], p.request.Keys, uint32(p.random.next())) {
		if c := p.consider(m.Replica); c != nil {
			c.hit = m.Depth
		}
	}
	if p.request.Session != 0 {
		if c := p.consider(p.m.home(p.request.Session)); c != nil {
			c.home = true
		}
	}
	p.sample(len(p.m.active) <= p.b.c.Sample, p.b.c.Sample)
	free, all := math.Inf(1), math.Inf(1)
	for i := range p.list[:p.n] {
		c := &p.list[i]
		p.price(c)
		all = min(all, c.cost)
		if !p.gated(c) {
			free = min(free, c.cost)
		}
	}
	for i := range p.list[:p.n] {
		switch c := &p.list[i]; {
		case math.IsInf(free, 1): // all are above the gate: the least loaded of them
			c.cost = float64(c.load)
		case p.gated(c):
			c.cost = math.Inf(1)
		}
	}
	ok := p.least()
	if free > all {
		p.why = ByGate
	} else {
		p.why = p.reason()
	}
	return ok
}

// gated says whether a candidate is loaded too far above the mean.
func (p *picking) gated(c *candidate) bool {
	load := float64(c.load)
	return load > p.b.c.GateFactor*p.mean && load > p.mean+p.b.c.GateSlack
}

// reason is why the chosen candidate costs least.
func (p *picking) reason() Why {
	switch c := &p.chosen; {
	case c.hit > 0:
		return ByPrefix
	case c.home:
		return BySession
	default:
		return ByLoad
	}
}

const (
	unknownOutput  = 128 // tokens
	unknownService = float64(time.Second)
	tightKV        = 0.9  // share of the KV cache from which on sequences are preempted soon
	tightFactor    = 10.0 // how much more a sequence weighs in a full cache
)

// price estimates a candidate's cost.
func (p *picking) price(c *candidate) {
	r := &p.b.replicas[c.id]
	speed := r.speed(p.now)
	if c.hit > 0 {
		c.tokens = max(1, c.tokens-c.tokens*c.hit/len(p.request.Keys))
	}
	fetching := p.fetching(c)
	c.cost = speed*float64(c.ahead+c.tokens) + fetching + float64(r.distance.Load())
	if slots := int(r.slots.Load()); slots > 0 && c.load >= slots {
		c.slot = false
		c.cost += float64(c.load-slots+1) * r.service.get() / float64(slots)
	}
	output := p.request.Output
	if output == 0 {
		output = unknownOutput
	}
	pressure := max(0, p.b.c.Pressure) * float64(c.load) * float64(output) * speed
	if c.kv > tightKV {
		pressure *= 1 + (tightFactor-1)*(c.kv-tightKV)/(1-tightKV)
	}
	c.cost += pressure
	if share := r.faults.share(p.now); share > 0 { // each fault costs a request elsewhere
		c.cost = (c.cost + share*max(r.service.get(), unknownService)) / (1 - share)
	}
	if c.home {
		c.cost -= speed * float64(p.b.c.Session)
	}
}

// What fetching KV blocks takes beside the time of their bytes, and the least number of them that is worth telling a replica of.
const (
	fetchDelay = 5 * time.Millisecond
	LeastFetch = 16
)

// fetching moves those of a candidate's tokens that it would fetch from another replica out of those that it computes, and returns the
// time in nanoseconds. Computing them bounds it: the replica gives a fetch no longer.
func (p *picking) fetching(c *candidate) float64 {
	of := &p.b.replicas[c.id]
	each, speed := of.fetch.get(), of.speed(p.now)
	if each == 0 {
		return 0
	}
	for _, h := range p.request.Holders {
		if h.Depth < c.hit+LeastFetch {
			break
		}
		if h.Replica == c.id {
			continue
		}
		n := min((h.Depth-c.hit)*p.tokens()/len(p.request.Keys), c.tokens-1)
		took := float64(fetchDelay) + each*float64(n)
		if took >= speed*float64(n) {
			return 0
		}
		c.tokens, c.fetch = c.tokens-n, n
		return took
	}
	return 0
}

// take counts the request at the chosen replica.
func (p *picking) take() Lease {
	b, c := p.b, &p.chosen
	r := &b.replicas[c.id]
	r.picks.Add(1)
	r.given.Add(int64(c.tokens))
	b.pools[p.request.Pool].flying.Add(1)
	var unsure []prefix.Key
	if b.c.Policy == Prefix && len(p.request.Keys) > 0 {
		expected := time.Duration(2 * r.speed(p.now) * float64(c.ahead+c.tokens))
		if b.index.Put(c.id, p.request.Keys, c.hit, p.now, p.now+max(b.c.Speculative, expected)) {
			unsure = p.request.Keys
		}
	}
	slot, turn := b.leases.open(uint32(p.random.next()), &record{
		replica: c.id, timed: c.slot && c.fetch == 0, tokens: c.tokens, ahead: c.ahead, fetch: c.fetch, picked: p.now, keys: unsure,
	})
	return Lease{
		Replica: c.id, Reason: Reason{Why: p.why, Policy: b.c.Policy, Hit: c.hit, Of: len(p.request.Keys)},
		b: b, slot: slot, turn: turn,
	}
}
