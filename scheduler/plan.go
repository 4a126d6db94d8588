package scheduler

import (
	"math"
	"time"

	"weir/internal/inference"
	"weir/kvcache"
	"weir/scheduler/cost"
)

// step is a plan from the start of Plan to Commit.
type step struct {
	plan    *Plan
	seqs    []*sequence // seqs[i] runs plan.Chunks[i]
	first   *sequence   // of the running ones at its start, which no tenant's share touches
	budget  int         // rows left
	pressed bool        // a sequence lacked blocks: nothing new is admitted
	out     bool        // the engine is working on it

	began    int64                     // when Plan was called
	load     cost.Load                 // of the planned rows
	outputs  cost.Load                 // of these, the rows that continue outputs
	classes  [inference.NumClasses]int // outputs of each class that have rows
	target   time.Duration             // for the inter-token latency of these; 0 is none
	prompt   int                       // planned rows that are not
	finishes bool                      // the last row of a prompt is among them
	limit    time.Duration             // that the step may take by its estimate
	least    int                       // prompt rows that it has room for whatever they take
	wanted   int                       // rows that new prompts could take which the step cannot finish
	short    shortStep
}

func (p *Plan) reset() {
	*p = Plan{
		Copies: p.Copies[:0], Chunks: p.Chunks[:0], Failed: p.Failed[:0],
		Admitted: p.Admitted[:0], Resumed: p.Resumed[:0], Preempted: p.Preempted[:0],
		Paused: p.Paused[:0], Unpaused: p.Unpaused[:0],
	}
}

// Plan fills p with the next step; false means that there is nothing to run:
// no request is live then, but those that wait for Release. p.Failed may name ended requests either way. Every
// plan that is not empty must be followed by Commit or Abandon; until then Plan
// reports false.
//
// Rows are given out in this order, inside one budget of rows and time: every
// running output first, then the oldest prompt's guaranteed part, then prompts
// that the step can finish, shortest first, then new requests, then what is
// left to the prompts that remain, shortest first again, and to drafts.
func (s *Scheduler) Plan(now int64, p *Plan) bool {
	p.reset()
	if s.step.out {
		return false
	}
	s.plans++
	s.step = step{plan: p, seqs: s.step.seqs[:0], budget: s.cfg.MaxBatchTokens, began: now}
	p.Failed = append(p.Failed, s.shed...)
	clear(s.shed)
	s.shed = s.shed[:0]
	s.waiting.Exchange()
	s.pool.Advance(now)
	s.expire(now)
	if len(s.running) > 0 {
		s.step.first = s.running[0]
	}
	s.schedule()
	if len(p.Chunks) == 0 && s.step.pressed {
		// Whoever ran gave way in vain: start over with an empty engine, where
		// a request either fits or fails.
		s.step.pressed = false
		s.schedule()
	}
	for i := range p.Chunks {
		p.Rows += p.Chunks[i].Count
		p.Drafts += p.Chunks[i].Drafts
		if p.Chunks[i].Decode {
			p.Decodes++
		}
	}
	p.Estimate = s.cost.Estimate(s.step.load)
	s.step.out = len(p.Chunks) > 0
	return s.step.out
}

// schedule gives out the rows of a step.
func (s *Scheduler) schedule() {
	s.step.limit = math.MaxInt64
	s.shorten()
	s.decodes()
	if s.step.short.on {
		if s.startAhead() {
			return
		}
		s.decodes() // those that were left out
	}
	s.unpause(true)
	s.pace()
	s.prefills()
	s.admissions()
	s.unpause(false)
	s.leftover()
	s.proposeDrafts()
}

// failRequest ends what is left of a request within Plan.
func (s *Scheduler) failRequest(r *request, finish inference.FinishReason, err error, how outcome) {
	s.step.plan.Failed = append(s.step.plan.Failed, End{
		Request: r.id, Choice: -1, User: r.User, Finish: finish, Err: err, Done: true,
	})
	s.endRequest(r, how)
}

// decodes plans one row for every running output, in order of precedence.
// Victims stand behind the sequence that lacks a block, so nothing planned is
// ever taken back here, and the slice shrinks only behind the index.
func (s *Scheduler) decodes() {
	for i := 0; i < len(s.running); i++ {
		q := s.running[i]
		if !q.decoding() || q.late || q.rows > 0 || s.leftOut(q) {
			continue
		}
		if s.cover(i) {
			s.take(q, 1)
		}
		if i < len(s.running) && s.running[i] != q {
			i-- // q itself left
		}
	}
}

