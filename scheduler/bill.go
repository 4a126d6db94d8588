package scheduler

import (
	"time"

	"weir/scheduler/cost"
)

// Tenants share the machine by the compute time that they use, in nanoseconds.
// A prompt is charged when it is admitted, by its estimate, so that the next
// turn is another's; what it really took is settled with its last row. Outputs
// are charged step by step. Rows that are computed again after a preemption are
// nobody's.

// promptCost is what a prompt is expected to take of which so many rows are cached.
func (s *Scheduler) promptCost(tokens, cached int) uint64 {
	l := cost.Load{Rows: tokens - cached, Outputs: 1, Prompt: cost.Attended(cached, tokens-cached)}
	return uint64(s.cost.Prices(l).Of(l))
}

// bill divides the time that a step took among its sequences, by what their
// rows cost and to equal parts what the step itself does.
func (s *Scheduler) bill(took time.Duration) {
	p := s.cost.Prices(s.step.load)
	scale := 1.0
	if took > 0 {
		scale = float64(took) / max(p.Step+p.Of(s.step.load), 1)
	}
	each := p.Step / float64(len(s.step.seqs))
	outputs, rows := uint64(0), 0
	for _, q := range s.step.seqs {
		if q.ended {
			continue // its flow may be another's by now
		}
		spent := uint64(scale * (p.Of(q.load(q.rows)) + each))
		switch r := q.req; {
		case q.decoding():
			s.waiting.Charge(r.flow, spent)
			r.book(spent)
			outputs, rows = outputs+spent, rows+q.rows
		case q.computed >= q.peak:
			s.billPrompt(r, spent)
			r.book(spent)
		}
	}
	s.typical.learn(outputs, rows, took)
}

// book tells the request's owner what its rows took.
func (r *request) book(nanoseconds uint64) {
	if r.Spent != nil {
		*r.Spent += int64(nanoseconds) //nolint:gosec // far below 292 years
	}
}

// billPrompt books what rows of a prompt took against what was charged for it.
func (s *Scheduler) billPrompt(r *request, spent uint64) {
	if r.spent += spent; r.spent > r.charged {
		s.waiting.Charge(r.flow, r.spent-r.charged)
		r.charged = r.spent
	}
}

// settlePrompt gives back what a prompt that is complete was charged too much.
func (s *Scheduler) settlePrompt(r *request) {
	if r.charged > r.spent && r.prefilled >= len(r.Prompt) {
		s.waiting.Refund(r.flow, r.charged-r.spent)
		r.charged = r.spent
	}
}
