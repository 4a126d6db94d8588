package scheduler

import (
	"slices"

	"weir/internal/inference"
	"weir/kvcache"
)

// candidate is a sequence that may start now: a waiting request's first one,
// or a preempted one.
type candidate struct {
	req      *request
	seq      *sequence // nil for a waiting request
	ids      []inference.TokenID
	produced int
	most     int // choices that it could start for; they get as many slots as fit, at least one
	slots    int // these, after judge
	hit      kvcache.Hit
	need     int // blocks that it lacked, after judge
}

// verdict is what stands in the way of a candidate.
type verdict uint8

const (
	fits         verdict = iota
	lacksRoom            // slots or blocks are taken
	overLimit            // MaxPrefills long prompts are ahead of it, or its call has all slots that one call may have
	awaitsPrefix         // a running prompt is computing what it can share
	neverFits            // nothing runs and it still does not fit
)

// judge says whether a candidate can start now. What lacked blocks is not
// asked again while even fewer are free, except every few steps, since others
// may have published blocks that it can share.
func (a *admitter) judge(c *candidate) verdict {
	const recheck = 8 // plans
	r := c.req
	if a.pool.Stateful() {
		c.most = 1 // the others begin with its checkpoint
	}
	if c.slots = min(c.most, a.cfg.MaxSeqs-a.shares.taken); c.slots < 1 {
		return lacksRoom
	}
	if c.seq == nil && (r.Group != "" || r.N > 1) {
		taken := a.sequences.callSlots(r)
		if c.slots = min(c.slots, max(a.shares.callLimit(taken)-taken, 0)); c.slots < 1 {
			return overLimit
		}
	}
	if r.lacking > 0 && a.pool.FreeFor(r.Domain) < r.lacking && a.step.plans-r.judgedIn < recheck && len(a.sequences.running)+len(a.sequences.paused) > 0 {
		return lacksRoom
	}
	a.allocator.match(c)
	switch {
	case a.sequences.isLong(len(c.ids)-c.hit.Tokens) && a.sequences.longPrefills() >= a.cfg.MaxPrefills && !a.sequences.keptOut(r.share):
		return overLimit
	case r.overtaken < a.cfg.OvertakeLimit && a.sequences.inFlight(c):
		return awaitsPrefix
	}
	if r.started && c.seq == nil {
		a.allocator.markShared(r, r.wholeBlocks())
	}
	v := a.forecast.footprint(c)
	if v == lacksRoom && c.slots > 1 {
		c.slots = 1
		v = a.forecast.footprint(c)
	}
	r.lacking, r.judgedIn = 0, a.step.plans
	if v != fits {
		r.lacking = c.need
	}
	return v
}

// displace makes room for a candidate that lacks slots or blocks, if others have to give
// way to it, and judges it again. Pauses free slots, preemption frees blocks.
func (a *admitter) displace(c *candidate) verdict {
	if a.shares.taken >= a.cfg.MaxSeqs {
		if !a.pauses.freeSlot(c.req) {
			return lacksRoom
		}
		if v := a.judge(c); v != lacksRoom {
			return v
		}
	}
	v := lacksRoom
	if a.preemptor.reclaim(c) {
		v = a.judge(c)
	}
	a.forecast.fairShare, a.forecast.stale = nil, true
	return v
}

// start gives a candidate that fits its blocks and its first rows.
func (a *admitter) start(c *candidate) bool {
	r, q, p := c.req, c.seq, a.step.plan
	born := q == nil
	if born {
		k := r.next + slices.IndexFunc(r.choices[r.next:], func(c choice) bool { return !c.ended })
		q = a.allocator.newSequence(r, k, 1)
	}
	a.pool.Begin(&q.table, r.Domain)
	a.pool.SetClass(&q.table, retention(r.Class))
	if !a.allocator.allot(q, c.hit, len(a.sequences.running)+len(a.sequences.paused) == 0) {
		return a.undoStart(c, q)
	}
	q.table.Expect(len(r.Prompt))
	c.hit.Tokens = q.table.Tokens() // a hit may come without its part of a block
	if q.slots = c.slots; born || q.slots > 1 {
		r.assignSlots(q.choice, q.slots)
	}
	switch {
	case !r.started:
		r.stateless = max(c.hit.Fork-c.hit.Tokens, 0)
		a.dequeue(r, c.hit.Tokens)
	case born: // a further choice: its request has left the queue long ago
	default:
		a.sequences.preempted, _ = remove(a.sequences.preempted, q)
		r.overtaken = 0
		p.Resumed = append(p.Resumed, r.id)
		a.stats.RecomputedTokens += uint64(max(0, q.peak-c.hit.Tokens))
	}
	q.computed, q.shared = c.hit.Tokens, c.hit.Full*r.shape.BlockTokens()
	q.borrowed = q.table.Borrowed()
	if born && len(r.choices) > 1 && r.complete() {
		q.shared = r.wholeBlocks() // the last block becomes one with the others' when it is full
	}
	q.recomputed = max(0, q.peak-c.hit.Tokens)
	q.peak = max(q.peak, q.computed)
	r.prefilled = max(r.prefilled, min(q.computed, len(r.Prompt)))
	a.requests.trackPartial(r)
	a.sequences.running = insert(a.sequences.running, q)
	a.shares.addSlots(r.share, q.slots)
	q.startedIn = a.step.plans
	if !a.forecast.stale {
		a.forecast.add(a.forecast.growthOf(q), q.slots)
	}
	if !a.prefiller.finish(q) {
		a.pacer.unfinished += min(q.pending(), a.cfg.PrefillChunk)
	}
	return true
}

// undoStart undoes a start for which the pool took back its word.
func (a *admitter) undoStart(c *candidate, q *sequence) bool {
	a.pool.Release(&q.table)
	if c.seq == nil {
		c.req.choices[q.choice].seq = nil
		a.allocator.spare = append(a.allocator.spare, q)
	}
	return false
}

// dequeue takes a request out of the queue for good.
func (a *admitter) dequeue(r *request, cached int) {
	r.charged = a.charges.promptCost(len(r.Prompt), cached)
	r.flow = a.waiting.Take(r.charged)
	r.started = true
	a.requests.trackDeadline(r)
	a.admitted++
	r.order = a.admitted
	r.cached = cached
	a.step.plan.Admitted = append(a.step.plan.Admitted, r.id)
	a.stats.Admitted++
	a.stats.PromptTokens += uint64(len(r.Prompt))
	a.stats.CachedTokens += uint64(cached)
}

// retention is how long the blocks of a request are kept in the prefix cache
// beside others: what a batch request leaves goes before conversations do.
func retention(c inference.Class) kvcache.Class {
	switch c {
	case inference.Interactive:
		return kvcache.Retained
	case inference.Batch:
		return kvcache.Ephemeral
	default:
		return kvcache.Normal
	}
}
