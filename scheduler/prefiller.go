package scheduler

import (
	"cmp"
	"math"
	"slices"
	"time"

	"weir/scheduler/admission"
	"weir/scheduler/cost"
)

// prefiller gives the rows of a step to running prompts.
type prefiller struct {
	cfg       *Config
	cost      *cost.Model
	waiting   *admission.Queue
	pacer     *pacer
	step      *step
	sequences *sequences

	prompting []*sequence // scratch of prompts
	oldest    *sequence   // of the running prompts, after prompts
}

// Where maxUnfinished prompts of at most unfinishedRows rows have been begun and are
// not done with this step, further requests wait in the queue: there their turn is their
// tenant's, and a prompt that was begun is not passed by those that came later.
const (
	maxUnfinished     = 2
	maxUnfinishedRows = 256
)

// due is the deadline of a prompt that would miss it if others went first, and
// makes it if it goes first; any other prompt has none.
func (pf *prefiller) due(q *sequence) int64 {
	r, by := q.req, int64(math.MaxInt64)
	if !r.answered && r.FirstTokenBy != 0 {
		by = r.FirstTokenBy
	}
	if r.DoneBy != 0 {
		by = min(by, r.DoneBy)
	}
	if by == math.MaxInt64 {
		return by
	}
	rows := q.pending()
	takes := pf.cost.Estimate(cost.Load{Rows: rows, Outputs: 1, Prompt: pf.cfg.Attention.Attended(q.computed, rows)})
	if left := time.Duration(by - pf.step.began); left < takes || left > slackFactor*takes {
		return math.MaxInt64
	}
	return by
}

// liveRequests is how many sequences run and requests wait.
func (pf *prefiller) liveRequests() int { return len(pf.sequences.running) + pf.waiting.Len() }

// promptBacklog is how many rows of prompts run or wait.
func (pf *prefiller) promptBacklog() int {
	rows := pf.waiting.Tokens()
	for _, q := range pf.sequences.running {
		if !q.decoding() && !q.late {
			rows += q.pending()
		}
	}
	return rows
}

// prefills gives rows to running prompts before anything new is admitted: the
// oldest gets its guaranteed part, those whose deadline is at risk all that they can
// use, then those that this step can finish, in order.
func (pf *prefiller) prefills() {
	prompts := pf.prompts()
	if len(prompts) == 0 {
		return
	}
	pf.advance(pf.oldest, pf.pacer.guaranteed())
	full, unfinished, rows := false, 0, 0
	for _, q := range prompts {
		switch {
		case full:
		case q.due < math.MaxInt64:
			pf.advance(q, pf.pacer.remaining())
		default:
			full = !pf.finish(q)
		}
		if left := q.pending() - q.rows; left > 0 && left <= maxUnfinishedRows && !pf.sequences.isLong(q.pending()) {
			unfinished++
			rows += left
		}
	}
	if unfinished >= maxUnfinished {
		pf.pacer.unfinished += rows
	}
}

// finish plans the remaining rows of a prompt if the step has room for all of
// them.
func (pf *prefiller) finish(q *sequence) bool {
	if pf.pacer.hasEnoughPromptRows(pf.liveRequests()) {
		return false
	}
	n, a := q.pending()-q.rows, pf.pacer.remaining()
	if n > min(a.rows, pf.cfg.PrefillChunk-q.rows, q.grown()) || pf.pacer.rowsWithin(q, n, a) < n {
		return false
	}
	if n > 0 {
		pf.step.take(q, n)
	}
	return true
}

// leftover gives the rows that are left to prompts, shortest remaining first.
func (pf *prefiller) leftover() {
	for _, q := range pf.prompts() {
		if pf.pacer.budget == 0 || pf.pacer.hasEnoughPromptRows(pf.liveRequests()) {
			return
		}
		pf.advance(q, pf.pacer.remaining())
	}
}

// prompts lists the running prompts in the order of comparePrompts, and notes the oldest, the first in order of precedence.
func (pf *prefiller) prompts() []*sequence {
	list := pf.prompting[:0]
	for _, q := range pf.sequences.running {
		if !q.decoding() && !q.late {
			list = append(list, q)
			q.due = pf.due(q)
		}
	}
	pf.prompting = list
	if len(list) > 0 {
		pf.oldest = list[0]
	}
	if len(list) > 1 {
		slices.SortFunc(list, comparePrompts)
	}
	return list
}

// advance plans more rows of a prompt: as many as the allowance, the budget
// and the chunk size permit.
func (pf *prefiller) advance(q *sequence, a allowance) {
	n := min(a.rows, pf.pacer.budget, q.pending()-q.rows, pf.cfg.PrefillChunk-q.rows, q.grown())
	if n = pf.pacer.rowsWithin(q, n, a); n > 0 {
		pf.step.take(q, n)
	}
}

// comparePrompts orders prompts by class, then by deadline where it is at risk, by rows left (in powers of four), by
// size of their tenant (in powers of four), and by precedence. So a tenant with many requests, or with prompts that are
// computed again after a preemption, does not delay the prompt of a tenant with one. Prompts of one size and tenant are
// prefilled in the order in which they were admitted: taking the shortest first made some wait for several times as
// long as others that took as much.
func comparePrompts(a, b *sequence) int {
	return cmp.Or(int(a.req.Class)-int(b.req.Class), cmp.Compare(a.due, b.due), a.sizeClass()-b.sizeClass(), a.req.share.sizeClass()-b.req.share.sizeClass(), compare(a, b))
}

// slackFactor times what the rest of a prompt takes alone is the time in which
// it is done beside others, a quarter of the step being its own.
const slackFactor = 4
