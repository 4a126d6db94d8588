package scheduler

import (
	"slices"

	"weir/internal/inference"
	"weir/kvcache"
	"weir/scheduler/admission"
)

// trial is the scratch memory of the admission phase.
type trial struct {
	probe   kvcache.Table // asks the pool what a candidate would take
	growth  []growth      // of running sequences, longest remaining first
	stale   bool          // growth must be made anew
	fair    *party        // of a candidate for which the tenants of its class are expected to grow up to their share of the blocks only; nil: none
	slacks  []int         // [blockTokens]
	passed  []*request    // waiting requests that the next admission overtakes
	victims []*sequence
	rivals  []admission.Rival // [maxRivals]
}

// candidate is a sequence that may start now: a waiting request's first one,
// or a preempted one.
type candidate struct {
	req      *request
	seq      *sequence // nil for a waiting request
	ids      []inference.TokenID
	produced int
	most     int // choices that it could start for; they get as many slots as fit, at least one
	slots    int // these, after judge
	hit      kvcache.Hit
	need     int // blocks that it lacked, after judge
}

// verdict is what stands in the way of a candidate.
type verdict uint8

const (
	fits    verdict = iota
	crowded         // slots or blocks are taken
	queued          // MaxPrefills long prompts are ahead of it, or its call has all slots that one call may have
	held            // a running prompt is computing what it can share
	never           // nothing runs and it still does not fit
)

// admissions starts preempted and waiting requests while rows, slots and
// blocks last, one at a time, since each changes whose turn is next. Nothing
// is admitted in a step in which a running sequence lacked blocks.
func (s *Scheduler) admissions() {
	s.trial.stale = true
	for s.open() && !s.step.pressed && (s.slots < s.cfg.MaxSeqs || s.displaceable()) {
		s.trial.passed = s.trial.passed[:0]
		if !s.admitOne() {
			return
		}
		for _, r := range s.trial.passed {
			r.overtaken++
		}
	}
}

// displaceable reports whether a class waits that is higher than the lowest
// one running or lacks the slots that it is guaranteed, or a tenant that others keep from
// its share, so that a full batch is no reason not to look at the queue.
func (s *Scheduler) displaceable() bool {
	if len(s.running) == 0 {
		return false
	}
	lowest := s.running[len(s.running)-1].req.Class
	if len(s.resuming) > 0 && s.resuming[0].req.Class < lowest {
		return true
	}
	for c := range lowest {
		if s.waiting.Waiting(c) > 0 {
			return true
		}
	}
	for c := range inference.Class(inference.NumClasses) {
		if s.owed(c) || s.entitledHead(c) != nil {
			return true
		}
	}
	return false
}

