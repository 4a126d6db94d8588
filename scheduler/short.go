package scheduler

import (
	"time"

	"weir/internal/inference"
	"weir/scheduler/admission"
	"weir/scheduler/cost"
)

// shortSteps makes a step short where the first request of a tenant would wait long behind those of another.
type shortSteps struct {
	cfg       *Config
	cost      *cost.Model
	waiting   *admission.Queue
	requests  *requestTable
	sequences *sequences
	shares    *tenantShares
	pacer     *pacer
	step      *step
	allocator *allocator
	preemptor *preemptor
	prefiller *prefiller
	admitter  *admitter

	short     shortStep // the step in the making
	shortened uint64    // plan of the last short step
}

// A request that comes while another tenant's requests fill the steps (the newcomer) waits for the end of a step and for the
// whole of the next one, of which its own rows are a small part. A short step computes the newcomer's rows and leaves out
// the other tenant's: the first token is there after one and a half steps at most. No output is left out of two steps in
// a row. Rows are left out of a tenant that has crowdFactor times the newcomer's requests or slots, by weight, now and in
// the last recentPeakTime.
const (
	crowdFactor      = 4
	shortStepDivisor = 2 // a short step takes this part of the longest ordinary one, at most
)

// maxPassedTenants bounds how many tenants before a newcomer's a scan passes to find it. Those that do not crowd it get
// their turn before it, the others after the short step.
const maxPassedTenants = 4

// shortStep says for whom the step in the making is short.
type shortStep struct {
	on       bool
	newcomer *request      // of a class and tenant
	limit    time.Duration // that it may take
}

// leftOut reports whether the step in the making is a short one that an output has no part in.
func (ss *shortSteps) leftOut(q *sequence) bool { return ss.short.on && q.leftOutIn == ss.step.plans }

// shorten makes the step a short one if a request waits whose tenant is crowded by another one, and an ordinary step
// would take longer by more than a further step costs.
func (ss *shortSteps) shorten() {
	if ss.waiting.Len() == 0 || ss.step.plans == ss.shortened+1 || !ss.cost.Ready() {
		return
	}
	for c := range inference.Class(inference.NumClasses) {
		r := ss.newcomer(c)
		if r == nil {
			continue
		}
		shortest := ss.cost.Estimate(cost.Load{Rows: 1, Outputs: 1})
		outputs, kept, prompts := ss.leaveOut(r)
		ordinary := ss.cost.Estimate(outputs)
		limit := (ordinary + maxSharedStepRatio*shortest) / shortStepDivisor
		if prompts || ss.waiting.Len() > r.share.live {
			ordinary += maxSharedStepRatio * shortest
		}
		if ordinary-ss.cost.Estimate(kept) > 2*shortest {
			ss.short = shortStep{on: true, newcomer: r, limit: limit}
			return
		}
	}
}

// newcomer is the waiting request of a class whose turn is the next of those whose tenants are entitled to a slot and
// crowded by another one; nil if there is none.
func (ss *shortSteps) newcomer(c inference.Class) *request {
	if !ss.shares.contested(c) || ss.waiting.Waiting(c) == 0 {
		return nil
	}
	if q := ss.admitter.firstPreempted(c); q != nil && ss.admitter.passedTooOften(q.req) {
		return nil
	}
	ss.waiting.Scan(c, false)
	defer ss.waiting.EndScan()
	for range 1 + maxPassedTenants {
		ref, _, ok := ss.waiting.Next()
		if !ok {
			break
		}
		if r := ss.requests.find(ID(ref)); ss.shares.entitled(r.share) && ss.shares.isCrowded(r.share) {
			return r
		}
		ss.waiting.Pass()
	}
	return nil
}

// leaveOut notes which outputs a short step for a request leaves out: never the first of all. It returns the load of all
// outputs and of those that take part, and whether prompts run.
func (ss *shortSteps) leaveOut(r *request) (all, kept cost.Load, prompts bool) {
	for _, q := range ss.sequences.running {
		switch {
		case q.late:
			continue
		case !q.decoding():
			prompts = true
			continue
		case q.req.Class >= r.Class && q.req.share.crowds(r.share) && !ss.preemptor.isFirst(q):
			q.leftOutIn = ss.step.plans
		default:
			q.leftOutIn = 0
			kept = kept.Add(q.load(q.pending(), ss.cfg.Attention))
		}
		all = all.Add(q.load(q.pending(), ss.cfg.Attention))
	}
	return all, kept, prompts
}

// startAhead starts the requests of a short step, once the outputs that take part in it are planned. It reports whether
// a prompt will be finished by it; otherwise the step goes on as any other.
func (ss *shortSteps) startAhead() bool {
	ss.pacer.shorten(ss.short.limit)
	for r := ss.short.newcomer; r != nil && ss.startUpTo(r); {
		r = ss.newcomer(ss.short.newcomer.Class)
	}
	if ss.pacer.finishes {
		ss.shortened = ss.step.plans
		return true
	}
	ss.short.on = false
	ss.pacer.restart()
	ss.pacer.unfinished = 0
	return false
}

// startUpTo starts the waiting requests whose turn it is, up to one of them, as long as the step has time for all of their
// prompts. Those of tenants that crowd its own are passed over.
func (ss *shortSteps) startUpTo(r *request) bool {
	for !r.started {
		if !ss.startNext(r) {
			return false
		}
	}
	return true
}

// startNext starts the first waiting request whose turn it is, one of them at the latest, if the step has time for all of its prompt.
func (ss *shortSteps) startNext(few *request) bool {
	if ss.step.pressed || ss.pacer.hasEnoughPromptRows(ss.prefiller.liveRequests()) {
		return false
	}
	ss.waiting.Scan(few.Class, false)
	defer ss.waiting.EndScan()
	passed := ss.admitter.passed[:0]
	for range 1 + maxPassedTenants {
		ref, _, ok := ss.waiting.Next()
		if !ok {
			return false
		}
		r := ss.requests.find(ID(ref))
		if !r.share.crowds(few.share) {
			if !ss.startBriefly(r) {
				return false
			}
			for _, p := range passed {
				p.overtaken++
			}
			return true
		}
		if r.overtaken >= ss.cfg.OvertakeLimit {
			return false
		}
		passed = append(passed, r)
		ss.admitter.passed = passed
		ss.waiting.Pass()
	}
	return false
}

// startBriefly starts a waiting request if the step has time for all of its prompt.
func (ss *shortSteps) startBriefly(r *request) bool {
	c := candidate{req: r, ids: r.Prompt, most: r.live}
	ss.allocator.match(&c)
	n := len(c.ids) - c.hit.Tokens
	load := cost.Load{Rows: n, Outputs: 1, Prompt: ss.cfg.Attention.Attended(c.hit.Tokens, n)}
	switch r.Logits {
	case LogitsAll:
		load.Outputs = len(c.ids) - max(c.hit.Tokens, r.LogitsFrom)
	case LogitsNone:
		load.Outputs = 0
	case LogitsLast:
	}
	if n > min(ss.pacer.budget, ss.cfg.PrefillChunk) || ss.cost.Estimate(ss.pacer.load.Add(load)) > ss.pacer.limit {
		return false
	}
	v := ss.admitter.judge(&c)
	if v == lacksRoom && ss.shares.entitled(r.share) {
		v = ss.admitter.displace(&c)
	}
	return v == fits && ss.admitter.start(&c)
}
