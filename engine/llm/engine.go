package llm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"weir/engine/gguf"
	"weir/engine/kernel"
	"weir/engine/kernel/attend"
	"weir/internal/inference"
	"weir/kvcache"
	"weir/scheduler"
)

// Engine is a loaded model that serves requests. Submit, Load, Info and Stats
// may be called from any goroutine; everything else belongs to the step loop.
type Engine struct {
	opts  Options
	info  Info
	model *model
	cpu   *kernel.CPU
	kv    *attend.KV
	cache kvcache.Config
	pool  *kvcache.Pool              // the loop's; a fault may replace both
	sched *scheduler.Scheduler       // the loop's, but for Check with mu held
	end   map[inference.TokenID]bool // Options.EndTokens

	mu       sync.Mutex
	inbox    []command
	arrivals int // choices of submits in the inbox
	tokens   int // their prompt tokens
	closing  bool
	abort    bool  // cancel what still runs
	dead     error // a fault that nothing mended
	stats    Stats

	wake    chan struct{} // capacity 1: the inbox has news
	stopped chan struct{} // closed when the loop has ended

	loop loop
}

// Stats is the state after the last step.
type Stats struct {
	Scheduler scheduler.Stats
	Cache     kvcache.Stats
	Steps     uint64
	Panics    uint64 // recovered in the step loop, those of hooks included
	Faults    uint64 // broken invariants found by the idle check
	Rebuilds  uint64 // times that scheduler and block pool were built anew after a fault
	LastFault string
}

// Load reads a model into memory and starts its step loop. progress is called
// with bytes read so far, from this goroutine; it may be nil. The file may be
// closed afterwards.
func Load(f *gguf.File, opts Options, progress func(done, total int64)) (*Engine, error) {
	e, err := newEngine(f, opts, progress)
	if err != nil {
		return nil, err
	}
	go e.run()
	return e, nil
}

// newEngine is Load without the step loop's goroutine.
func newEngine(f *gguf.File, opts Options, progress func(done, total int64)) (*Engine, error) {
	if progress == nil {
		progress = func(int64, int64) {}
	}
	e := &Engine{opts: opts, wake: make(chan struct{}, 1), stopped: make(chan struct{})}
	if err := e.open(f, progress); err != nil {
		e.release()
		return nil, err
	}
	return e, nil
}

// open builds the engine, what costs little first: what cannot run is refused
// before gigabytes are read.
func (e *Engine) open(f *gguf.File, progress func(done, total int64)) error {
	o, err := readOutline(f, &e.opts)
	if err != nil {
		return err
	}
	if e.info, err = o.describe(f, e.opts.threads()); err != nil {
		return err
	}
	b := &o.budget
	if e.kv, err = attend.NewKV(b.shape); err != nil {
		return fmt.Errorf("%w; lower --kv-cache-memory-bytes or --max-model-len", err)
	}
	if e.model, err = o.load(progress); err != nil {
		return err
	}
	e.cpu = e.opts.compute()
	if e.opts.CheckTensors {
		if err := e.model.check(e.cpu); err != nil {
			return err
		}
	}
	if err := e.model.try(e.cpu, e.kv, b.shape.BlockTokens); err != nil {
		return err
	}
	e.cache = kvcache.Config{
		Blocks: b.shape.Blocks, BlockTokens: b.shape.BlockTokens,
		ModelDigest: e.info.Digest, KVType: e.info.KVType, Secret: e.opts.Secret,
	}
	e.opts.Scheduler.MaxModelLen = b.maxModelLen
	e.opts.Scheduler.Cost = e.model.price(e.info.WeightBytes, e.info.Threads)
	if e.opts.Scheduler.MaxWaiting == 0 {
		e.opts.Scheduler.MaxWaiting = defaultMaxWaiting
	}
	if err := e.openScheduler(); err != nil {
		return err
	}
	e.end = make(map[inference.TokenID]bool, len(e.opts.EndTokens))
	for _, id := range e.opts.EndTokens {
		e.end[id] = true
	}
	e.loop.init(e)
	e.publish()
	return nil
}

// openScheduler makes an empty block pool and the scheduler over it.
func (e *Engine) openScheduler() error {
	pool, err := kvcache.New(e.cache)
	if err != nil {
		return err
	}
	sched, err := scheduler.New(e.opts.Scheduler, pool)
	if err != nil {
		return err
	}
	e.mu.Lock()
	e.pool, e.sched = pool, sched
	e.mu.Unlock()
	return nil
}

// release frees what open and Load took; the loop has ended or never began.
func (e *Engine) release() {
	if e.cpu != nil {
		e.cpu.Close()
	}
	if e.kv != nil {
		_ = e.kv.Close()
	}
	if e.model != nil {
		_ = e.model.release()
	}
}

// Info describes the model and its budget.
func (e *Engine) Info() Info { return e.info }

// Stats is a snapshot taken after the last step.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stats
}

// Load reports the state without waiting for a step.
func (e *Engine) Load() inference.Load {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := &e.stats
	return inference.Load{
		Running: s.Scheduler.Running, Waiting: s.Scheduler.Waiting + e.arrivals,
		WaitingTokens: s.Scheduler.WaitingTokens + e.tokens,
		KVBlocks:      s.Cache.Blocks, KVBlocksUsed: s.Cache.Referenced,
		Ready: !e.closing && e.dead == nil,
	}
}

// NotReady says why the engine takes no requests, or nothing.
func (e *Engine) NotReady() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.dead != nil:
		return e.dead.Error()
	case e.closing:
		return "the engine is closing"
	}
	return ""
}

