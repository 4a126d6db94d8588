package scheduler

import (
	"weir/internal/inference"
	"weir/kvcache"
	"weir/scheduler/admission"
)

// admitter starts preempted and waiting requests: it decides whose turn it is, and gives what fits its slots, blocks and rows.
type admitter struct {
	cfg       *Config
	pool      *kvcache.Pool
	waiting   *admission.Queue
	requests  *requestTable
	sequences *sequences
	shares    *tenantShares
	pacer     *pacer
	step      *step
	forecast  *forecast
	allocator *allocator
	endings   *endings
	preemptor *preemptor
	pauses    *pauses
	prefiller *prefiller
	charges   *charges
	stats     *Counters

	lastStarted startKind         // a waiting request or a waiting choice
	admitted    uint64            // requests ever; numbers them in order of admission
	passed      []*request        // waiting requests that the next admission overtakes
	rivals      []admission.Rival // [maxRivals] scratch of prefer
}

// startKind is whose turn it is where requests and choices wait for slots.
type startKind uint8

const (
	startedRequest startKind = iota
	startedChoice
)

// admissions starts preempted and waiting requests while rows, slots and
// blocks last, one at a time, since each changes whose turn is next. Nothing
// is admitted in a step in which a running sequence lacked blocks.
func (a *admitter) admissions() {
	a.forecast.stale = true
	for a.pacer.hasRoom(a.prefiller.liveRequests()) && !a.step.pressed && (a.shares.taken < a.cfg.MaxSeqs || a.displaceable()) {
		a.passed = a.passed[:0]
		if !a.admitOne() {
			return
		}
		for _, r := range a.passed {
			r.overtaken++
		}
	}
}

// displaceable reports whether a class waits that is higher than the lowest
// one running or lacks the slots that it is guaranteed, or a tenant that others keep from
// its share, so that a full batch is no reason not to look at the queue.
func (a *admitter) displaceable() bool {
	if len(a.sequences.running) == 0 {
		return false
	}
	lowest := a.sequences.running[len(a.sequences.running)-1].req.Class
	if len(a.sequences.preempted) > 0 && a.sequences.preempted[0].req.Class < lowest {
		return true
	}
	for c := range lowest {
		if a.waiting.Waiting(c) > 0 {
			return true
		}
	}
	for c := range inference.Class(inference.NumClasses) {
		if a.pauses.owed(c) || a.pauses.entitledHead(c) != nil {
			return true
		}
	}
	return false
}

// admitOne starts the first candidate that fits, class by class, or reports
// false. A barrier in one class bars the classes below it as well, except for slots that
// they are guaranteed.
func (a *admitter) admitOne() bool {
	barrier := inference.Class(inference.NumClasses)
	for _, c := range a.waiting.Order() {
		if c >= barrier && !a.pauses.owed(c) {
			continue
		}
		if a.admitEntitled(c) {
			return true
		}
		if a.pauses.admitPaused(c) {
			return true
		}
		started, open := a.admitPreempted(c)
		if !started && open {
			started, open = a.admitNew(c)
		}
		if started {
			return true
		}
		if !open {
			barrier = c
		}
	}
	return false
}

// admitEntitled starts the waiting request of a class whose turn it is, if its tenant is
// entitled to a slot: before preempted sequences of tenants that have their share.
// Waiting requests and preempted sequences of other tenants that would have more
// blocks than their share are passed over, those of tenants without any passLimit times.
func (a *admitter) admitEntitled(class inference.Class) bool {
	if !a.shares.contested(class) || a.waiting.Waiting(class) == 0 {
		return false
	}
	a.waiting.Scan(class, a.sequences.longPrefills() < a.cfg.MaxPrefills) // those that were set aside for it wait for others' long prompts no more
	defer a.waiting.EndScan()
	passed := a.passed
	for range 1 + maxPassedTenants {
		ref, _, ok := a.waiting.Next()
		if !ok {
			return false
		}
		r, q := a.requests.find(ID(ref)), a.firstPreempted(class)
		a.shares.countBlocks(class, a.sequences.paused, a.sequences.running)
		modest := a.shares.hasRoomFor(r, len(r.Prompt))
		first := q == nil || !a.shares.entitled(q.req.share)
		if !first && modest && !a.shares.hasRoomFor(q.req, len(q.ids)) && !a.sequences.hasPreempted(r.share) && !a.passedTooOften(q.req) {
			first, passed = true, notePassed(passed, q.req)
		}
		if first && a.shares.entitled(r.share) && a.startEntitled(r) {
			a.passed = passed
			return true
		}
		if modest || a.passedTooOften(r) {
			return false
		}
		passed = notePassed(passed, r)
		a.waiting.Pass()
	}
	return false
}

// passedTooOften reports whether a request was passed as often as it may be while its tenant has no blocks: then it is a barrier.
func (a *admitter) passedTooOften(r *request) bool {
	return r.share.blocks == 0 && r.overtaken >= min(passLimit, a.cfg.OvertakeLimit)
}