// cover gets the blocks for the next row of running[i], at the cost of
// sequences behind it. When none may be displaced the sequence gives way
// itself, or, after its fair number of preemptions, waits a step; in its minimal run it takes
// what is protected of others before it gives way. The first of
// all gives way only to tenants within their share of the blocks: if it lacks
// blocks when it is alone, it fails.
func (s *Scheduler) cover(i int) bool {
	q := s.running[i]
	for !s.grow(q) {
		if v := s.victim(i); v != nil {
			s.preempt(v)
			continue
		}
		switch {
		case len(s.running)+len(s.paused) == 1:
			s.failForBlocks(q)
		case q.ran < s.minimalRun(q) && s.allot(q, kvcache.Hit{}, true):
			return true
		case i == 0 || q.preemptions < s.cfg.PreemptLimit:
			s.preempt(q)
		default:
			s.step.pressed = true
		}
		return false
	}
	return true
}

// grow gets the blocks for a sequence's ids, if they are free.
func (s *Scheduler) grow(q *sequence) bool {
	return s.allot(q, kvcache.Hit{}, len(s.running)+len(s.paused) == 1)
}

// allot gets the blocks for a sequence's ids behind what is cached of them. What is protected of others gives way
// to a sequence that is alone.
func (s *Scheduler) allot(q *sequence, hit kvcache.Hit, alone bool) bool {
	if alone {
		return s.pool.GrowAlone(&q.table, len(q.ids), hit, &s.step.plan.Copies)
	}
	return s.pool.Grow(&q.table, len(q.ids), hit, &s.step.plan.Copies)
}

// failForBlocks ends a choice that the whole pool cannot hold, or all choices when
// they still share their prompt.
func (s *Scheduler) failForBlocks(q *sequence) {
	r, k := q.req, q.choice
	err := s.outOfCache(len(q.ids), len(q.table.Blocks()))
	if q.forks() {
		s.failRequest(r, inference.FinishError, err, failed)
		return
	}
	e := End{Request: r.id, Choice: k, User: r.User, Finish: inference.FinishError, Err: err}
	s.releaseSequence(q)
	e.Done = s.endChoice(r, k, failed)
	s.step.plan.Failed = append(s.step.plan.Failed, e)
}

// outOfCache tells of rows that do not fit although nothing else runs.
func (s *Scheduler) outOfCache(rows, held int) error {
	return &inference.LimitError{
		Err: inference.ErrOutOfCache, What: "KV blocks", Need: s.blocksFor(rows), Limit: s.pool.FreeNow() + held,
		Remedy: "give the KV cache more memory",
	}
}

// take plans n more rows of a sequence, by opening its chunk or making it
// longer. The table covers them already.
func (s *Scheduler) take(q *sequence, n int) {
	if q.rows == 0 {
		q.chunk = len(s.step.seqs)
		s.step.seqs = append(s.step.seqs, q)
		s.step.plan.Chunks = append(s.step.plan.Chunks, Chunk{})
	}
	s.weigh(q, n)
	q.rows += n
	s.step.budget -= n
	s.describe(q)
}

// describe writes a sequence's chunk.
func (s *Scheduler) describe(q *sequence) {
	r, end := q.req, q.computed+q.rows
	c := &s.step.plan.Chunks[q.chunk]
	c.Request, c.Choice, c.User = r.id, q.choice, r.User
	c.Start, c.Count, c.Tokens, c.Blocks = q.computed, q.rows, q.ids[q.computed:end:end], q.table.Blocks()
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
func (s *Scheduler) retract(q *sequence) {
	if q.rows == 0 {
		return
	}
	p := s.step.plan
	s.step.seqs = append(s.step.seqs[:q.chunk], s.step.seqs[q.chunk+1:]...)
	p.Chunks = append(p.Chunks[:q.chunk], p.Chunks[q.chunk+1:]...)
	for i := q.chunk; i < len(s.step.seqs); i++ {
		s.step.seqs[i].chunk = i
	}
	s.step.budget += q.rows
	s.weigh(q, -q.rows)
	q.rows = 0
}
