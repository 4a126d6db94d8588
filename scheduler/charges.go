package scheduler

import (
	"time"

	"weir/scheduler/admission"
	"weir/scheduler/cost"
)

// charges puts what rows take on the service counters of their tenants.
//
// Tenants share the machine by the compute time that they use, in nanoseconds.
// A prompt is charged when it is admitted, by its estimate, so that the next
// turn is another tenant's; what it really took is settled with its last row. Outputs
// are charged step by step. No tenant is charged for rows that are computed again
// after a preemption.
//
// charges divides the time of each step among the requests that had rows in it.
type charges struct {
	cost    *cost.Model
	waiting *admission.Queue // has the tenants' service counters
	pacer   *pacer
	step    *step

	outputTimes outputTimes
}

// promptCost is the estimated cost of a prompt of which so many rows are in the cache already.
func (ch *charges) promptCost(tokens, cached int) uint64 {
	l := cost.Load{Rows: tokens - cached, Outputs: 1, Prompt: ch.pacer.cfg.Attention.Attended(cached, tokens-cached)}
	return uint64(ch.cost.Prices(l).Of(l))
}

// chargeStep divides the time that a step took among its sequences: the cost of their
// rows, and an equal part each of what the step costs without rows.
func (ch *charges) chargeStep(took time.Duration) {
	p := ch.cost.Prices(ch.pacer.load)
	scale := 1.0
	if took > 0 {
		scale = float64(took) / max(p.Step+p.Of(ch.pacer.load), 1)
	}
	each := p.Step / float64(len(ch.step.seqs))
	outputs, rows := uint64(0), 0
	for _, q := range ch.step.seqs {
		if q.ended {
			continue // its flow may be that of another tenant by now
		}
		spent := uint64(scale * (p.Of(q.load(q.rows, ch.pacer.cfg.Attention)) + each))
		switch r := q.req; {
		case q.decoding():
			ch.waiting.Charge(r.flow, spent)
			r.addSpent(spent)
			outputs, rows = outputs+spent, rows+q.rows
		case q.computed >= q.peak:
			ch.chargePrompt(r, spent)
			r.addSpent(spent)
		}
	}
	ch.outputTimes.learn(outputs, rows, took)
}

// chargePrompt books what rows of a prompt took against what was charged for it.
func (ch *charges) chargePrompt(r *request, spent uint64) {
	if r.spent += spent; r.spent > r.charged {
		ch.waiting.Charge(r.flow, r.spent-r.charged)
		r.charged = r.spent
	}
}

// settlePrompt gives back what a prompt that is complete was charged too much.
func (ch *charges) settlePrompt(r *request) {
	if r.charged > r.spent && r.prefilled >= len(r.Prompt) {
		ch.waiting.Refund(r.flow, r.charged-r.spent)
		r.charged = r.spent
	}
}

// addSpent tells the request's owner what its rows took.
func (r *request) addSpent(nanoseconds uint64) {
	if r.Spent != nil {
		*r.Spent += int64(nanoseconds) //nolint:gosec // far below 292 years
	}
}

// outputTimes is what output tokens took in the last steps, in nanoseconds.
type outputTimes struct {
	token float64 // of the machine's time, per token
	step  float64 // from one token of an answer to the next
}

// learn takes in a step with outputs: what was charged for all their rows.
func (t *outputTimes) learn(charged uint64, rows int, took time.Duration) {
	const memory = 64 // steps
	if rows == 0 || took <= 0 {
		return
	}
	each := float64(charged) / float64(rows)
	if t.step == 0 {
		t.token, t.step = each, float64(took)
	}
	t.token += (each - t.token) / memory
	t.step += (float64(took) - t.step) / memory
}