// startEntitled starts the waiting request that the scan has come to.
func (a *admitter) startEntitled(r *request) bool {
	c := candidate{req: r, ids: r.Prompt, most: r.live}
	v := a.judge(&c)
	if v == lacksRoom {
		v = a.displace(&c)
	}
	return v == fits && a.start(&c)
}

// firstPreempted is the preempted sequence of a class that goes on first: the first one, or where its tenant would have more
// blocks than its share, the first of another tenant that would not.
func (a *admitter) firstPreempted(class inference.Class) (first *sequence) {
	for _, q := range a.sequences.preempted {
		switch {
		case q.req.Class != class || q.late:
			continue
		case !a.shares.contested(class):
			return q
		case first == nil:
			first = q
			a.shares.countBlocks(class, a.sequences.paused, a.sequences.running)
		}
		if (q == first || q.req.share != first.req.share) && a.shares.hasRoomFor(q.req, len(q.ids)) {
			return q
		}
	}
	return first
}

// admitPreempted starts the first preempted sequence of a class. Preempted sequences
// keep their turn: requests of their class and below wait behind them, except those of tenants that
// are entitled to a slot where the preempted sequence's tenant would have more blocks than its share.
func (a *admitter) admitPreempted(class inference.Class) (started, open bool) {
	q := a.firstPreempted(class)
	if q == nil {
		return false, true
	}
	c := candidate{req: q.req, seq: q, ids: q.ids, produced: q.produced, most: 1}
	if n := q.req.waitingChoices(); q.produced == 0 && q.req.live == 1+n {
		c.most = 1 + n
	}
	switch v := a.judge(&c); {
	case v == fits, v == lacksRoom && a.displace(&c) == fits:
		return a.start(&c), false
	case v == neverFits:
		a.endings.failForBlocks(q)
		return a.admitPreempted(class)
	}
	return false, false
}

// admitNew starts a waiting request or a choice that waits for a slot. They
// take turns: neither a request of many choices nor a long queue keeps the
// other waiting. A barrier among the requests bars choices as well.
func (a *admitter) admitNew(class inference.Class) (started, open bool) {
	if a.lastStarted == startedRequest && a.admitNextChoice(class) {
		a.lastStarted = startedChoice
		return true, false
	}
	if started, open = a.admitWaiting(class); started {
		a.lastStarted = startedRequest
		return started, open
	}
	return open && a.admitNextChoice(class), open
}

// admitNextChoice starts a further choice of a running request, once its prompt is
// complete (or no sequence computes it any more), from the prompt's cached blocks.
func (a *admitter) admitNextChoice(class inference.Class) bool {
	for _, r := range a.requests.partial {
		waiting := r.waitingChoices()
		if r.Class != class || !r.complete() && r.live > waiting || r.carrier() != nil {
			continue
		}
		c := candidate{req: r, ids: r.Prompt, most: 1}
		if !r.complete() {
			c.most = waiting
		}
		switch a.judge(&c) {
		case fits:
			return a.start(&c)
		case neverFits:
			a.endings.failRequest(r, inference.FinishError, a.allocator.outOfCache(r, len(r.Prompt), 0), failed)
			return a.admitNextChoice(class)
		default: // it waits on
		}
	}
	return false
}

// admitWaiting starts a waiting request of a class: the first in order of turns that
// fits. A request that was passed OvertakeLimit times is passed no more.
func (a *admitter) admitWaiting(class inference.Class) (started, open bool) {
	if a.waiting.Waiting(class) == 0 {
		return false, true
	}
	const recheck = 8 // plans: after so many, others than those for long prompts may have got what they lack
	a.waiting.Scan(class, a.sequences.longPrefills() < a.cfg.MaxPrefills || a.step.plans%recheck == 0)
	defer a.waiting.EndScan()
	for first := true; ; {
		ref, _, ok := a.waiting.Next()
		if !ok {
			return false, true
		}
		r := a.requests.find(ID(ref))
		c := candidate{req: r, ids: r.Prompt, most: r.live}
		v := a.judge(&c)
		if v == lacksRoom && first {
			v = a.displace(&c)
		}
		switch {
		case v == fits:
			if first {
				a.prefer(&c)
			}
			return a.start(&c), false
		case v == neverFits:
			a.endings.failRequest(r, inference.FinishError, a.allocator.outOfCache(r, len(r.Prompt), 0), failed)
			continue
		case v == overLimit:
			// What it waits for is held by its like: barring others would not free
			// it, and passing it is not overtaking.
			a.waiting.SetAside()
			first = false
			continue
		case r.overtaken >= a.cfg.OvertakeLimit, a.step.pressed:
			return false, false
		}
		a.passed = append(a.passed, r)
		a.waiting.Skip()
		first = false
	}
}

// notePassed notes that a request is passed by one that stays within its tenant's share of the blocks, if its own tenant has none.
func notePassed(passed []*request, r *request) []*request {
	if r.share.blocks > 0 {
		return passed
	}
	return append(passed, r)
}

// passLimit is how often requests of other tenants, which stay within their shares of the blocks, pass one of a tenant that would not
// and has none.
const passLimit = 8
