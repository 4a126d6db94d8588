package scheduler

import "slices"

// victim chooses which sequence behind running[i] gives way to it: of the
// lowest class, then one that has had its minimal run, then the one that loses
// least work, then the youngest. A sequence that was preempted PreemptLimit
// times gives way only to the first of all or to a higher class.
func (s *Scheduler) victim(i int) *sequence {
	q := s.running[i]
	var worst *sequence
	for _, v := range s.running[i+1:] {
		if v.preemptions >= s.cfg.PreemptLimit && i > 0 && v.req.Class == q.req.Class {
			continue
		}
		if worst == nil || s.sooner(v, worst) <= 0 {
			worst = v
		}
	}
	return worst
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

// preempt takes a running sequence off its blocks. Its full blocks stay in the
// cache, so that it resumes mostly from there, in its old turn.
func (s *Scheduler) preempt(q *sequence) {
	s.retract(q)
	s.suspend(q)
	q.preemptions++
	s.stats.Preemptions++
	s.step.pressed = true
	s.step.plan.Preempted = append(s.step.plan.Preempted, q.req.id)
}

// suspend moves a sequence from the running to the resuming ones.
func (s *Scheduler) suspend(q *sequence) {
	s.running, _ = remove(s.running, q)
	s.slots -= q.slots
	if q.forks() { // the other choices wait for slots again
		q.req.slot(q.choice, 1)
		s.listPartial(q.req)
		q.slots = 1
	}
	s.pool.Release(&q.table)
	q.computed, q.shared, q.ran = 0, 0, 0
	s.resuming = insert(s.resuming, q)
}

// displace frees slots and blocks for a candidate at the cost of running
// sequences of strictly lower classes that have had their minimal run: equals
// never displace each other, so nobody plays ping-pong. Nobody is touched if
// all of them together would not be enough.
func (s *Scheduler) displace(c *candidate) bool {
	a := &s.trial
	a.victims = a.victims[:0]
	for _, v := range s.running {
		if v.req.Class > c.req.Class && s.shield(v) == 0 {
			a.victims = append(a.victims, v)
		}
	}
	if len(a.victims) == 0 {
		return false
	}
	slices.SortFunc(a.victims, s.sooner)
	s.match(c)
	need := s.blocksFor(len(c.ids)+s.left(c.req, c.produced)) - c.hit.Full + s.watermark
	slots, blocks := s.cfg.MaxSeqs-s.slots, s.pool.FreeNow()
	n := 0
	for ; n < len(a.victims) && (n == 0 || slots < 1 || blocks < need); n++ {
		slots += a.victims[n].slots
		blocks += a.victims[n].private(s.blockTokens)
	}
	if slots < 1 || blocks < need {
		return false
	}
	for _, v := range a.victims[:n] {
		s.preempt(v)
	}
	a.stale = true
	c.req.blocked = 0
	return true
}
