package scheduler

// A sequence whose token could not be sampled in its step is late: what it takes to sample is not there yet, and the
// others do not wait for it. It keeps its slot and its blocks, but gets no rows until Release. Its last row is not
// final and is computed again then, with the same bits, so that the answer is the same as if the token had been
// sampled at once. A late sequence may be paused or preempted as any other; it goes on after Release.

// holdBack takes in the rows of a sequence that is late: all but the last one that is no draft.
func (s *Scheduler) holdBack(q *sequence, rows int) {
	final := min(q.computed+rows, len(q.ids)) - 1
	if q.computed+rows > len(q.ids) {
		s.pool.Truncate(&q.table, len(q.ids))
	}
	s.pool.Commit(&q.table, q.ids, final)
	q.computed = final
	q.peak = max(q.peak, q.computed)
	r := q.req
	r.prefilled = max(r.prefilled, min(q.computed, len(r.Prompt)))
	if r.Logits == LogitsAll {
		r.reported = max(r.reported, min(q.computed, len(r.Prompt)))
	}
	q.late = true
	s.stats.Late++
}

// Release lets a choice go on that was late. Where several were to be forked, each is released: one that was cancelled
// meanwhile has left the sequence to another.
func (s *Scheduler) Release(id ID, choice int) {
	if r := s.requests.find(id); r != nil && choice >= 0 && choice < len(r.choices) && r.choices[choice].seq != nil {
		r.choices[choice].seq.late = false
	}
}