// admitOne starts the first candidate that fits, class by class, or reports
// false. A barrier in one class bars the classes below it as well, but for slots that
// they are guaranteed.
func (s *Scheduler) admitOne() bool {
	barrier := inference.Class(inference.NumClasses)
	for _, c := range s.waiting.Order() {
		if c >= barrier && !s.owed(c) {
			continue
		}
		if s.claim(c) {
			return true
		}
		if s.goOn(c) {
			return true
		}
		started, open := s.resume(c)
		if !started && open {
			started, open = s.newcomer(c)
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

// claim starts the waiting request of a class whose turn it is, if its tenant is
// entitled to a slot: before preempted sequences of tenants that have their share.
// Waiting requests and preempted sequences of other tenants that would have more
// blocks than their share are passed over, those of tenants without any passLimit times.
func (s *Scheduler) claim(class inference.Class) bool {
	if !s.contested(class) || s.waiting.Waiting(class) == 0 {
		return false
	}
	s.waiting.Scan(class, s.longPrefills() < s.cfg.MaxPrefills) // those that were set aside for it wait for others' long prompts no more
	defer s.waiting.EndScan()
	passed := s.trial.passed
	for range 1 + passedOver {
		ref, _, ok := s.waiting.Next()
		if !ok {
			return false
		}
		r, q := s.requests.find(ID(ref)), s.firstResuming(class)
		s.countBlocks(class)
		modest := s.modest(r.party, len(r.Prompt))
		first := q == nil || !s.entitled(q.req.party)
		if !first && modest && !s.modest(q.req.party, len(q.ids)) && !s.resumes(r.party) && !s.starves(q.req) {
			first, passed = true, s.pass(passed, q.req)
		}
		if first && s.entitled(r.party) && s.claimFor(r) {
			s.trial.passed = passed
			return true
		}
		if modest || s.starves(r) {
			return false
		}
		passed = s.pass(passed, r)
		s.waiting.Pass()
	}
	return false
}

// pass notes that a request is passed by one that stays within its tenant's share of the blocks, if its own tenant has none.
func (s *Scheduler) pass(passed []*request, r *request) []*request {
	if r.party.blocks > 0 {
		return passed
	}
	return append(passed, r)
}

// passLimit is how often requests of other tenants, which stay within their shares of the blocks, pass one of a tenant that would not
// and has none.
const passLimit = 8

// starves reports whether a request was passed as often as it may be while its tenant has no blocks: then it is a barrier.
func (s *Scheduler) starves(r *request) bool {
	return r.party.blocks == 0 && r.overtaken >= min(passLimit, s.cfg.OvertakeLimit)
}

// claimFor starts the waiting request that the scan has come to.
func (s *Scheduler) claimFor(r *request) bool {
	c := candidate{req: r, ids: r.Prompt, most: r.live}
	v := s.judge(&c)
	if v == crowded {
		v = s.displace(&c)
	}
	return v == fits && s.start(&c)
}

// firstResuming is the preempted sequence of a class that goes on first: the first one, or where its tenant would have more
// blocks than its share, the first of another tenant that would not.
func (s *Scheduler) firstResuming(class inference.Class) (first *sequence) {
	for _, q := range s.resuming {
		switch {
		case q.req.Class != class || q.late:
			continue
		case !s.contested(class):
			return q
		case first == nil:
			first = q
			s.countBlocks(class)
		}
		if (q == first || q.req.party != first.req.party) && s.modest(q.req.party, len(q.ids)) {
			return q
		}
	}
	return first
}

// modest reports whether a tenant stays within its share of the blocks with so many rows more. Blocks were counted for
// its class.
func (s *Scheduler) modest(p *party, rows int) bool {
	return s.withinShare(p, p.blocks+s.blocksFor(rows))
}

// resumes reports whether a tenant has preempted sequences of a class.
func (s *Scheduler) resumes(p *party) bool {
	return slices.ContainsFunc(s.resuming, func(q *sequence) bool { return q.req.party == p })
}

// resume starts the first preempted sequence of a class. Preempted sequences
// keep their turn: nothing of their class or below passes them, but who is entitled to a slot where they would have more
// blocks than their tenant's share.
func (s *Scheduler) resume(class inference.Class) (started, open bool) {
	q := s.firstResuming(class)
	if q == nil {
		return false, true
	}
	c := candidate{req: q.req, seq: q, ids: q.ids, produced: q.produced, most: 1}
	if n := q.req.unslotted(); q.produced == 0 && q.req.live == 1+n {
		c.most = 1 + n
	}
	switch v := s.judge(&c); {
	case v == fits, v == crowded && s.displace(&c) == fits:
		return s.start(&c), false
	case v == never:
		s.failForBlocks(q)
		return s.resume(class)
	}
	return false, false
}

// turn is whose turn it is where requests and choices wait for slots.
type turn uint8

const (
	aRequest turn = iota
	aChoice
)

// newcomer starts a waiting request or a choice that waits for a slot. They
// take turns: neither a request of many choices nor a long queue keeps the
// other waiting. A barrier among the requests bars choices as well.
func (s *Scheduler) newcomer(class inference.Class) (started, open bool) {
	if s.lately == aRequest && s.another(class) {
		s.lately = aChoice
		return true, false
	}
	if started, open = s.fresh(class); started {
		s.lately = aRequest
		return started, open
	}
	return open && s.another(class), open
}

// another starts a further choice of a running request, once its prompt is
// complete (or nobody computes it any more), from the prompt's cached blocks.
func (s *Scheduler) another(class inference.Class) bool {
	for _, r := range s.partial {
		waiting := r.unslotted()
		if r.Class != class || !r.complete() && r.live > waiting {
			continue
		}
		c := candidate{req: r, ids: r.Prompt, most: 1}
		if !r.complete() {
			c.most = waiting
		}
		switch s.judge(&c) {
		case fits:
			return s.start(&c)
		case never:
			s.failRequest(r, inference.FinishError, s.outOfCache(len(r.Prompt), 0), failed)
			return s.another(class)
		default: // it waits on
		}
	}
	return false
}

// listPartial keeps the list of started requests with choices without a slot.
func (s *Scheduler) listPartial(r *request) {
	i, waits := slices.Index(s.partial, r), r.unslotted() > 0
	switch {
	case waits && i < 0:
		s.partial = append(s.partial, r)
	case !waits && i >= 0:
		s.partial = slices.Delete(s.partial, i, i+1)
	}
}

// fresh starts a waiting request of a class: the first in order of turns that
// fits. A request that was passed OvertakeLimit times is passed no more.
func (s *Scheduler) fresh(class inference.Class) (started, open bool) {
	if s.waiting.Waiting(class) == 0 {
		return false, true
	}
	const recheck = 8 // plans: after so many, others than those for long prompts may have got what they lack
	s.waiting.Scan(class, s.longPrefills() < s.cfg.MaxPrefills || s.plans%recheck == 0)
	defer s.waiting.EndScan()
	for first := true; ; {
		ref, _, ok := s.waiting.Next()
		if !ok {
			return false, true
		}
		r := s.requests.find(ID(ref))
		c := candidate{req: r, ids: r.Prompt, most: r.live}
		v := s.judge(&c)
		if v == crowded && first {
			v = s.displace(&c)
		}
		switch {
		case v == fits:
			if first {
				s.prefer(&c)
			}
			return s.start(&c), false
		case v == never:
			s.failRequest(r, inference.FinishError, s.outOfCache(len(r.Prompt), 0), failed)
			continue
		case v == queued:
			// What it waits for is held by its like: barring others would not free
			// it, and passing it is not overtaking.
			s.waiting.SetAside()
			first = false
			continue
		case r.overtaken >= s.cfg.OvertakeLimit, s.step.pressed:
			return false, false
		}
		s.trial.passed = append(s.trial.passed, r)
		s.waiting.Skip()
		first = false
	}
}

// judge says whether a candidate can start now. What lacked blocks is not
// asked again while even fewer are free, except every few steps, since others
// may have published blocks that it can share.
func (s *Scheduler) judge(c *candidate) verdict {
	const recheck = 8 // plans
	r := c.req
	if c.slots = min(c.most, s.cfg.MaxSeqs-s.slots); c.slots < 1 {
		return crowded
	}
	if c.seq == nil && (r.Group != "" || r.N > 1) {
		taken := s.callSlots(r)
		if c.slots = min(c.slots, max(s.callLimit(taken)-taken, 0)); c.slots < 1 {
			return queued
		}
	}
	if r.blocked > 0 && s.pool.FreeFor(r.Domain) < r.blocked && s.plans-r.tried < recheck && len(s.running)+len(s.paused) > 0 {
		return crowded
	}
	s.match(c)
	switch {
	case s.long(len(c.ids)-c.hit.Tokens) && s.longPrefills() >= s.cfg.MaxPrefills && !s.keptOut(r.party):
		return queued
	case r.overtaken < s.cfg.OvertakeLimit && s.inFlight(c):
		return held
	}
	if r.started && c.seq == nil {
		s.share(r, s.promptRows(r))
	}
	v := s.footprint(c)
	if v == crowded && c.slots > 1 {
		c.slots = 1
		v = s.footprint(c)
	}
	r.blocked, r.tried = 0, s.plans
	if v != fits {
		r.blocked = c.need
	}
	return v
}

// match looks up what of the candidate is cached.
func (s *Scheduler) match(c *candidate) {
	c.hit = kvcache.Hit{}
	if limit := c.req.reuse(c.ids); limit > 0 {
		c.hit = s.pool.MatchChain(c.req.Domain, c.req.Chain, c.ids, limit)
	}
}

// callLimit is how many slots the requests of one call, or the choices of one
// request, may have: it leaves free a quarter, and as many as others have now,
// for who comes while they run and would wait for the end of an output
// otherwise. At least half are its own.
func (s *Scheduler) callLimit(taken int) int {
	all := s.cfg.MaxSeqs
	return all - min(max(all/4, 2*(s.slots-taken)), all/2)
}

// callSlots is how many slots the call of a request has.
func (s *Scheduler) callSlots(r *request) int {
	n := 0
	for _, q := range s.running {
		if q.req == r || r.Group != "" && q.req.Group == r.Group && q.req.Tenant == r.Tenant {
			n += q.slots
		}
	}
	return n
}

// long is a prompt that takes more than one step.
func (s *Scheduler) long(rows int) bool { return rows > s.cfg.PrefillChunk }

func (s *Scheduler) longPrefills() int {
	n := 0
	for _, q := range s.running {
		if s.long(q.pending()) {
			n++
		}
	}
	return n
}

// keptOut reports whether none of a party's long prompts run while some of a tenant do that crowds it: one of its own runs beside them.
func (s *Scheduler) keptOut(p *party) bool {
	crowded := false
	for _, q := range s.running {
		switch {
		case !s.long(q.pending()):
		case q.req.party == p:
			return false
		default:
			crowded = crowded || q.req.party.crowds(p)
		}
	}
	return crowded
}

// inFlight reports whether a running prompt is about to publish the next block
// that the candidate lacks: waiting for it is cheaper than computing it twice.
func (s *Scheduler) inFlight(c *candidate) bool {
	from := c.hit.Full * s.blockTokens
	to := from + s.blockTokens
	if to > c.req.reuse(c.ids) {
		return false
	}
	for _, q := range s.running {
		if q.computed < to && to <= len(q.ids) && q.req.Domain == c.req.Domain &&
			slices.Equal(q.ids[from:to], c.ids[from:to]) && slices.Equal(q.ids[:from], c.ids[:from]) {
			return true
		}
	}
	return false
}

// start gives a candidate that fits its blocks and its first rows.
func (s *Scheduler) start(c *candidate) bool {
	r, q, p := c.req, c.seq, s.step.plan
	born := q == nil
	if born {
		k := r.next + slices.IndexFunc(r.choices[r.next:], func(c choice) bool { return !c.ended })
		q = s.newSequence(r, k, 1)
	}
	s.pool.Begin(&q.table, r.Domain)
	s.pool.SetClass(&q.table, retention(r.Class))
	if !s.allot(q, c.hit, len(s.running)+len(s.paused) == 0) {
		return s.refuseStart(c, q)
	}
	if q.slots = c.slots; born || q.slots > 1 {
		r.slot(q.choice, q.slots)
	}
	switch {
	case !r.started:
		s.enter(r, c.hit.Tokens)
	case born: // a further choice: its request has left the queue long ago
	default:
		s.resuming, _ = remove(s.resuming, q)
		r.overtaken = 0
		p.Resumed = append(p.Resumed, r.id)
		s.stats.RecomputedTokens += uint64(max(0, q.peak-c.hit.Tokens))
	}
	q.computed, q.shared = c.hit.Tokens, c.hit.Full*s.blockTokens
	q.lent = len(q.table.Blocks()) - s.pool.Sole(&q.table)
	if born && len(r.choices) > 1 && r.complete() {
		q.shared = s.promptRows(r) // the last block becomes one with the others' when it is full
	}
	q.again = max(0, q.peak-c.hit.Tokens)
	q.peak = max(q.peak, q.computed)
	r.prefilled = max(r.prefilled, min(q.computed, len(r.Prompt)))
	s.listPartial(r)
	s.running = insert(s.running, q)
	s.seat(r.party, q.slots)
	q.since = s.plans
	if !s.trial.stale {
		s.expect(s.growthOf(q), q.slots)
	}
	if !s.finish(q) {
		s.step.wanted += min(q.pending(), s.cfg.PrefillChunk)
	}
	return true
}

// retention is how long the blocks of a request are kept in the prefix cache
// beside others: what a batch request leaves goes before conversations do.
func retention(c inference.Class) kvcache.Class {
	switch c {
	case inference.Interactive:
		return kvcache.Retained
	case inference.Batch:
		return kvcache.Ephemeral
	default:
		return kvcache.Normal
	}
}

// refuseStart undoes a start for which the pool took back its word.
func (s *Scheduler) refuseStart(c *candidate, q *sequence) bool {
	s.pool.Release(&q.table)
	if c.seq == nil {
		c.req.choices[q.choice].seq = nil
		s.spare = append(s.spare, q)
	}
	return false
}

// enter takes a request out of the queue for good.
func (s *Scheduler) enter(r *request, cached int) {
	r.charged = s.promptCost(len(r.Prompt), cached)
	r.flow = s.waiting.Take(r.charged)
	r.started = true
	s.date(r)
	s.admitted++
	r.order = s.admitted
	r.cached = cached
	s.step.plan.Admitted = append(s.step.plan.Admitted, r.id)
	s.stats.Admitted++
	s.stats.PromptTokens += uint64(len(r.Prompt))
	s.stats.CachedTokens += uint64(cached)
}
