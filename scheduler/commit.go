package scheduler

import (
	"fmt"
	"slices"
	"time"

	"weir/internal/inference"
)

// Result is what the engine made of one chunk.
type Result struct {
	Tokens []inference.TokenID // [Samples] sampled ids; with drafts from 1 to 1+Drafts
	Stop   []bool              // [len(Tokens)] the token ends its choice; nil is none
	Err    error               // ends the chunk's choices with FinishError
	Late   bool                // nothing was sampled: the sequence gets no rows until Continue, and computes its last row again then
	Forced []inference.TokenID // all but certain to follow Tokens: proposed as drafts, of requests that do not Speculate, too
}

// End reports that a choice, or all remaining ones, ended.
type End struct {
	Request ID
	Choice  int // -1 is every choice that had not ended
	User    any
	Finish  inference.FinishReason
	Err     error // with FinishError and FinishCancelled, why
	Done    bool  // the request has no choice left and its ID is dead
}

// Commit takes in the results of the plan: results[i] belongs to
// plan.Chunks[i]; a missing one ends its choices with an error. It appends
// tokens, publishes full blocks, forks choices and frees ended ones. MaxTokens
// is enforced here: a choice whose last token was sampled ends with
// FinishLength, one whose token stops it with FinishStop. The ends are valid
// until the next Commit. The time since Plan is what the step took, and tells
// how long the next ones will.
func (s *Scheduler) Commit(now int64, results []Result) []End {
	s.endings.ends = s.endings.ends[:0]
	if !s.step.out {
		return s.endings.ends
	}
	s.step.out = false
	took := time.Duration(now - s.step.began)
	s.charges.chargeStep(took)
	s.cost.Observe(s.pacer.load, took-s.drafter.proposals.took)
	s.drafter.balance.step(took)
	for i, q := range s.step.seqs {
		rows := q.rows
		q.rows = 0
		switch {
		case q.ended:
			s.allocator.recycle(q)
		case i >= len(results):
			s.endings.failSequence(q, fmt.Errorf("%w: the step has no result for the sequence", inference.ErrInternal))
		case results[i].Err != nil:
			s.endings.failSequence(q, results[i].Err)
		default:
			s.stats.Rows += uint64(rows)
			if results[i].Late {
				s.holdBack(q, rows)
				break
			}
			s.commitRows(q, rows, s.step.plan.Chunks[i].Samples, &results[i])
			q.forced = append(q.forced[:0], results[i].Forced...)
		}
	}
	s.stats.Steps++
	s.step.finish()
	return s.endings.ends
}

// commitRows makes the rows of a sequence final and takes in what was sampled from
// the last one.
func (s *Scheduler) commitRows(q *sequence, rows, samples int, res *Result) {
	r := q.req
	if drafts := q.computed + rows - len(q.ids); drafts > 0 {
		s.commitDrafts(q, drafts, res)
		return
	}
	q.settle(func() { s.pool.Commit(&q.table, q.ids, q.computed+rows) })
	q.peak = max(q.peak, q.computed)
	r.prefilled = max(r.prefilled, min(q.computed, len(r.Prompt)))
	s.charges.settlePrompt(r)
	if r.Logits == LogitsAll {
		r.reported = max(r.reported, min(q.computed, len(r.Prompt)))
	}
	switch {
	case q.pending() > 0:
	case r.limit == 0:
		s.endPrompt(q)
	case len(res.Tokens) < samples:
		s.endings.failSequence(q, fmt.Errorf("%w: %d of %d tokens were sampled", inference.ErrInternal, len(res.Tokens), samples))
	case samples > 1:
		s.fork(q, res)
	default:
		s.extend(q, res, 0)
	}
}

// commitDrafts makes an output's row final, and those of the drafts that were
// sampled after it. The other rows are as good as never written.
func (s *Scheduler) commitDrafts(q *sequence, drafts int, res *Result) {
	accepted := q.verified(drafts, res.Tokens)
	if q.req.Given == nil {
		s.stats.proposed(q.forecast.kind, drafts)
	}
	if n := len(res.Tokens); n < 1 || n > accepted+1 {
		s.endings.failSequence(q, fmt.Errorf("%w: %d tokens were sampled after %d drafts of which %d were right", inference.ErrInternal, n, drafts, accepted))
		return
	}
	accepted = len(res.Tokens) - 1 // an accepted token may have been the last one
	if q.req.Given == nil {
		s.stats.accepted(q.forecast.kind, accepted)
	}
	known := len(q.ids)
	s.pool.Commit(&q.table, q.ids[:known+accepted], known+accepted)
	s.pool.Truncate(&q.table, known+accepted)
	q.computed = q.table.Tokens()
	q.replay = known + accepted - q.computed
	s.drafter.settle(q, drafts, accepted)
	q.peak = max(q.peak, q.computed)
	for i := range res.Tokens {
		if s.extend(q, res, i) {
			return
		}
	}
}

