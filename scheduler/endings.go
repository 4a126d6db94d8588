package scheduler

import (
	"slices"
	"time"

	"weir/internal/inference"
	"weir/kvcache"
	"weir/scheduler/admission"
)

// endings ends choices and requests, in Plan, Commit and between them, and keeps the reports of what ended.
type endings struct {
	pool      *kvcache.Pool
	waiting   *admission.Queue
	sequences *sequences
	shares    *tenantShares
	requests  *requestTable
	step      *step
	allocator *allocator
	stats     *Counters

	ends []End // of the Commit in the making
	shed []End // by Submit since the last Plan
}

// protectionTime is how long after a tenant's last request others' sequences leave it the floor of its prefix cache.
const protectionTime = time.Minute

// failSequence ends a sequence, and all choices that were to be forked from it.
func (es *endings) failSequence(q *sequence, err error) {
	es.endSequence(q, inference.FinishError, failed, err)
}

// endSequence ends a sequence's choice, or every live one before the fork.
func (es *endings) endSequence(q *sequence, f inference.FinishReason, how outcome, err error) {
	r, first, end := q.req, q.choice, q.choice+1
	if q.forks() {
		end = q.req.next
	}
	es.allocator.releaseSequence(q)
	for k := first; k < end; k++ {
		if !r.choices[k].ended && es.endAndReport(r, k, f, how, err) {
			return
		}
	}
}

// endAndReport ends a choice and tells the engine.
func (es *endings) endAndReport(r *request, k int, f inference.FinishReason, how outcome, err error) (done bool) {
	e := End{Request: r.id, Choice: k, User: r.User, Finish: f, Err: err}
	e.Done = es.endChoice(r, k, how)
	es.ends = append(es.ends, e)
	return e.Done
}

// failRequest ends what is left of a request within Plan.
func (es *endings) failRequest(r *request, finish inference.FinishReason, err error, how outcome) {
	es.step.plan.Failed = append(es.step.plan.Failed, End{
		Request: r.id, Choice: -1, User: r.User, Finish: finish, Err: err, Done: true,
	})
	es.endRequest(r, how)
}

// failForBlocks ends a choice that the whole pool cannot hold, or all choices when
// they still share their prompt.
func (es *endings) failForBlocks(q *sequence) {
	r, k := q.req, q.choice
	err := es.allocator.outOfCache(r, len(q.ids), q.table.Held(0))
	if q.forks() {
		es.failRequest(r, inference.FinishError, err, failed)
		return
	}
	e := End{Request: r.id, Choice: k, User: r.User, Finish: inference.FinishError, Err: err}
	es.allocator.releaseSequence(q)
	e.Done = es.endChoice(r, k, failed)
	es.step.plan.Failed = append(es.step.plan.Failed, e)
}

// endChoice ends one choice. It frees the request with the last one.
func (es *endings) endChoice(r *request, choice int, how outcome) (done bool) {
	r.choices[choice].ended = true
	r.choices[choice].seq = nil
	r.live--
	r.outcome = how
	if r.live > 0 {
		return false
	}
	es.forget(r)
	return true
}

// forget counts a request's outcome and forgets it.
func (es *endings) forget(r *request) {
	if i := slices.Index(es.requests.partial, r); i >= 0 {
		es.requests.partial = slices.Delete(es.requests.partial, i, i+1)
	}
	es.shares.remove(es.step.began, r.share)
	if r.started {
		es.pool.Protect(r.Domain, es.step.began+int64(protectionTime))
		es.requests.untrackDeadline(r)
		es.waiting.Done(r.flow)
	} else {
		es.waiting.Remove(r.ticket)
	}
	switch r.outcome {
	case stopped:
		es.stats.Stopped++
	case length:
		es.stats.Length++
	case cancelled:
		es.stats.Cancelled++
	case failed:
		es.stats.Failed++
	case expired:
		es.stats.Expired++
	case shed:
		es.stats.Shed++
	}
	es.requests.put(r)
}

// endRequest ends every choice of a request that is left.
func (es *endings) endRequest(r *request, how outcome) {
	for i := range r.choices {
		c := &r.choices[i]
		if c.ended {
			continue
		}
		if c.seq != nil {
			es.allocator.releaseSequence(c.seq)
		}
		if es.endChoice(r, i, how) {
			return
		}
	}
}

// releaseSlot gives back the slot of a choice. If the choice carries the prompt for
// others, the next of them does from now on.
func (es *endings) releaseSlot(r *request, k int) {
	q := r.choices[k].seq
	if q != nil && !q.forks() {
		es.allocator.releaseSequence(q)
		return
	}
	if q == nil {
		q = r.carrier()
	}
	q.slots--
	if _, ok := slices.BinarySearchFunc(es.sequences.running, q, compare); ok {
		es.shares.addSlots(r.share, -1)
	}
	if q.choice != k {
		return
	}
	heir := k + 1 + slices.IndexFunc(r.choices[k+1:], func(c choice) bool { return !c.ended })
	r.choices[k].seq, r.choices[heir].seq = nil, q
	q.choice = heir
}
