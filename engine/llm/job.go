package llm

import (
	"slices"
	"time"

	"weir/engine/kernel/pool"
	"weir/engine/sample"
	"weir/internal/inference"
	"weir/kvcache"
	"weir/scheduler"
	"weir/scheduler/admission"
)

// command is a submit, a cancel or a question that another goroutine sends to the
// step loop.
type command struct {
	job      *job // nil for a question
	submit   bool
	choice   int       // to cancel; -1 is all
	at       time.Time // when the cancel was asked for
	question *question // nil for other commands
	late     *lateRow  // is back; nil for other commands
}

// job is one request inside the engine. After Submit it belongs to the loop.
type job struct {
	req      *inference.Request
	stream   *inference.Stream
	fetch    *fetch // of blocks of the prompt, before the job enters the loop; nil: none
	fresh    span   // of the prompt: blocks that were fetched, and computed elsewhere for this request
	domain   kvcache.Domain
	adapter  *adapter          // nil: none
	group    string            // of the call, where it has several requests
	chain    []kvcache.Hash    // of the prompt's blocks; nil where none may come from the cache
	id       scheduler.ID      // 0 before the loop has submitted it and after its end
	samplers []*sample.Sampler // per choice
	stop     []inference.TokenID
	broke    *pool.Fault // a panic in its constraint outside of sampling; its next token is an error

	away   []bool        // per choice: see latemask.go; nil while none ever was
	beside time.Duration // that late masks took
	gone   chan struct{} // closed when the job has ended; nil without a constraint
	left   bool          // gone is closed

	ended     []bool         // per choice
	item      admission.Item // as Engine.precheck counts it
	waits     bool           // Engine.precheck counts it
	queued    time.Time
	admitted  time.Time   // zero while it waits for the first time
	keys      [][]float32 // of the rows at Request.Marks, as far as they were computed
	first     time.Time   // token sampled
	last      time.Time   // token sampled
	preempted int         // times, over its sequences
	spent     int64       // nanoseconds of compute time; the scheduler's, between steps the loop's to read
	noted     bool        // phase, cause and gave are what its stream was told last
	phase     inference.Phase
	cause     inference.Cause
	gave      inference.Gave
	lost      bool  // an event did not fit the ring; nothing but finishes follows
	err       error // of the first choice that failed; the stream ends with it
}

// span is a run of positions of a prompt.
type span struct{ from, to int }

// without is how many of the first n positions are left without those of the span.
func (s span) without(n int) int { return n - max(0, min(n, s.to)-s.from) }

func newJob(r *inference.Request, d kvcache.Domain, end []inference.TokenID) *job {
	j := &job{req: r, domain: d, stop: slices.Concat(end, r.StopTokens), ended: make([]bool, r.N), queued: time.Now()}
	p := sample.Params{Sampling: r.Sampling, MinTokens: r.MinTokens, End: j.stop}
	if r.IgnoreEOS {
		p.End, p.Ignored = r.StopTokens, end
		if r.Constraint == nil { // with one, an ignored token comes only where it must end the choice
			j.stop = r.StopTokens
		}
	}
	if r.Given != nil {
		j.stop = nil // a choice ends where its tokens do, whichever they are
		return j
	}
	if r.MaxTokens == 0 {
		return j
	}
	if r.Constraint != nil {
		j.gone = make(chan struct{})
	}
	for p.Choice = range r.N {
		if r.Constraint != nil {
			p.Constraint = r.Constraint.Fork()
		}
		j.samplers = append(j.samplers, sample.New(p, r.Prompt))
	}
	return j
}

// hash computes the chain of the prompt's block hashes. SubmitAll calls it on its
// caller's goroutine, because hashing a long prompt takes as long as a small step.
func (j *job) hash(blockTokens int) {
	if j.req.PromptLogprobs >= 0 {
		return // every row must be computed
	}
	j.chain = j.domain.Chain(make([]kvcache.Hash, 0, len(j.req.Prompt)/blockTokens), j.req.Prompt, blockTokens)
}

// ringSlack is how many unread tokens of a choice a slow reader may leave
// before its request is cancelled.
const ringSlack = 4096

// ringEvents is the most events of a request that may lie unread, its finishes
// left aside: prompt logprobs come in bursts and must all fit.
func ringEvents(r *inference.Request) int {
	n := r.N*(min(r.MaxTokens, ringSlack)+1) + 1
	if r.PromptLogprobs >= 0 {
		n += len(r.Prompt)
	}
	return n
}

// phases are the times of a job that has ended.
func (j *job) phases() Phases {
	p := Phases{Queue: j.admitted.Sub(j.queued), Prefill: -1, Inference: -1, Preemptions: j.preempted}
	if j.last.After(j.admitted) {
		p.Inference = j.last.Sub(j.admitted)
		p.Prefill = max(0, j.first.Sub(j.admitted))
	}
	return p
}

// push hands the reader an event. Once an event did not fit into the ring, only
// finishes follow, even if the reader has made room since: an answer never has a gap.
func (j *job) push(e inference.Event) {
	if j.lost && e.Kind != inference.EventFinish {
		return
	}
	if !j.stream.Push(e) {
		j.lost = true
	}
}

// stops reports whether a token ends its choice.
func (j *job) stops(id inference.TokenID) bool { return slices.Contains(j.stop, id) }

// ends reports whether the token of an event, sampled from the row at pos, ends its choice.
func (j *job) ends(ev *inference.Event, pos int) bool {
	if j.req.Given != nil {
		return pos+2-len(j.req.Prompt) == len(j.req.Given[ev.Choice])
	}
	return j.stops(ev.Token)
}

// request is the job as the scheduler sees it.
func (j *job) request(speculate bool) scheduler.Request {
	q := schedulerRequest(j.req, speculate)
	q.Domain, q.Chain, q.Group, q.User, q.Spent = j.domain, j.chain, j.group, j, &j.spent
	return q
}

// schedulerRequest is r as the scheduler sees it, without what only a job has.
func schedulerRequest(r *inference.Request, speculate bool) scheduler.Request {
	q := scheduler.Request{
		Prompt: r.Prompt, MaxTokens: r.MaxTokens, N: r.N,
		Tenant: r.Tenant, Weight: r.Weight, Class: r.Class,
		FirstTokenBy: nanoseconds(r.FirstTokenBy), DoneBy: nanoseconds(r.DoneBy), WaitUntil: nanoseconds(r.WaitUntil),
		OverQuota: r.OverQuota, Retries: r.Retries,
		Speculate: r.Speculation.Or(speculate), Given: r.Given,
	}
	if r.PromptLogprobs >= 0 {
		q.Logits = scheduler.LogitsAll
	}
	if r.Marks != nil {
		q.Logits, q.LogitsFrom = scheduler.LogitsAll, r.Marks[0]
	}
	if r.KV.DoRemoteDecode {
		q.Logits = scheduler.LogitsNone
	}
	return q
}

// nanoseconds is a moment as the scheduler counts it; no moment is 0.
func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}
