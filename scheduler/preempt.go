package scheduler

import (
	"slices"

	"weir/internal/inference"
)

// victim chooses which sequence gives way to running[i]: a paused one of its
// class or below, or a running one behind it; of the lowest class, then one that
// has had its minimal run, then the one that loses least work, then the youngest.
// A sequence that was preempted PreemptLimit times gives way only to the first
// of all or to a higher class. Within a class a tenant above its share of the
// blocks takes none from one that is within its own.
func (s *Scheduler) victim(i int) *sequence {
	if c := s.running[i].req.Class; s.contested(c) {
		s.countBlocks(c)
	}
	if v := s.soonest(i, s.paused); v != nil {
		return v
	}
	return s.soonest(i, s.running[i+1:])
}

// soonest is the sequence of a list that gives way to running[i] first.
func (s *Scheduler) soonest(i int, list []*sequence) *sequence {
	q := s.running[i]
	var worst *sequence
	for _, v := range list {
		if v.req.Class < q.req.Class || v.preemptions >= s.cfg.PreemptLimit && i > 0 && v.req.Class == q.req.Class || s.spared(v, q) {
			continue
		}
		if worst == nil || s.sooner(v, worst) <= 0 {
			worst = v
		}
	}
	return worst
}

// spared reports whether a sequence keeps its blocks although another one lacks some: its tenant is within its share of
// them, and the other's is not. Blocks were counted for their class.
func (s *Scheduler) spared(v, q *sequence) bool {
	a, b := v.req.party, q.req.party
	return a != b && v.req.Class == q.req.Class && s.withinShare(a, a.blocks) && !s.withinShare(b, b.blocks+1)
}

// sooner orders sequences by who is preempted first: negative if a is.
func (s *Scheduler) sooner(a, b *sequence) int {
	if a.req.Class != b.req.Class {
		return int(b.req.Class) - int(a.req.Class)
	}
	if x, y := s.shield(a), s.shield(b); x != y {
		return x - y
	}
	if x, y := a.computed-a.shared, b.computed-b.shared; x != y {
		return x - y
	}
	return compare(b, a)
}

// shield grades how much a sequence has suffered already.
func (s *Scheduler) shield(q *sequence) int {
	switch {
	case q.preemptions >= s.cfg.PreemptLimit:
		return 2
	case q.ran < s.cfg.MinRunTokens:
		return 1
	}
	return 0
}

// preempt takes a running or paused sequence off its blocks. Its full blocks stay in the
// cache, so that it resumes mostly from there, in its old turn.
func (s *Scheduler) preempt(q *sequence) {
	s.retract(q)
	s.suspend(q)
	q.preemptions++
	s.stats.Preemptions++
	s.step.pressed = true
	s.step.plan.Preempted = append(s.step.plan.Preempted, q.req.id)
}

// suspend moves a sequence from the running or paused ones to the resuming ones.
func (s *Scheduler) suspend(q *sequence) {
	var paused bool
	if s.paused, paused = remove(s.paused, q); !paused {
		s.unseat(q)
	}
	s.pool.Release(&q.table)
	q.computed, q.shared, q.ran = 0, 0, 0
	s.resuming = insert(s.resuming, q)
}

// displace makes room for a candidate that is crowded out, if others have to give
// way to it, and judges it anew. A slot is had by a pause, blocks by preemption.
func (s *Scheduler) displace(c *candidate) verdict {
	if s.slots >= s.cfg.MaxSeqs {
		if !s.makeSeat(c.req) {
			return crowded
		}
		if v := s.judge(c); v != crowded {
			return v
		}
	}
	v := crowded
	if s.reclaim(c) {
		v = s.judge(c)
	}
	s.trial.fair, s.trial.stale = nil, true
	return v
}

// reclaim preempts sequences that have to give their blocks to a candidate: of
// lower classes, and of tenants above their share of the pool if the candidate's
// stays within its own. Then they are not expected to grow beyond it either.
// Nobody is touched if all of them together would not be enough.
func (s *Scheduler) reclaim(c *candidate) bool {
	a := &s.trial
	a.victims = a.victims[:0]
	fair := s.tallyBlocks(c)
	if fair {
		a.fair, a.stale = c.req.party, true
		s.match(c)
		s.refresh()
		if s.fitsNow(c) {
			c.req.blocked = 0
			return true
		}
	}
	for _, list := range [2][]*sequence{s.paused, s.running} {
		for _, v := range list {
			if s.owes(c.req, v, fair) {
				a.victims = append(a.victims, v)
			}
		}
	}
	if len(a.victims) == 0 {
		return false
	}
	slices.SortFunc(a.victims, s.gives)
	n, enough := s.releasing(c)
	if !enough {
		return false
	}
	for _, v := range a.victims[:n] {
		s.preempt(v)
	}
	a.stale = true
	c.req.blocked = 0
	return true
}

