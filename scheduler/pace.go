package scheduler

import (
	"math"
	"sort"
	"time"

	"weir/scheduler/cost"
)

// leastPrompt is how many prompt rows every step has room for, whatever they
// take: outputs slow prompts down, they do not stop them.
const leastPrompt = 32

// panel is the number of rows that kernels take at a time. A chunk that is cut
// to fit the time ends on a whole number of them.
const panel = 16

// aim is the share of the target that a step is planned to take. Where other
// programs or machines share the memory, a step now and then takes twice what
// the same step took before; a stream is to keep its target then, too.
const aim = 0.5

// allowance is what one sequence may take of a step.
type allowance struct {
	rows  int
	time  time.Duration // that the whole step may take then
	least int           // rows that are granted whatever they take
}

// pace decides how long the step may take, once the rows of running outputs
// are planned: with none of them, as long as the budget lasts. Beside aim, the
// target leaves room for the estimate's own error.
func (s *Scheduler) pace() {
	s.step.outputs = s.step.load
	if s.cfg.ITLTarget > 0 && s.step.outputs.Rows > 0 && s.cost.Ready() {
		s.step.limit = time.Duration(aim * float64(s.cfg.ITLTarget) / (1 + s.cost.Error()))
	}
}

// rest is all that is left of the step.
func (s *Scheduler) rest() allowance {
	return allowance{s.step.budget, s.step.limit, leastPrompt - s.step.prompt}
}

// most is three quarters of it.
func (s *Scheduler) most() allowance {
	a := s.rest()
	a.rows -= a.rows / 4
	a.least -= panel
	if s.paced() {
		a.time -= max(0, a.time-s.cost.Estimate(s.step.load)) / 4
	}
	return a
}

func (s *Scheduler) paced() bool { return s.step.limit < math.MaxInt64 }

// open reports whether the step has room for a new sequence.
func (s *Scheduler) open() bool {
	if !s.paced() || s.step.prompt < leastPrompt {
		return s.step.budget > 0
	}
	return s.step.budget > 0 && s.cost.Estimate(s.step.load.Add(cost.Load{Rows: panel, Outputs: 1})) <= s.step.limit
}

// fit cuts n further rows of a prompt to what the allowance has time for.
func (s *Scheduler) fit(q *sequence, n int, a allowance) int {
	if !s.paced() || n <= 0 {
		return n
	}
	without := s.step.load.Sub(q.load(q.rows))
	k := sort.Search(n, func(i int) bool { return s.cost.Estimate(without.Add(q.load(q.rows+i+1))) > a.time })
	if k < n {
		k -= (q.rows + k) % panel
	}
	return max(k, min(n, a.least))
}

// weigh books n further rows of a sequence, or takes them back.
func (s *Scheduler) weigh(q *sequence, n int) {
	s.step.load = s.step.load.Sub(q.load(q.rows)).Add(q.load(q.rows + n))
	if !q.decoding() {
		s.step.prompt += n
	}
}

// load is what the next rows of a sequence cost.
func (q *sequence) load(rows int) cost.Load {
	l := cost.Load{Rows: rows}
	switch {
	case rows == 0:
	case q.decoding():
		l.Outputs, l.Decode = rows, cost.Attended(q.computed, rows)
	default:
		l.Prompt = cost.Attended(q.computed, rows)
		if q.req.Logits == LogitsAll {
			l.Outputs = rows
		} else if rows == q.pending() && q.req.Logits == LogitsLast {
			l.Outputs = 1
		}
	}
	return l
}
