// Package llamacpp runs GGUF files that the native engine does not know on llama.cpp, through
// github.com/go-skynet/go-llama.cpp. Open works in builds with the tag llamacpp only, which need the library that `make
// llamacpp` builds; the queue before it is in every build.
//
// It is a way out and no second native engine. One sequence runs at a time, behind the same admission queue as
// everywhere: no batching, no paging, no prefix cache. The binding is of March 2024 with a llama.cpp of October 2023, so
// architectures since then are unknown to it. It takes texts and not token ids: the prompt is tokenised again, control
// tokens of a chat template reach the model as plain text, and ids of answers are found by their text. There are no
// log-probabilities, masks, formats, biases or several choices: such requests are refused. A cancel takes effect at the next output
// token, not while the prompt is computed. A fault inside the library ends the process.
package llamacpp

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"weir/internal/inference"
	"weir/scheduler/admission"
)

// Vocabulary translates between token ids and texts, for a library that takes texts.
type Vocabulary struct {
	// Text is the prompt as the library shall read it, without a token for the beginning: the library adds its own.
	Text func(ids []inference.TokenID) string
	// Tokens are the ids of a piece of output. No ids stand for no text.
	Tokens func(piece string) []inference.TokenID
}

// Options size an engine.
type Options struct {
	Threads     int // 0: 4
	MaxModelLen int // prompt and output together, in tokens; 0: DefaultModelLen
	MaxWaiting  int // requests in line; 0: 1024
	Vocabulary  Vocabulary

	// RopeFreqBase is the file's ARCH.rope.freq_base, and RopeScale its ARCH.rope.scale_linear; 0: 10000 and 1. The binding does
	// not take them from the file.
	RopeFreqBase, RopeScale float32
}

// DefaultModelLen is how long prompt and output may be together where the options do not say.
const DefaultModelLen = 2048

// call is what a generator is asked for.
type call struct {
	prompt    string
	maxTokens int
	ignoreEOS bool
	sampling  inference.Sampling
}

// generator computes one answer at a time. It calls token with each piece of output and stops where that returns false;
// it returns by itself when the model ends its answer.
type generator interface {
	generate(c call, token func(piece string) bool) error
	close()
}

// Engine is a router.Backend with one slot.
type Engine struct {
	options   Options
	generator generator
	now       func() time.Time
	done      chan struct{} // closed when the loop has ended

	mu      sync.Mutex // guards what follows
	queue   *admission.Queue
	jobs    map[uint64]*job // waiting and running, by reference
	next    uint64
	running *job
	closed  bool
	wake    chan struct{} // has room for one: something waits, or the engine closes
}

// job is a request. Its fields below the line are guarded by Engine.mu.
type job struct {
	request *inference.Request
	stream  *inference.Stream

	ticket admission.Ticket
	ended  error // why it shall stop; nil: it goes on
}

// newEngine starts the loop.
func newEngine(g generator, o Options) (*Engine, error) {
	if o.MaxModelLen == 0 {
		o.MaxModelLen = DefaultModelLen
	}
	if o.Vocabulary.Text == nil || o.Vocabulary.Tokens == nil {
		return nil, errors.New("llama.cpp takes texts: the vocabulary is missing")
	}
	q, err := admission.New(admission.Config{MaxRequests: o.MaxWaiting})
	if err != nil {
		return nil, err
	}
	e := &Engine{
		options: o, generator: g, now: time.Now, done: make(chan struct{}), queue: q, jobs: make(map[uint64]*job), wake: make(chan struct{}, 1),
	}
	go e.loop()
	return e, nil
}

