package scheduler

import "weir/internal/inference"

// A paused sequence has no slot and gets no rows, but keeps its blocks: it goes
// on later where it stopped, and no row is computed twice. Slots change hands in
// this way, since others wait for a slot for as long as an answer takes; a
// sequence is preempted only for its blocks.
//
// Nobody plays ping-pong: a slot goes from a lower class to a higher one, down to the
// slots that the lower one is guaranteed; to a class that has fewer than those from a
// higher one; or within a class from a tenant above its share to one that stays within
// its own share. So with the same tenants it never comes back the same way.

// makeSeat frees a slot for a request by a pause, or reports false.
func (s *Scheduler) makeSeat(r *request) bool {
	v := s.lowerSeat(r)
	if v == nil && s.entitled(r.party) {
		v = s.surplusSeat(r)
	}
	if v == nil {
		v = s.owedSeat(r)
	}
	if v == nil {
		return false
	}
	s.pause(v)
	return true
}

// owedSeat is the youngest running sequence above the class of a request that has fewer
// slots than its class is guaranteed: of the lowest class that has more than its own
// guaranteed ones. Where the request is known to lack blocks, too, a slot is of no use.
func (s *Scheduler) owedSeat(r *request) *sequence {
	if s.parties.slots[r.Class] >= s.guaranteedSlots(r.Class) || s.pool.FreeFor(r.Domain) < r.blocked {
		return nil
	}
	for i := len(s.running) - 1; i >= 1; i-- {
		v := s.running[i]
		if v.req.Class < r.Class && v.since != s.plans && s.keepsShare(v.req.Class) && !s.isFirst(v) {
			return v
		}
	}
	return nil
}

// lowerSeat is the youngest running sequence of the lowest class below that of
// a request, of those classes that have more slots than they are guaranteed.
func (s *Scheduler) lowerSeat(r *request) *sequence {
	for i := len(s.running) - 1; i >= 0 && s.running[i].req.Class > r.Class; i-- {
		if v := s.running[i]; v.since != s.plans && s.keepsShare(v.req.Class) {
			return v
		}
	}
	return nil
}

// surplusSeat is the youngest running sequence of the tenant furthest above its
// share of a request's class. The first sequence of all is never paused.
func (s *Scheduler) surplusSeat(r *request) *sequence {
	var found *sequence
	for i := len(s.running) - 1; i >= 1; i-- {
		v := s.running[i]
		switch {
		case v.req.Class != r.Class || v.since == s.plans || !s.above(v.req.party):
		case found == nil || v.req.party.slots*found.req.party.weight > found.req.party.slots*v.req.party.weight:
			found = v
		}
	}
	return found
}

// pause takes the slot of a running sequence.
func (s *Scheduler) pause(q *sequence) {
	s.retract(q)
	s.unseat(q)
	s.paused = insert(s.paused, q)
	s.trial.stale = true
	s.stats.Pauses++
	s.step.plan.Paused = append(s.step.plan.Paused, q.req.id)
}

// unseat takes a sequence off the running ones. The choices that it would be
// forked to wait for slots again.
func (s *Scheduler) unseat(q *sequence) {
	s.running, _ = remove(s.running, q)
	s.seat(q.req.party, -q.slots)
	if q.forks() {
		q.req.slot(q.choice, 1)
		s.listPartial(q.req)
		q.slots = 1
	}
}

// unpause gives free slots to paused sequences. Before prompts and newcomers
// are planned, those hold back that would have to give their slot up again.
func (s *Scheduler) unpause(before bool) {
	for len(s.paused) > 0 {
		if q := s.nextPaused(before); q == nil || !s.runAgain(q) {
			return
		}
	}
}

// goOn gives a slot to a paused sequence of a class, before preempted ones and
// newcomers.
func (s *Scheduler) goOn(c inference.Class) bool {
	if len(s.paused) == 0 {
		return false
	}
	q := s.nextPaused(false)
	return q != nil && q.req.Class == c && s.runAgain(q)
}

// runAgain gives a free slot to a paused sequence, and an output its next row.
func (s *Scheduler) runAgain(q *sequence) bool {
	if s.slots >= s.cfg.MaxSeqs || s.step.budget == 0 || s.step.pressed || len(s.running) > 0 && q.decoding() && !s.grow(q) {
		return false
	}
	s.paused, _ = remove(s.paused, q)
	s.running = insert(s.running, q)
	s.seat(q.req.party, q.slots)
	q.since = s.plans
	s.step.plan.Unpaused = append(s.step.plan.Unpaused, q.req.id)
	if q.decoding() && (len(s.running) > 1 || s.cover(0)) {
		s.take(q, 1)
	}
	return true
}

// nextPaused is the paused sequence to go on first: of the highest class, of the
// tenant with the least slots by weight, the oldest. Long prompts wait while
// MaxPrefills others run.
func (s *Scheduler) nextPaused(before bool) *sequence {
	var found *sequence
	full := len(s.running) > 0 && s.longPrefills() >= s.cfg.MaxPrefills
	for _, q := range s.paused {
		switch {
		case found != nil && q.req.Class > found.req.Class:
			return found
		case q.late, before && s.yields(q), full && s.long(q.pending()):
		case found == nil || q.req.party.slots*found.req.party.weight < found.req.party.slots*q.req.party.weight:
			found = q
		}
	}
	return found
}

// yields reports whether a free slot is for somebody who waits rather than for
// a paused sequence: for a higher class, if this one has its guaranteed slots, for a lower
// one that lacks its own, or for another tenant, if this one has its share.
func (s *Scheduler) yields(q *sequence) bool {
	for c := q.req.Class + 1; c < inference.NumClasses; c++ {
		if s.owed(c) {
			return true
		}
	}
	for c := range q.req.Class {
		if s.waiting.Waiting(c) > 0 && s.parties.slots[q.req.Class] >= s.guaranteedSlots(q.req.Class) {
			return true
		}
	}
	return !s.entitled(q.req.party) && s.entitledHead(q.req.Class) != nil
}