// gives orders sequences by who gives its blocks to a candidate: the first of all is the last.
func (s *Scheduler) gives(a, b *sequence) int {
	if x, y := s.isFirst(a), s.isFirst(b); x != y {
		if x {
			return 1
		}
		return -1
	}
	return s.sooner(a, b)
}

// owes reports whether a sequence has to give its blocks to a request: before its first token or after its minimal run. To
// a higher class it gives them no more often than its limit. What its tenant has above its share it gives again after each
// minimal run, since others would wait for the end of its answer; only its prompt is then computed to the end.
func (s *Scheduler) owes(r *request, v *sequence, fair bool) bool {
	limited, begun := v.preemptions >= s.cfg.PreemptLimit, v.produced > 0
	switch {
	case v.since == s.plans:
		return false
	case v.req.Class > r.Class:
		return !limited && (!begun || v.ran >= s.cfg.MinRunTokens)
	case !fair || v.req.Class != r.Class || v.req.party == r.party:
		return false
	}
	return begun && v.ran >= s.minimalRun(v) || !begun && !limited
}

// A sequence of which many rows were computed again runs on for a token for each rowsPerToken of them before others get its
// tenant's share of the blocks again, up to longestRun minimal runs: otherwise most of the time of two tenants that do not fit into the
// cache together would be spent on what both have computed already.
const (
	rowsPerToken = 8
	longestRun   = 16
)

// minimalRun is how many tokens a sequence produces before others get its tenant's share of the blocks.
func (s *Scheduler) minimalRun(q *sequence) int {
	return max(s.cfg.MinRunTokens, min(q.again/rowsPerToken, longestRun*s.cfg.MinRunTokens))
}

// isFirst reports whether a sequence is the first of the running ones, now or
// when the plan began. Whatever else happens, it advances.
func (s *Scheduler) isFirst(q *sequence) bool {
	return q == s.step.first || len(s.running) > 0 && q == s.running[0]
}

// tallyBlocks counts the blocks of the parties of a candidate's class, and
// reports whether the candidate's would stay within its share of the pool.
func (s *Scheduler) tallyBlocks(c *candidate) (within bool) {
	if !s.contested(c.req.Class) {
		return false
	}
	s.countBlocks(c.req.Class)
	return s.withinShare(c.req.party, c.req.party.blocks+s.blocksFor(len(c.ids)))
}

// countBlocks counts the blocks of the parties of a class.
func (s *Scheduler) countBlocks(class inference.Class) {
	for _, p := range s.parties.active[class] {
		p.blocks = 0
	}
	for _, list := range [2][]*sequence{s.paused, s.running} {
		for _, q := range list {
			if q.req.Class == class {
				q.req.party.blocks += q.held(s.blockTokens)
			}
		}
	}
	for _, p := range s.parties.active[class] {
		p.room = max(s.usable*p.weight/s.parties.weight[class]-p.blocks, 0) * s.blockTokens
	}
}

// withinShare reports whether so many blocks are no more than a party's share.
func (s *Scheduler) withinShare(p *party, blocks int) bool {
	return blocks*s.parties.weight[p.key.class] <= s.usable*p.weight
}

// releasing is how many of the victims, in order, must release their blocks for
// a candidate to fit. Tenants give up what is above their share; those who are
// within it are passed over.
func (s *Scheduler) releasing(c *candidate) (n int, enough bool) {
	a := &s.trial
	s.match(c)
	s.refresh()
	defer s.pool.WithAll()
	for _, v := range a.victims {
		if s.fitsNow(c) {
			break
		}
		p := v.req.party
		if v.req.Class == c.req.Class && s.withinShare(p, p.blocks) {
			continue
		}
		p.blocks -= v.held(s.blockTokens)
		s.pool.Without(&v.table)
		s.unexpect(s.growthOf(v), v.slots)
		a.victims[n] = v
		n++
	}
	enough = s.fitsNow(c)
	a.stale = true // the growth of those that stay was taken out as well
	return n, enough
}

// fitsNow reports whether a candidate fits, without the tables that the pool is told to leave out and the growth of those
// that is not expected any more.
func (s *Scheduler) fitsNow(c *candidate) bool {
	return s.blocksFor(len(c.ids))+s.expected(c)+s.watermark <= s.pool.FreeFor(c.req.Domain)
}
