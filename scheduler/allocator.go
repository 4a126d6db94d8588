package scheduler

import (
	"slices"

	"weir/internal/inference"
	"weir/kvcache"
	"weir/scheduler/outputlen"
)

// allocator gives sequences their slots and blocks and takes them back. It keeps the lists of sequences.
type allocator struct {
	pool      *kvcache.Pool
	lengths   *outputlen.Lengths
	sequences *sequences
	shares    *tenantShares
	requests  *requestTable
	step      *step
	forecast  *forecast
	stats     *Counters
	proposer  Proposer // nil: there is none

	spare []*sequence // ended, for reuse
}

// match looks up what of the candidate is cached.
func (al *allocator) match(c *candidate) {
	c.hit = kvcache.Hit{}
	if limit := c.req.reuse(c.ids); limit > 0 {
		c.hit = al.pool.MatchChain(c.req.Domain, c.req.Chain, c.ids, limit)
	}
}

// pause takes the slot of a running sequence for something.
func (al *allocator) pause(q *sequence, why inference.Gave) {
	q.req.gave = why
	al.step.retract(q)
	al.unseat(q)
	al.sequences.paused = insert(al.sequences.paused, q)
	q.pausedIn = al.step.plans
	al.forecast.stale = true
	al.stats.Pauses++
	al.step.plan.Paused = append(al.step.plan.Paused, q.req.id)
}

// unseat takes a sequence off the running ones. The choices that it would be
// forked to wait for slots again.
func (al *allocator) unseat(q *sequence) {
	al.sequences.running, _ = remove(al.sequences.running, q)
	al.shares.addSlots(q.req.share, -q.slots)
	if q.forks() {
		q.req.assignSlots(q.choice, 1)
		al.requests.trackPartial(q.req)
		q.slots = 1
	}
}

// grow gets the blocks for a sequence's ids, if they are free.
func (al *allocator) grow(q *sequence) bool {
	return al.allot(q, kvcache.Hit{}, len(al.sequences.running)+len(al.sequences.paused) == 1)
}

// allot gets the blocks for a sequence's ids behind what is cached of them. What is protected of others gives way
// to a sequence that is alone.
func (al *allocator) allot(q *sequence, hit kvcache.Hit, alone bool) bool {
	if alone {
		return al.pool.GrowAlone(&q.table, len(q.ids), hit, &al.step.plan.Copies)
	}
	return al.pool.Grow(&q.table, len(q.ids), hit, &al.step.plan.Copies)
}

// outOfCache tells of rows of a request that do not fit although nothing else runs.
func (al *allocator) outOfCache(r *request, rows, held int) error {
	return &inference.LimitError{
		Err: inference.ErrOutOfCache, What: "KV blocks", Need: r.shape.Need(rows), Limit: al.pool.FreeNow() + held,
		Remedy: "give the KV cache more memory",
	}
}

// preempt takes a running or paused sequence off its blocks for something. Its full blocks stay in the
// cache, so that it resumes mostly from there, in its old turn.
func (al *allocator) preempt(q *sequence, why inference.Gave) {
	q.req.gave = why
	al.step.retract(q)
	al.requeue(q)
	q.preemptions++
	al.stats.Preemptions++
	al.step.pressed = true
	al.step.plan.Preempted = append(al.step.plan.Preempted, q.req.id)
}

// requeue moves a sequence from the running or paused ones to the resuming ones.
func (al *allocator) requeue(q *sequence) {
	var paused bool
	if al.sequences.paused, paused = remove(al.sequences.paused, q); !paused {
		al.unseat(q)
	}
	al.pool.Release(&q.table)
	q.computed, q.replay, q.shared, q.runTokens = 0, 0, 0, 0
	al.sequences.preempted = insert(al.sequences.preempted, q)
}

// newSequence takes a sequence for one choice of r from the spares.
func (al *allocator) newSequence(r *request, choice, slots int) *sequence {
	var q *sequence
	if n := len(al.spare); n > 0 {
		q, al.spare = al.spare[n-1], al.spare[:n-1]
	} else {
		q = &sequence{}
	}
	q.req, q.choice, q.slots = r, choice, slots
	q.ids = slices.Grow(q.ids[:0], len(r.Prompt)+min(r.limit, 256))
	q.ids = append(q.ids, r.Prompt...)
	q.computed, q.produced, q.shared, q.runTokens, q.peak = 0, 0, 0, 0, 0
	q.preemptions, q.rows, q.ended, q.late, q.leftOutIn, q.pausedIn = 0, 0, false, false, 0, 0
	q.records, q.forced = [DraftSources]draftRecord{}, q.forced[:0]
	r.choices[choice].seq = q
	return q
}

// releaseSequence takes a sequence off the lists and gives its blocks back,
// except while a plan that is out writes to them; then Commit does.
func (al *allocator) releaseSequence(q *sequence) {
	if q.req.Given == nil {
		al.lengths.Learn(q.req.Tenant, q.req.limit, q.produced)
	}
	var ok bool
	if al.sequences.running, ok = remove(al.sequences.running, q); ok {
		al.shares.addSlots(q.req.share, -q.slots)
	} else if al.sequences.paused, ok = remove(al.sequences.paused, q); !ok {
		al.sequences.preempted, _ = remove(al.sequences.preempted, q)
	}
	al.forecast.stale = true
	if al.step.out && q.rows > 0 {
		q.ended = true
		return
	}
	al.recycle(q)
}

// recycle releases a sequence's blocks and keeps its memory for the next one.
func (al *allocator) recycle(q *sequence) {
	if al.proposer != nil {
		al.proposer.Forget(SequenceID{q.req.id, q.choice})
	}
	al.pool.Release(&q.table)
	q.req = nil
	al.spare = append(al.spare, q)
}

// markShared notes that leading rows of a request's choices lie, or are about to
// lie, in blocks of one another, which the end of one alone does not free.
func (al *allocator) markShared(r *request, rows int) {
	for i := range r.choices {
		if q := r.choices[i].seq; q != nil && q.computed >= rows && q.shared < rows {
			q.shared = rows
			al.forecast.stale = true
		}
	}
}