// SubmitAll queues the requests of one call, or refuses them all.
func (e *Engine) SubmitAll(rs []*inference.Request) ([]*inference.Stream, error) {
	for _, r := range rs {
		if err := e.check(r); err != nil {
			return nil, err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, inference.ErrUnavailable
	}
	jobs := make([]*job, 0, len(rs))
	for _, r := range rs {
		j, err := e.offer(r)
		if err != nil {
			for _, other := range jobs {
				e.queue.Remove(other.ticket)
				delete(e.jobs, e.refOf(other))
			}
			return nil, err
		}
		jobs = append(jobs, j)
	}
	streams := make([]*inference.Stream, len(jobs))
	for i, j := range jobs {
		streams[i] = j.stream
	}
	e.signal()
	return streams, nil
}

// refOf finds the reference of a job that is about to be forgotten.
func (e *Engine) refOf(j *job) uint64 {
	for ref, other := range e.jobs {
		if other == j {
			return ref
		}
	}
	return 0
}

// offer puts a request in line. The caller has the lock.
func (e *Engine) offer(r *inference.Request) (*job, error) {
	e.next++
	ref := e.next
	j := &job{request: r}
	it := admission.Item{
		Ref: ref, Tenant: r.Tenant, Class: r.Class, Weight: r.Weight, Tokens: len(r.Prompt), Group: r.ID,
		Cost: uint64(len(r.Prompt)), OverQuota: r.OverQuota, Retries: r.Retries,
	}
	if until := waitUntil(r); !until.IsZero() {
		it.Until = until.UnixNano()
	}
	var err error
	if j.ticket, err = e.queue.Offer(it); err != nil {
		return nil, err
	}
	j.stream = inference.NewStream(r.MaxTokens+1, func(int) { e.cancel(ref) })
	j.stream.Note(inference.Moment{At: e.now().UnixNano(), Phase: inference.PhaseWaiting, Cause: inference.CauseTurn})
	e.jobs[ref] = j
	return j, nil
}

// waitUntil is when waiting is over: at the end that the request names, or at a deadline.
func waitUntil(r *inference.Request) time.Time {
	until := r.WaitUntil
	for _, t := range []time.Time{r.FirstTokenBy, r.DoneBy} {
		if !t.IsZero() && (until.IsZero() || t.Before(until)) {
			until = t
		}
	}
	return until
}

// check refuses what the library cannot do.
func (e *Engine) check(r *inference.Request) error {
	s := &r.Sampling
	unsupported := func(what string) error {
		return fmt.Errorf("%w: a model on llama.cpp has no %s; leave it out", inference.ErrInvalid, what)
	}
	switch {
	case r.Constraint != nil:
		return unsupported("grammars: no response_format, no structured outputs, no required tools")
	case r.Given != nil:
		return unsupported("decisions")
	case r.N > 1:
		return unsupported("n above 1")
	case s.Logprobs >= 0 || r.PromptLogprobs >= 0:
		return unsupported("log-probabilities")
	case len(s.LogitBias) > 0:
		return unsupported("logit_bias")
	case len(s.AllowedTokens) > 0 || len(s.BadWords) > 0:
		return unsupported("allowed or forbidden tokens")
	case s.MinP > 0:
		return unsupported("min_p")
	case r.MinTokens > 0:
		return unsupported("min_tokens")
	case len(r.Prompt) == 0 || r.MaxTokens < 1:
		return fmt.Errorf("%w: a prompt and at least one output token are needed", inference.ErrInvalid)
	}
	if most := e.options.MaxModelLen; len(r.Prompt)+r.MaxTokens > most {
		return &inference.LimitError{
			Err: inference.ErrContextLength, What: "prompt tokens + max_tokens", Need: len(r.Prompt) + r.MaxTokens, Limit: most,
			Remedy: "shorten the prompt, lower max_tokens or raise --max-model-len",
		}
	}
	return nil
}

// Load reports how many requests wait and run.
func (e *Engine) Load() inference.Load {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := inference.Load{Waiting: e.queue.Len(), WaitingTokens: e.queue.Tokens(), KVBlocks: 1, Ready: !e.closed}
	if e.running != nil {
		l.Running, l.KVBlocksUsed = 1, 1
	}
	return l
}

// Close lets the answer that runs stop at its next token, ends all others with ErrUnavailable, and releases the library.
// It returns when that is done, or at the end of the context, when the library goes on in the background.
func (e *Engine) Close(ctx context.Context) error {
	e.mu.Lock()
	e.closed = true
	for _, j := range e.jobs {
		if j.ended == nil {
			j.ended = inference.ErrUnavailable
		}
	}
	e.signal()
	e.mu.Unlock()
	select {
	case <-e.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (e *Engine) signal() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// cancel is a stream's. A request in line ends at once, the running one at its next token.
func (e *Engine) cancel(ref uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	j := e.jobs[ref]
	if j == nil || j.ended != nil {
		return
	}
	j.ended = inference.ErrCancelled
	if e.running != j {
		e.queue.Remove(j.ticket)
		e.finish(ref, j, inference.FinishCancelled, j.ended)
	}
}

// finish ends a request's stream. The caller has the lock.
func (e *Engine) finish(ref uint64, j *job, reason inference.FinishReason, err error) {
	delete(e.jobs, ref)
	j.stream.Push(inference.Event{Kind: inference.EventFinish, Finish: reason})
	j.stream.Close(err)
}
