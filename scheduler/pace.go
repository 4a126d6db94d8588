package scheduler

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"sort"
	"time"

	"weir/internal/inference"
	"weir/scheduler/cost"
)

// A step without outputs may take prompts for as long as amortises times the
// shortest possible step, so that reading the weights once more for the next
// step costs a few percent at most; a request that arrives meanwhile, or a
// cancel, waits no longer than that. It has room for leastAlone rows whatever
// they take, since fewer would leave the kernels half idle. Where several tenants have sent
// requests lately, steps are shorter: what one of them sends is not to be paid by the others' first tokens.
const (
	amortises      = 24
	amortisesAmong = 12
	leastAlone     = 64
	leastAmong     = 32
)

// A step whose time is bounded has at most unseen times as many rows as any before it: the first steps are small, and what
// many rows take is not known from them.
const unseen = 2

// A step beside outputs leaves prompts a part of its time however long the outputs
// take: outputs slow prompts down, they do not stop them. That part is promptShare
// of the inter-token target, or the time that freshRows rows at the start of a
// prompt take where that time is longer, as on a slow machine: with less, clients
// in a closed loop would wait longer for a first token than they gain between
// tokens. The part is a time and not a number of rows, since rows deep in a long
// prompt take many times as long.
const (
	promptShare = 0.25
	freshRows   = 40
)

// allowance is what one prompt may take of a step.
type allowance struct {
	rows  int
	time  time.Duration // that the whole step may take then
	least int           // rows that are granted whatever they take
}

// pace decides how long the step may take, once the rows of running outputs
// are planned. Beside outputs that is the share of the inter-token target with
// which all but one step in a hundred keep the target, learned from how steps
// compare with their estimates. The first step of all is short: it measures.
func (s *Scheduler) pace() {
	s.step.outputs = s.step.load
	s.step.least = leastAlone
	several := s.company.several(s.step.began)
	if several {
		s.step.least = leastAmong
	}
	s.step.target = s.strictest()
	if !s.cost.Ready() {
		if s.cfg.StepLimit > 0 && s.stats.Steps == 0 {
			s.step.budget = min(s.step.budget, max(leastAlone, s.cfg.MaxBatchTokens/8))
		}
		return
	}
	s.step.limit = s.longest(several)
	if s.step.limit < math.MaxInt64 {
		s.step.budget = min(s.step.budget, max(leastAlone, unseen*s.cost.Rows()))
	}
	if s.step.target == 0 {
		return
	}
	paced := time.Duration(float64(s.step.target) * s.cost.Share())
	s.step.limit = min(s.step.limit, max(paced, s.promptFloor()))
	s.step.least = s.cfg.RowPanel
	if s.step.outputs.Rows > 0 {
		s.spread()
	}
}

// longest is how long a step with the outputs that are planned may take.
func (s *Scheduler) longest(several bool) time.Duration {
	shortest := s.cost.Estimate(cost.Load{Rows: 1})
	switch {
	case s.cfg.StepLimit < 0:
		return math.MaxInt64
	case several:
		return min(s.cfg.StepLimit, s.cost.Estimate(s.step.outputs)+amortisesAmong*shortest)
	default:
		return min(s.cfg.StepLimit, amortises*shortest)
	}
}

// strictest is the least inter-token target of the classes that outputs have rows
// of in this step; 0 is none.
func (s *Scheduler) strictest() time.Duration {
	least := time.Duration(0)
	for c, n := range s.step.classes {
		target := s.cfg.ClassITLTarget[c]
		if target == 0 && inference.Class(c) != inference.Batch {
			target = s.cfg.ITLTarget
		}
		if n > 0 && target > 0 && (least == 0 || target < least) {
			least = target
		}
	}
	return least
}

// promptFloor is how long a step may take in any case, so that prompts get their
// part of it.
func (s *Scheduler) promptFloor() time.Duration {
	share := s.cost.Estimate(s.step.outputs) + time.Duration(float64(s.step.target)*promptShare)
	return max(share, s.cost.Estimate(s.step.outputs.Add(cost.Load{Rows: freshRows})))
}

