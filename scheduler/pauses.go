package scheduler

import (
	"weir/internal/inference"
	"weir/kvcache"
	"weir/scheduler/admission"
)

// pauses moves slots from classes and tenants above their share to those below it, and lets paused sequences go on.
//
// A paused sequence has no slot and gets no rows, but keeps its blocks: it goes
// on later where it stopped, and no row is computed twice. Slots change hands in
// this way, since others wait for a slot for as long as an answer takes; a
// sequence is preempted only for its blocks.
//
// Slots do not go back and forth: a slot goes from a lower class to a higher one, down to the
// slots that the lower one is guaranteed; to a class that has fewer than those from a
// higher one; or within a class from a tenant above its share to one that stays within
// its own share. So with the same tenants it never comes back the same way.
type pauses struct {
	cfg       *Config
	pool      *kvcache.Pool
	waiting   *admission.Queue
	requests  *requestTable
	sequences *sequences
	shares    *tenantShares
	pacer     *pacer
	step      *step
	allocator *allocator
	preemptor *preemptor
}

// entitledHead is the waiting request of a class whose turn it is by service, if
// its tenant is entitled to a slot; nil otherwise.
func (ps *pauses) entitledHead(c inference.Class) *request {
	if !ps.shares.contested(c) || ps.waiting.Waiting(c) == 0 {
		return nil
	}
	ps.waiting.Scan(c, false)
	defer ps.waiting.EndScan()
	ref, _, ok := ps.waiting.Next()
	if !ok {
		return nil
	}
	if r := ps.requests.find(ID(ref)); ps.shares.entitled(r.share) {
		return r
	}
	return nil
}

// owed reports whether a class waits with fewer slots than it is guaranteed.
func (ps *pauses) owed(c inference.Class) bool {
	return ps.waiting.Waiting(c) > 0 && ps.shares.slots[c] < ps.shares.guaranteedSlots(c)
}

// freeSlot frees a slot for a request by a pause, or reports false.
func (ps *pauses) freeSlot(r *request) bool {
	v := ps.lowerSlot(r)
	if v == nil && ps.shares.entitled(r.share) {
		v = ps.surplusSlot(r)
	}
	if v == nil {
		v = ps.owedSlot(r)
	}
	if v == nil {
		return false
	}
	ps.allocator.pause(v, gaveTo(r, v))
	return true
}

// owedSlot is the youngest running sequence above the class of a request that has fewer
// slots than its class is guaranteed: of the lowest class that has more than its own
// guaranteed ones. Where the request is known to lack blocks, too, a slot is of no use.
func (ps *pauses) owedSlot(r *request) *sequence {
	if ps.shares.slots[r.Class] >= ps.shares.guaranteedSlots(r.Class) || ps.pool.FreeFor(r.Domain) < r.lacking {
		return nil
	}
	for i := len(ps.sequences.running) - 1; i >= 1; i-- {
		v := ps.sequences.running[i]
		if v.req.Class < r.Class && v.startedIn != ps.step.plans && ps.shares.aboveGuarantee(v.req.Class) && !ps.preemptor.isFirst(v) {
			return v
		}
	}
	return nil
}

// lowerSlot is the youngest running sequence of the lowest class below that of
// a request, of those classes that have more slots than they are guaranteed.
func (ps *pauses) lowerSlot(r *request) *sequence {
	for i := len(ps.sequences.running) - 1; i >= 0 && ps.sequences.running[i].req.Class > r.Class; i-- {
		if v := ps.sequences.running[i]; v.startedIn != ps.step.plans && ps.shares.aboveGuarantee(v.req.Class) {
			return v
		}
	}
	return nil
}

// surplusSlot is the youngest running sequence of the tenant furthest above its
// share of a request's class. The first sequence of all is never paused.
func (ps *pauses) surplusSlot(r *request) *sequence {
	var found *sequence
	for i := len(ps.sequences.running) - 1; i >= 1; i-- {
		v := ps.sequences.running[i]
		switch {
		case v.req.Class != r.Class || v.startedIn == ps.step.plans || !ps.shares.above(v.req.share):
		case found == nil || v.req.share.slots*found.req.share.weight > found.req.share.slots*v.req.share.weight:
			found = v
		}
	}
	return found
}

// resumePaused gives free slots to paused sequences. Before prompts and waiting requests
// are planned (before), it passes over those that would have to give their slot up again.
func (ps *pauses) resumePaused(before bool) {
	for len(ps.sequences.paused) > 0 {
		if q := ps.nextPaused(before); q == nil || !ps.unpause(q) {
			return
		}
	}
}

// admitPaused gives a slot to a paused sequence of a class, before preempted ones and
// waiting requests.
func (ps *pauses) admitPaused(c inference.Class) bool {
	if len(ps.sequences.paused) == 0 {
		return false
	}
	q := ps.nextPaused(false)
	return q != nil && q.req.Class == c && ps.unpause(q)
}

// unpause gives a free slot to a paused sequence, and an output its next row.
func (ps *pauses) unpause(q *sequence) bool {
	if ps.shares.taken >= ps.cfg.MaxSeqs || ps.pacer.budget == 0 || ps.step.pressed || len(ps.sequences.running) > 0 && ps.mustGrow(q) && !ps.allocator.grow(q) {
		return false
	}
	ps.sequences.paused, _ = remove(ps.sequences.paused, q)
	ps.sequences.running = insert(ps.sequences.running, q)
	ps.shares.addSlots(q.req.share, q.slots)
	q.startedIn = ps.step.plans
	ps.step.plan.Unpaused = append(ps.step.plan.Unpaused, q.req.id)
	if ps.mustGrow(q) && (len(ps.sequences.running) > 1 || ps.preemptor.cover(0)) && q.decoding() {
		ps.step.take(q, min(q.pending(), ps.pacer.budget))
	}
	return true
}

// mustGrow reports whether a sequence has no blocks yet for its next rows.
func (ps *pauses) mustGrow(q *sequence) bool { return q.decoding() || ps.pool.Windowed() }

// nextPaused is the paused sequence to go on first: of the highest class, of the
// tenant with the least slots by weight, the oldest. Long prompts wait while
// MaxPrefills others run.
func (ps *pauses) nextPaused(before bool) *sequence {
	var found *sequence
	full := len(ps.sequences.running) > 0 && ps.sequences.longPrefills() >= ps.cfg.MaxPrefills
	for _, q := range ps.sequences.paused {
		switch {
		case found != nil && q.req.Class > found.req.Class:
			return found
		case q.late, before && ps.yields(q), full && ps.sequences.isLong(q.pending()):
		case found == nil || q.req.share.slots*found.req.share.weight < found.req.share.slots*q.req.share.weight:
			found = q
		}
	}
	return found
}

// yields reports whether a free slot is for a waiting request rather than for
// a paused sequence: for a higher class, if this one has its guaranteed slots, for a lower
// one that lacks its own, or for another tenant, if this one has its share.
func (ps *pauses) yields(q *sequence) bool {
	for c := q.req.Class + 1; c < inference.NumClasses; c++ {
		if ps.owed(c) {
			return true
		}
	}
	for c := range q.req.Class {
		if ps.waiting.Waiting(c) > 0 && ps.shares.slots[q.req.Class] >= ps.shares.guaranteedSlots(q.req.Class) {
			return true
		}
	}
	return !ps.shares.entitled(q.req.share) && ps.entitledHead(q.req.Class) != nil
}
