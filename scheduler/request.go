package scheduler

import (
	"slices"

	"weir/internal/inference"
	"weir/kvcache"
	"weir/scheduler/admission"
	"weir/scheduler/answer"
)

// request is a submitted request until its last choice ends.
type request struct {
	Request
	id      ID
	ticket  admission.Ticket // valid while it waits
	flow    admission.FlowID // valid once admitted
	started bool             // has left the queue
	next    int              // choices below it have got a slot; the live others wait for one
	order   uint64           // of admission; kept across preemptions, so that turns are kept
	limit   int              // output tokens per choice: MaxTokens, cut by CapOutput
	choices []choice         // [N]
	live    int              // choices that have not ended
	outcome outcome          // of the choice that ended last
	answers *answer.History  // of its tenant
	party   *party           // its tenant's

	overtaken int    // admissions that passed it while it waited
	blocked   int    // blocks that it lacked at its last trial; below that a trial is pointless
	tried     uint64 // plan of the last trial

	answered  bool   // a token was sampled
	prefilled int    // prompt rows that were computed or cached at some time
	cached    int    // prompt rows found in the cache at the first start
	charged   uint64 // to the flow for the prompt, in nanoseconds
	spent     uint64 // on the prompt

	reported int // prompt rows whose logits the engine has had (LogitsAll)
}

// choice is one answer of a request. Before the fork, the first live choice
// has the sequence that prefills the prompt for all that have a slot.
type choice struct {
	seq   *sequence
	ended bool
}

// outcome is how a request ended, for the counts.
type outcome uint8

const (
	stopped outcome = iota
	length
	cancelled
	failed
	expired
	shed
)

func (r *request) open(in Request, poolRows int) {
	choices := slices.Grow(r.choices[:0], in.N)[:in.N]
	clear(choices)
	*r = request{
		Request: in, id: r.id, ticket: r.ticket, choices: choices, live: in.N,
		limit: min(in.MaxTokens, poolRows-len(in.Prompt)+1),
	}
}

// reuse is how many of a sequence's leading rows may come from the cache. One
// row is always left to compute. Rows whose logits are still owed must be
// computed.
func (r *request) reuse(ids []inference.TokenID) int {
	switch {
	case r.Logits == LogitsAll:
		return min(len(ids)-1, r.reported)
	case r.NoCache && r.prefilled == 0:
		return 0
	}
	return len(ids) - 1
}

// sequence is one choice of a request that has blocks, or had them before it
// was preempted.
type sequence struct {
	req    *request
	choice int
	slots  int // 1, or before the fork one per live choice in [choice, req.next)
	table  kvcache.Table
	ids    []inference.TokenID // prompt and output so far

	computed int    // leading ids whose KV is final: table.Tokens()
	produced int    // output tokens
	shared   int    // leading rows in blocks that other sequences may hold too
	ran      int    // tokens produced since it last started
	again    int    // rows that it computed already and did not find in the cache when it last started
	since    uint64 // plan in which it last got a slot
	peak     int    // most rows it ever had; below that, rows are computed again

	preemptions int
	drafts      draftRecord         // of looked up ones
	forces      draftRecord         // of forced ones
	forced      []inference.TokenID // Result.Forced behind ids
	due         int64               // scratch of prompts: a deadline that is at risk
	rows        int                 // in the plan in the making or out, drafts included
	chunk       int                 // index of these in the plan
	late        bool                // gets no rows until Release
	lent        int                 // blocks that others held when it started
	aside       uint64              // plan of a short step that leaves it out
	ended       bool                // ended while its rows are in a plan that is out
}

func (q *sequence) pending() int { return len(q.ids) - q.computed }

// decoding means that one row continues an output.
func (q *sequence) decoding() bool { return q.produced > 0 && q.pending() == 1 }

// forks means that the end of the prompt is the start of several choices.
func (q *sequence) forks() bool { return q.slots > 1 }