// rest is all that is left of the step.
func (s *Scheduler) rest() allowance {
	return allowance{s.step.budget, s.step.limit, s.step.least - s.step.prompt}
}

// A step that finishes a prompt and has enoughRows rows of prompts, or rowsPerRequest for each
// request that runs or waits where that is more, takes no further prompt: its rows
// would cost as much in the next step, and here they delay a first token and every output.
// Requests whose prompts were finished in one step would end in one step as well, send
// their next prompts together, and wait for each other in every round. The more
// requests there are, the more it counts that the kernels have many rows at a time.
const (
	enoughRows     = 16
	rowsPerRequest = 2
)

// satisfied reports whether the step finishes a prompt and has enough rows of prompts.
func (s *Scheduler) satisfied() bool {
	return s.step.finishes && s.step.prompt >= max(enoughRows, rowsPerRequest*(len(s.running)+s.waiting.Len()))
}

// Beside outputs, prompts get spreadRows rows of a step at most, or spreadPerOutput for each
// output where that is more: with so many the kernels take hardly longer for a row
// than with all of a prompt, and the outputs little of the step.
const (
	spreadRows      = 64
	spreadPerOutput = 16
)

// spread divides the prompts that are known over steps of equal rows. A row of a prompt
// costs the same in each of them, and every further step gives each output a token while the
// weights are read anyway.
func (s *Scheduler) spread() {
	rows, outputs := s.waiting.Tokens(), s.step.outputs.Rows
	for _, q := range s.running {
		if !q.decoding() && !q.late {
			rows += q.pending()
		}
	}
	most := max(spreadRows, spreadPerOutput*outputs)
	steps := (rows + most/2) / most
	if steps < 2 {
		return
	}
	panels := (outputs + (rows+steps-1)/steps + s.cfg.RowPanel - 1) / s.cfg.RowPanel
	s.step.budget = min(s.step.budget, panels*s.cfg.RowPanel-outputs)
}

// guaranteed is the quarter of the step that the oldest prompt may take before
// shorter ones, and at least a panel of rows, so that none starves.
func (s *Scheduler) guaranteed() allowance {
	a := s.rest()
	a.rows = min(a.rows, max(a.rows/4, s.cfg.RowPanel))
	a.least = max(a.least/4, s.cfg.RowPanel)
	if s.paced() {
		a.time -= max(0, a.time-s.cost.Estimate(s.step.load)) / 4 * 3
	}
	return a
}

func (s *Scheduler) paced() bool { return s.step.limit < math.MaxInt64 }

// open reports whether the step has room for a new sequence.
func (s *Scheduler) open() bool {
	if s.step.budget <= s.step.wanted || s.satisfied() {
		return false
	}
	if !s.paced() || s.step.prompt+s.step.wanted < s.step.least {
		return true
	}
	return s.cost.Estimate(s.step.load.Add(cost.Load{Rows: s.step.wanted + s.cfg.RowPanel, Outputs: 1})) <= s.step.limit
}

// fit cuts n further rows of a prompt to what the allowance has time for. Where
// it cuts, the step's rows end on a whole panel of the kernels, for which a
// part of one takes as long.
func (s *Scheduler) fit(q *sequence, n int, a allowance) int {
	if !s.paced() || n <= 0 {
		return n
	}
	without := s.step.load.Sub(q.load(q.rows))
	k := sort.Search(n, func(i int) bool { return s.cost.Estimate(without.Add(q.load(q.rows+i+1))) > a.time })
	if k < n {
		k = max(0, k-(s.step.load.Rows+k)%s.cfg.RowPanel)
	}
	return max(k, min(n, a.least))
}

// Where maxUnfinished prompts of at most unfinishedRows rows have been begun and are
// not done with this step, newcomers wait in the queue: there their turn is their
// tenant's, and a prompt that was begun is not passed by those that came later.
const (
	maxUnfinished  = 2
	unfinishedRows = 256
)

