package llm

import (
	"errors"
	"runtime/debug"

	"weir/engine/kernel/pool"
	"weir/engine/sample"
	"weir/internal/inference"
	"weir/internal/work"
)

// A request's constraint is code that a client's grammar drives. It runs on the pool's
// workers, each choice's on the worker that samples the choice's row, so the masks of a
// step are computed in parallel. What takes longer than a small share of the step is
// worked out beside the steps (see latemask.go). Whatever a constraint does, it ends its own
// request at most.

// draw samples the event's token from a row of logits. Where the request has a
// constraint, it leaves a panic in r.fault.
func (o *outputs) draw(worker int, r *outputRow, j *job, ev *inference.Event, row []float32) {
	s, w := j.samplers[ev.Choice], &o.work[worker]
	if j.req.Constraint == nil {
		ev.Token, r.err = s.Sample(row, w)
		return
	}
	if r.late = j.isAway(ev.Choice); r.late {
		return
	}
	if r.fault = j.broke; r.fault == nil {
		r.fault = guard(func() { ev.Token, r.err = s.Sample(row, w) })
	}
	if errors.Is(r.err, work.ErrLate) {
		r.late, r.err = true, nil
	}
}

// force asks the constraint of a row's choice what must follow the token that was
// sampled last, so that it can be proposed as drafts.
func (o *outputs) force(worker int, r *outputRow) {
	c := &o.plan.Chunks[r.chunk]
	j := c.User.(*job)
	if !o.e.opts.drafts(j.req) || c.Samples != 1 || len(r.samples) != 1 || r.err != nil || r.fault != nil || j.stops(r.samples[0].Token) {
		return
	}
	s := j.samplers[c.Choice]
	r.fault = guard(func() { r.forced = s.Forced(r.forced[:0], &o.work[worker].Meter) })
	for i, id := range r.forced {
		if id < 0 || int(id) >= o.e.model.vocab {
			r.forced = r.forced[:i]
			return
		}
	}
}

// drafts reports whether tokens that a request's constraint forces are drafted.
func (o *Options) drafts(r *inference.Request) bool {
	return r.Constraint != nil && o.Scheduler.MaxDrafts > 0 && r.Speculation != inference.ToggleOff
}

// cutDrafts takes drafts out of the plan that constraints do not allow, before their
// rows are computed.
func (l *loop) cutDrafts() {
	l.out.allow(l.plan.Estimate)
	for i := range l.plan.Chunks {
		c := &l.plan.Chunks[i]
		if c.Drafts == 0 || c.Forced {
			continue
		}
		if j := c.User.(*job); j.req.Constraint != nil {
			l.e.sched.Trim(&l.plan, i, j.legal(j.samplers[c.Choice], c.Tokens[len(c.Tokens)-c.Drafts:], &l.out.work[0].Meter))
		}
	}
}

// legal is how many leading tokens of a draft the constraint of a choice allows.
func (j *job) legal(s *sample.Sampler, draft []inference.TokenID, m *work.Meter) (n int) {
	if j.broke == nil {
		j.broke = guard(func() { n = s.Legal(draft, m) })
	}
	return n
}

// guard calls code that may panic.
func guard(call func()) (fault *pool.Fault) {
	defer func() {
		if v := recover(); v != nil {
			fault = &pool.Fault{Value: v, Stack: debug.Stack()}
		}
	}()
	call()
	return nil
}