// private is how many blocks preempting the sequence is sure to free.
func (q *sequence) private(blockTokens int) int {
	return len(q.table.Blocks()) - q.shared/blockTokens
}

// held is how many blocks count to its tenant's share: all but those that another sequence's count has.
func (q *sequence) held(blockTokens int) int {
	if len(q.req.choices) > 1 {
		return q.private(blockTokens)
	}
	return len(q.table.Blocks()) - q.lent
}

// compare orders sequences by precedence: class, admission, choice.
func compare(a, b *sequence) int {
	if a.req.Class != b.req.Class {
		return int(a.req.Class) - int(b.req.Class)
	}
	if a.req.order != b.req.order {
		if a.req.order < b.req.order {
			return -1
		}
		return 1
	}
	return a.choice - b.choice
}

// insert puts a sequence into a list in order of precedence.
func insert(list []*sequence, q *sequence) []*sequence {
	i, _ := slices.BinarySearchFunc(list, q, compare)
	return slices.Insert(list, i, q)
}

// find is the index of a sequence in a list in order of precedence.
func find(list []*sequence, q *sequence) (i int, ok bool) {
	i, found := slices.BinarySearchFunc(list, q, compare)
	return i, found && list[i] == q
}

// remove takes a sequence out of a list; false when it is not in it.
func remove(list []*sequence, q *sequence) ([]*sequence, bool) {
	i, ok := find(list, q)
	if !ok {
		return list, false
	}
	return slices.Delete(list, i, i+1), true
}

// newSequence takes a sequence for one choice of r from the spares.
func (s *Scheduler) newSequence(r *request, choice, slots int) *sequence {
	var q *sequence
	if n := len(s.spare); n > 0 {
		q, s.spare = s.spare[n-1], s.spare[:n-1]
	} else {
		q = &sequence{}
	}
	q.req, q.choice, q.slots = r, choice, slots
	q.ids = slices.Grow(q.ids[:0], len(r.Prompt)+min(r.limit, 256))
	q.ids = append(q.ids, r.Prompt...)
	q.computed, q.produced, q.shared, q.ran, q.peak = 0, 0, 0, 0, 0
	q.preemptions, q.rows, q.ended, q.late, q.aside = 0, 0, false, false, 0
	q.drafts, q.forces, q.forced = draftRecord{}, draftRecord{}, q.forced[:0]
	r.choices[choice].seq = q
	return q
}

// releaseSequence takes a sequence off the lists and gives its blocks back,
// except while a plan that is out writes to them; then Commit does.
func (s *Scheduler) releaseSequence(q *sequence) {
	s.lengths.Learn(q.req.Tenant, q.req.limit, q.produced)
	var ok bool
	if s.running, ok = remove(s.running, q); ok {
		s.seat(q.req.party, -q.slots)
	} else if s.paused, ok = remove(s.paused, q); !ok {
		s.resuming, _ = remove(s.resuming, q)
	}
	s.trial.stale = true
	if s.step.out && q.rows > 0 {
		q.ended = true
		return
	}
	s.recycle(q)
}

// recycle releases a sequence's blocks and keeps its memory for the next one.
func (s *Scheduler) recycle(q *sequence) {
	s.pool.Release(&q.table)
	q.req = nil
	s.spare = append(s.spare, q)
}

// endChoice ends one choice. It frees the request with the last one.
func (s *Scheduler) endChoice(r *request, choice int, how outcome) (done bool) {
	r.choices[choice].ended = true
	r.choices[choice].seq = nil
	r.live--
	r.outcome = how
	if r.live > 0 {
		return false
	}
	s.forget(r)
	return true
}

