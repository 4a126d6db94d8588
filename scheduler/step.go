package scheduler

// step is a plan in the making, or out: from the start of Plan to Commit.
type step struct {
	pacer *pacer // counts its rows

	plans   uint64 // calls of Plan
	plan    *Plan
	seqs    []*sequence // seqs[i] runs plan.Chunks[i]
	first   *sequence   // the first running one when Plan was called, which no tenant's share touches
	pressed bool        // a sequence lacked blocks: nothing new is admitted
	out     bool        // the engine is working on it
	began   int64       // when Plan was called
}

// begin starts a plan.
func (st *step) begin(now int64, p *Plan) {
	*st = step{pacer: st.pacer, plans: st.plans + 1, plan: p, seqs: st.seqs[:0], began: now}
}

// finish ends the plan that is out.
func (st *step) finish() { st.seqs, st.plan = st.seqs[:0], nil }

// take plans n more rows of a sequence, by opening its chunk or making it
// longer. The table covers them already.
func (st *step) take(q *sequence, n int) {
	if q.rows == 0 {
		q.chunk = len(st.seqs)
		st.seqs = append(st.seqs, q)
		st.plan.Chunks = append(st.plan.Chunks, Chunk{})
	}
	st.pacer.count(q, n)
	q.rows += n
	st.describe(q)
}

// describe writes a sequence's chunk.
func (st *step) describe(q *sequence) {
	r, end := q.req, q.computed+q.rows
	c := &st.plan.Chunks[q.chunk]
	c.Request, c.Choice, c.User = r.id, q.choice, r.User
	c.Start, c.Count, c.Tokens, c.table = q.computed, q.rows, q.ids[q.computed:end:end], &q.table
	c.LogitRows, c.Samples = 0, 0
	c.Drafts = max(0, end-len(q.ids))
	c.Forced = c.Drafts > 0 && len(q.forced) > 0
	c.Decode = q.decoding()
	c.Final = q.computed < len(r.Prompt) && end >= len(r.Prompt)
	switch {
	case r.Logits == LogitsAll && r.reported < len(r.Prompt):
		c.LogitRows = max(0, end-max(q.computed, r.reported))
	case end >= len(q.ids) && r.Logits != LogitsNone:
		c.LogitRows = 1 + c.Drafts
	}
	switch {
	case end < len(q.ids) || r.limit == 0:
	case q.forks():
		c.Samples = r.next
	default:
		c.Samples = 1
	}
}

// retract takes a sequence's chunk out of the plan in the making.
func (st *step) retract(q *sequence) {
	if q.rows == 0 {
		return
	}
	p := st.plan
	st.seqs = append(st.seqs[:q.chunk], st.seqs[q.chunk+1:]...)
	p.Chunks = append(p.Chunks[:q.chunk], p.Chunks[q.chunk+1:]...)
	for i := q.chunk; i < len(st.seqs); i++ {
		st.seqs[i].chunk = i
	}
	st.pacer.count(q, -q.rows)
	q.rows = 0
}