// extend appends token i of a result to a sequence and ends it when it is done.
func (s *Scheduler) extend(q *sequence, res *Result, i int) (done bool) {
	r := q.req
	if r.Given == nil {
		s.stats.OutputTokens++
	}
	r.answered = true
	q.ids = append(q.ids, res.Tokens[i])
	q.produced++
	q.runTokens++
	switch {
	case stops(res, i):
		s.endings.endSequence(q, inference.FinishStop, stopped, nil)
	case q.produced >= r.limit:
		s.endings.endSequence(q, inference.FinishLength, length, nil)
	default:
		return false
	}
	return true
}

func stops(res *Result, i int) bool { return i < len(res.Stop) && res.Stop[i] }

// fork makes sequences of the choices of a prompt that is complete and have
// slots. The first one keeps the prompt's sequence, the others share its blocks.
func (s *Scheduler) fork(q *sequence, res *Result) {
	r := q.req
	end := r.next
	s.sequences.running, _ = remove(s.sequences.running, q) // comes back under its choice
	s.shares.addSlots(r.share, -q.slots)
	r.choices[q.choice].seq = nil
	q.slots, q.shared = 1, q.computed
	kept := false
	for k := q.choice; k < end; k++ {
		switch {
		case r.choices[k].ended:
			continue
		case !kept:
			kept = true
			r.choices[k].seq = q
		default:
			s.branchOff(r, q, k)
		}
		d := r.choices[k].seq
		s.sequences.running = insert(s.sequences.running, d)
		s.shares.addSlots(r.share, 1)
	}
	// Only now, so that the shared blocks outlive a choice that ends at once.
	for k := q.choice; k < end && r.live > 0; k++ {
		if d := r.choices[k].seq; d != nil {
			s.extend(d, res, k)
		}
	}
}

// branchOff makes choice k a second owner of q's blocks.
func (s *Scheduler) branchOff(r *request, q *sequence, k int) {
	d := s.allocator.newSequence(r, k, 1)
	s.pool.Fork(&d.table, &q.table)
	d.computed, d.shared, d.peak, d.preemptions = q.computed, q.computed, q.peak, q.preemptions
}

// endPrompt ends a request without output tokens.
func (s *Scheduler) endPrompt(q *sequence) {
	r := q.req
	s.allocator.releaseSequence(q)
	for k := range r.choices { // without output none needs a slot of its own
		if !r.choices[k].ended && s.endings.endAndReport(r, k, inference.FinishLength, length, nil) {
			return
		}
	}
}

// Abandon drops the plan that is out, after a forward pass that failed as a
// whole: nothing of it becomes final, and its sequences start over from the
// cache in their old turns. The caller cancels the requests that made it fail.
func (s *Scheduler) Abandon(_ int64) {
	if !s.step.out {
		return
	}
	s.step.out = false
	for _, q := range s.step.seqs {
		q.rows = 0
		if q.ended {
			s.allocator.recycle(q)
		} else {
			s.allocator.requeue(q)
		}
	}
	for _, list := range [2][]*sequence{slices.Clone(s.sequences.paused), slices.Clone(s.sequences.running)} {
		for _, q := range list {
			if q.pausedIn == s.step.plans || q.startedIn == s.step.plans { // the plan may have had row copies for it
				s.allocator.requeue(q)
			}
		}
	}
	s.forecast.stale = true
	s.step.finish()
}

// A sequence whose token could not be sampled in its step is late: what it takes to sample is not there yet, and the
// others do not wait for it. It keeps its slot and its blocks, but gets no rows until Continue. Its last row is not
// final and is computed again then, with the same bits, so that the answer is the same as if the token had been
// sampled at once. A late sequence may be paused or preempted as any other; it goes on after Continue.

// holdBack takes in the rows of a sequence that is late: all but the last one that is no draft.
func (s *Scheduler) holdBack(q *sequence, rows int) {
	final := min(q.computed+rows, len(q.ids)) - 1
	if q.computed+rows > len(q.ids) {
		s.pool.Truncate(&q.table, len(q.ids))
	}
	q.settle(func() { s.pool.Commit(&q.table, q.ids, final) })
	q.peak = max(q.peak, q.computed)
	r := q.req
	r.prefilled = max(r.prefilled, min(q.computed, len(r.Prompt)))
	if r.Logits == LogitsAll {
		r.reported = max(r.reported, min(final, len(r.Prompt)))
	}
	q.late = true
	s.stats.Late++
}
