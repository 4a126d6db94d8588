package scheduler

import (
	"time"

	"weir/internal/inference"
)

// Explain appends what every live request does or waits for, in no order.
// User is the caller's own, as in Plan. It costs O(live requests) and changes
// nothing.
func (s *Scheduler) Explain(dst []Explained) []Explained {
	for _, r := range s.requests.slots {
		if r.live > 0 {
			dst = append(dst, s.explain(r))
		}
	}
	return dst
}

// ExplainOne is what Explain says of one request; false where it has ended.
func (s *Scheduler) ExplainOne(id ID) (Explained, bool) {
	if r := s.requests.find(id); r != nil {
		return s.explain(r), true
	}
	return Explained{}, false
}

// Explained is one live request.
type Explained struct {
	User any
	inference.State
}

func (s *Scheduler) explain(r *request) Explained {
	e := Explained{User: r.User, State: inference.State{
		Phase: inference.PhaseWaiting, Tenant: r.Tenant, Class: r.Class, Choices: r.live,
		PromptTokens: len(r.Prompt), PrefillTokens: r.prefilled, CachedTokens: r.cached, StatelessTokens: r.stateless, Overtaken: r.overtaken,
		Debt: s.debt(r),
	}}
	if !r.started {
		e.Ahead, _ = s.waiting.Position(r.ticket)
		e.Cause = s.cause(r, e.Ahead)
		return e
	}
	e.Phase = inference.PhasePreempted
	for i := range r.choices {
		if q := r.choices[i].seq; q != nil {
			e.OutputTokens += q.produced
			e.Preemptions += q.preemptions
			e.KVBlocks += q.private()
			e.Phase = min(e.Phase, s.sequences.phase(q))
		}
	}
	if e.Cause = causes[e.Phase]; e.Cause != inference.CauseNone {
		e.Gave = r.gave
	}
	return e
}

// causes are what requests of these phases wait for.
var causes = map[inference.Phase]inference.Cause{
	inference.PhasePaused: inference.CauseShare, inference.PhasePreempted: inference.CauseBlocks,
}

// cause says what a waiting request lacks, as far as the last plans show: KV
// blocks, if it was tried and did not fit, else what others hold.
func (s *Scheduler) cause(r *request, ahead int) inference.Cause {
	switch {
	case r.lacking > 0:
		return inference.CauseBlocks
	case s.shares.taken >= s.cfg.MaxSeqs:
		return inference.CauseSlots
	case s.sequences.isLong(len(r.Prompt)) && s.sequences.longPrefills() >= s.cfg.MaxPrefills:
		return inference.CauseLongPrefills
	case ahead > 0:
		return inference.CauseTurn
	}
	return inference.CauseStep
}

// debt is how much more compute time, by weight, a request's tenant has had than the
// least served tenant that waits in its class.
func (s *Scheduler) debt(r *request) time.Duration {
	return time.Duration(s.waiting.Debt(r.Tenant, r.Class)) //nolint:gosec // far below 292 years
}