// prefills gives rows to running prompts before anything new is admitted: the
// oldest gets its guaranteed part, those whose deadline is at risk all that they can
// use, then those that this step can finish, in order.
func (s *Scheduler) prefills() {
	prompts := s.prompts()
	if len(prompts) == 0 {
		return
	}
	s.advance(s.oldest, s.guaranteed())
	full, unfinished, rows := false, 0, 0
	for _, q := range prompts {
		switch {
		case full:
		case q.due < math.MaxInt64:
			s.advance(q, s.rest())
		default:
			full = !s.finish(q)
		}
		if left := q.pending() - q.rows; left > 0 && left <= unfinishedRows && !s.long(q.pending()) {
			unfinished++
			rows += left
		}
	}
	if unfinished >= maxUnfinished {
		s.step.wanted += rows
	}
}

// finish plans the remaining rows of a prompt if the step has room for all of
// them.
func (s *Scheduler) finish(q *sequence) bool {
	if s.satisfied() {
		return false
	}
	n, a := q.pending()-q.rows, s.rest()
	if n > min(a.rows, s.cfg.PrefillChunk-q.rows) || s.fit(q, n, a) < n {
		return false
	}
	if n > 0 {
		s.take(q, n)
	}
	return true
}

// leftover gives what nobody else wanted to prompts, shortest remaining first.
func (s *Scheduler) leftover() {
	for _, q := range s.prompts() {
		if s.step.budget == 0 || s.satisfied() {
			return
		}
		s.advance(q, s.rest())
	}
}

// prompts lists the running prompts, by class, then those whose deadline is at risk, soonest
// first, then those with least left, by powers of four, of these those of tenants with few requests, and then the oldest. The first of them in order of precedence is the oldest.
func (s *Scheduler) prompts() []*sequence {
	list := s.prefilling[:0]
	for _, q := range s.running {
		if !q.decoding() && !q.late {
			list = append(list, q)
			q.due = s.due(q)
		}
	}
	s.prefilling = list
	if len(list) > 0 {
		s.oldest = list[0]
	}
	if len(list) > 1 {
		slices.SortFunc(list, shorter)
	}
	return list
}

// shorter orders prompts by class, deadline at risk, size of what is left,
// size of its tenant, precedence: with a prompt of one tenant, the prompts of another that keeps many going, or that are computed again
// after a preemption, are not before it. Prompts of one size and tenant are prefilled in the order in which they were
// admitted: of these, taking the shortest first made some wait for several times
// as long as others that took as much.
func shorter(a, b *sequence) int {
	return cmp.Or(int(a.req.Class)-int(b.req.Class), cmp.Compare(a.due, b.due), a.size()-b.size(), a.req.party.bulk()-b.req.party.bulk(), compare(a, b))
}

// size is how many rows a prompt has left, by powers of four.
func (q *sequence) size() int { return bits.Len(uint(q.pending())) / 2 }

// bulk is how many requests or slots a party has by weight, by powers of four.
func (p *party) bulk() int {
	return bits.Len(uint(p.size()/p.weight)) / 2
}

// advance plans more rows of a prompt: as many as the allowance, the budget
// and the chunk size permit.
func (s *Scheduler) advance(q *sequence, a allowance) {
	n := min(a.rows, s.step.budget, q.pending()-q.rows, s.cfg.PrefillChunk-q.rows)
	if n = s.fit(q, n, a); n > 0 {
		s.take(q, n)
	}
}

// weigh books n further rows of a sequence, or takes them back.
func (s *Scheduler) weigh(q *sequence, n int) {
	s.step.load = s.step.load.Sub(q.load(q.rows)).Add(q.load(q.rows + n))
	switch {
	case !q.decoding():
		s.step.prompt += n
		s.step.finishes = s.step.finishes || n > 0 && q.rows+n == q.pending()
	case q.rows == 0:
		s.step.classes[q.req.Class]++
	case q.rows+n == 0:
		s.step.classes[q.req.Class]--
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