// Submit queues a request, which it owns from here on. What can never be
// served and what finds the queue full is refused at once, on the caller's
// goroutine.
func (e *Engine) Submit(r *inference.Request) (*inference.Stream, error) {
	streams, err := e.SubmitAll([]*inference.Request{r})
	if err != nil {
		return nil, err
	}
	return streams[0], nil
}

// SubmitAll is Submit of all requests of one call, or of none. (Engine is a
// router.Backend; cmd joins the two.)
func (e *Engine) SubmitAll(rs []*inference.Request) ([]*inference.Stream, error) {
	work := make([]command, len(rs))
	streams := make([]*inference.Stream, len(rs))
	choices, tokens := 0, 0
	for i, r := range rs {
		if err := e.validate(r); err != nil {
			return nil, err
		}
		if err := e.check(r); err != nil {
			return nil, err
		}
		j := newJob(r, e.cache.Domain(r.Tenant), e.opts.EndTokens)
		j.hash(e.info.BlockTokens)
		j.stream = inference.NewStream(ringEvents(r), func(choice int) {
			e.post(command{job: j, choice: choice, at: time.Now()})
		})
		work[i], streams[i] = command{job: j, submit: true}, j.stream
		choices += r.N
		tokens += len(r.Prompt)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.admit(choices, tokens); err != nil {
		return nil, err
	}
	e.inbox = append(e.inbox, work...)
	e.arrivals += choices
	e.tokens += tokens
	e.signal()
	return streams, nil
}

// check asks the scheduler whether a request can ever be served.
func (e *Engine) check(r *inference.Request) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sched.Check(len(r.Prompt), r.MaxTokens, r.N)
}

// admit checks the queue's bounds for a call of so many choices, with mu held.
// The counts are those of the last step plus what waits in the inbox, so the
// bound is never exceeded.
func (e *Engine) admit(choices, promptTokens int) error {
	if e.dead != nil {
		return e.dead
	}
	if e.closing {
		return fmt.Errorf("%w: it is shutting down", inference.ErrUnavailable)
	}
	cfg := &e.opts.Scheduler
	if n := e.stats.Scheduler.Waiting + e.arrivals + choices; n > cfg.MaxWaiting {
		return &inference.LimitError{Err: inference.ErrQueueFull, What: "waiting requests", Need: n, Limit: cfg.MaxWaiting, Remedy: "try again later"}
	}
	if n := e.stats.Scheduler.WaitingTokens + e.tokens + promptTokens; cfg.MaxWaitingTokens > 0 && n > cfg.MaxWaitingTokens && n > promptTokens {
		return &inference.LimitError{Err: inference.ErrQueueFull, What: "waiting prompt tokens", Need: n, Limit: cfg.MaxWaitingTokens, Remedy: "try again later"}
	}
	return nil
}

// validate refuses what would read outside the vocabulary or make no sense.
// Lengths and counts are the scheduler's to check.
func (e *Engine) validate(r *inference.Request) error {
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{inference.ErrInvalid}, args...)...)
	}
	vocab := inference.TokenID(e.info.VocabSize)
	outside := func(ids []inference.TokenID) (inference.TokenID, bool) {
		for _, id := range ids {
			if id < 0 || id >= vocab {
				return id, true
			}
		}
		return 0, false
	}
	if id, bad := outside(r.Prompt); bad {
		return invalid("prompt token %d is outside the vocabulary of %d", id, vocab)
	}
	if id, bad := outside(r.StopTokens); bad {
		return invalid("stop token %d is outside the vocabulary of %d", id, vocab)
	}
	for _, b := range r.Sampling.LogitBias {
		if b.ID < 0 || b.ID >= vocab {
			return invalid("logit_bias token %d is outside the vocabulary of %d", b.ID, vocab)
		}
	}
	if id, bad := outside(r.Sampling.AllowedTokens); bad {
		return invalid("allowed token %d is outside the vocabulary of %d", id, vocab)
	}
	for _, word := range r.Sampling.BadWords {
		if id, bad := outside(word); bad || len(word) == 0 {
			return invalid("bad word %v has no tokens, or token %d, which is outside the vocabulary of %d", word, id, vocab)
		}
	}
	switch {
	case r.MinTokens < 0:
		return invalid("min_tokens is %d, must not be negative", r.MinTokens)
	case r.MaxTokens == 0 && r.PromptLogprobs < 0 && r.Pooling == inference.PoolingNone:
		return invalid("max_tokens is 0 and nothing else is asked for")
	case r.Pooling != inference.PoolingNone && (r.MaxTokens > 0 || r.N > 1 || r.PromptLogprobs >= 0):
		return invalid("a pooled request gives no tokens: max_tokens must be 0, n 1, no logprobs")
	}
	return nil
}

// post hands the loop a command.
func (e *Engine) post(c command) {
	e.mu.Lock()
	e.inbox = append(e.inbox, c)
	e.signal()
	e.mu.Unlock()
}

func (e *Engine) signal() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Close refuses new requests, lets the others finish until ctx ends, cancels
// the rest, and releases the memory. It returns ctx's error if requests had to
// be cancelled.
func (e *Engine) Close(ctx context.Context) error {
	e.setClosing(false)
	select {
	case <-e.stopped:
		return nil
	case <-ctx.Done():
	}
	e.setClosing(true)
	<-e.stopped
	return ctx.Err()
}

func (e *Engine) setClosing(abort bool) {
	e.mu.Lock()
	e.closing, e.abort = true, abort
	e.signal()
	e.mu.Unlock()
}

// Fingerprint is short and changes with the model's content or cache type.
func (i Info) Fingerprint() string {
	sum := sha256.Sum256([]byte(i.Digest + "/" + i.KVType))
	return "fp_" + hex.EncodeToString(sum[:5])
}