// forget counts a request's outcome and forgets it.
func (s *Scheduler) forget(r *request) {
	if i := slices.Index(s.partial, r); i >= 0 {
		s.partial = slices.Delete(s.partial, i, i+1)
	}
	s.parties.leave(s.step.began, r.party)
	if r.started {
		s.pool.Protect(r.Domain, s.step.began+int64(protectionTime))
		s.undate(r)
		s.waiting.Done(r.flow)
	} else {
		s.waiting.Remove(r.ticket)
	}
	switch r.outcome {
	case stopped:
		s.stats.Stopped++
	case length:
		s.stats.Length++
	case cancelled:
		s.stats.Cancelled++
	case failed:
		s.stats.Failed++
	case expired:
		s.stats.Expired++
	case shed:
		s.stats.Shed++
	}
	s.requests.put(r)
}

// endRequest ends every choice of a request that is left.
func (s *Scheduler) endRequest(r *request, how outcome) {
	for i := range r.choices {
		c := &r.choices[i]
		if c.ended {
			continue
		}
		if c.seq != nil {
			s.releaseSequence(c.seq)
		}
		if s.endChoice(r, i, how) {
			return
		}
	}
}

// Cancel ends one choice, or all with -1, in whatever state the request is.
// Between Commit and Plan its blocks are free on return; while a plan is out,
// blocks with planned rows stay allocated until Commit, which ignores their
// results. No End is reported. false means that there was nothing to end.
func (s *Scheduler) Cancel(_ int64, id ID, choice int) bool {
	r := s.requests.find(id)
	if r == nil || choice < -1 || choice >= r.N {
		return false
	}
	if choice == -1 {
		s.endRequest(r, cancelled)
		return true
	}
	if r.choices[choice].ended {
		return false
	}
	if r.started && choice < r.next {
		s.giveBack(r, choice)
	}
	if done := s.endChoice(r, choice, cancelled); !done && r.started {
		s.listPartial(r)
	}
	return true
}

// giveBack gives back the slot of a choice. If the choice carries the prompt for
// others, the next of them does from now on.
func (s *Scheduler) giveBack(r *request, k int) {
	q := r.choices[k].seq
	if q != nil && !q.forks() {
		s.releaseSequence(q)
		return
	}
	if q == nil {
		q = r.carrier()
	}
	q.slots--
	if _, ok := slices.BinarySearchFunc(s.running, q, compare); ok {
		s.seat(r.party, -1)
	}
	if q.choice != k {
		return
	}
	heir := k + 1 + slices.IndexFunc(r.choices[k+1:], func(c choice) bool { return !c.ended })
	r.choices[k].seq, r.choices[heir].seq = nil, q
	q.choice = heir
}

// carrier is the sequence that prefills the prompt for several choices; nil if
// there is none.
func (r *request) carrier() *sequence {
	for i := range r.choices {
		if q := r.choices[i].seq; q != nil && q.forks() {
			return q
		}
	}
	return nil
}

// unslotted is how many live choices wait for a slot.
func (r *request) unslotted() int {
	n := 0
	for i := r.next; i < len(r.choices); i++ {
		if !r.choices[i].ended {
			n++
		}
	}
	return n
}

// slot gives slots to the first n live choices from choice k on.
func (r *request) slot(k, n int) {
	for r.next = k; n > 0; r.next++ {
		if !r.choices[r.next].ended {
			n--
		}
	}
}

// complete means that all rows of the prompt were computed and reported, so
// that further choices need none but the last one.
func (r *request) complete() bool {
	return r.prefilled >= len(r.Prompt) && (r.Logits != LogitsAll || r.reported >= len(r.Prompt))
}

// share notes that leading rows of a request's choices lie, or are about to
// lie, in blocks of one another, which the end of one alone does not free.
func (s *Scheduler) share(r *request, rows int) {
	for i := range r.choices {
		if q := r.choices[i].seq; q != nil && q.computed >= rows && q.shared < rows {
			q.shared = rows
			s.trial.stale = true
		}
	}
}

// promptRows is how many leading rows of a prompt fill whole blocks.
func (s *Scheduler) promptRows(r *request) int { return len(r.Prompt) / s.blockTokens * s.blockTokens }
