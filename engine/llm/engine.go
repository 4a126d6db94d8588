package llm

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"weir/engine/gguf"
	"weir/engine/kernel"
	"weir/engine/kernel/attend"
	"weir/engine/kernel/weight"
	"weir/internal/inference"
	"weir/internal/semaphore"
	"weir/kvcache"
	"weir/scheduler"
	"weir/scheduler/admission"
)

// Engine is a loaded model that serves requests. Submit, Load, Info, Stats
// and ResetPrefixCache may be called from any goroutine; everything else belongs to the step loop.
type Engine struct {
	opts   Options
	info   Info
	model  *model
	cpu    *kernel.CPU
	kv     *attend.Pages
	fine   *attend.Pages // the same memory, of sequences that measure
	states *states       // of models with recurrent layers

	adapters Adapters

	cache kvcache.Config
	pool  *kvcache.Pool              // the loop's; a fault may replace both
	sched *scheduler.Scheduler       // the loop's, except for Check with mu held
	end   map[inference.TokenID]bool // Options.EndTokens

	drafts drafting

	blocks *blockLog // nil without Options.BlockEvents

	inbox     inbox[command]
	transfers transfers

	mu        sync.Mutex
	precheck  admission.Precheck      // of the waiting queue, see waiting.go
	estimates scheduler.CostEstimates // after the last step
	stats     Stats

	stepping atomic.Bool          // the last plan had rows
	permits  *semaphore.Semaphore // for masks that are late

	calls atomic.Uint64 // of several requests; names their groups

	loop loop
}

// Stats is the state after the last step.
type Stats struct {
	Transfers TransferStats
	Scheduler scheduler.Stats
	Cache     kvcache.Stats
	Steps     uint64
	Panics    uint64 // recovered in the step loop, those of hooks included
	Faults    uint64 // broken invariants found by the idle check
	Rebuilds  uint64 // times that scheduler and block pool were rebuilt after a fault
	LastFault string

	DraftsStopped string // why the draft model or MTP head proposes no draft tokens any more; "": it does, or there is none
}

// Open reads a model into memory and hands its step loop to the compute pool. progress is called
// with bytes read so far, from this goroutine; it may be nil. The file may be
// closed afterwards.
func Open(f *gguf.File, opts Options, progress func(done, total int64)) (*Engine, error) {
	e, err := newEngine(f, opts, progress)
	if err != nil {
		return nil, err
	}
	e.cpu.Drive(e.loop.iterate)
	return e, nil
}

// newEngine is Open without a step loop that runs.
func newEngine(f *gguf.File, opts Options, progress func(done, total int64)) (*Engine, error) {
	if progress == nil {
		progress = func(int64, int64) {}
	}
	e := &Engine{opts: opts, inbox: newInbox[command]()}
	if err := e.build(f, progress); err != nil {
		e.release()
		return nil, err
	}
	return e, nil
}

// build makes the engine, cheap checks first: what cannot run is refused
// before gigabytes are read.
func (e *Engine) build(f *gguf.File, progress func(done, total int64)) error {
	small, err := e.opts.reserveDraft(f)
	if err != nil {
		return err
	}
	o, err := readOutline(f, &e.opts)
	if err != nil {
		return err
	}
	if o.embeds() {
		return fmt.Errorf("%w: it is a text encoder (%s, pooling %v), which embeds texts and generates nothing", ErrModel, o.arch.name, o.pooling)
	}
	if e.model, err = o.load(progress, e.opts.stopped); err != nil {
		return err
	}
	e.cpu = e.opts.compute()
	e.inbox.wake = e.cpu.Ready
	if e.opts.CheckTensors {
		if err := e.model.check(e.cpu, e.opts.stopped); err != nil {
			return err
		}
	}
	if err := o.chooseCache(e.model, &e.opts); err != nil {
		return err
	}
	b := &o.budget
	e.info = o.describe(f, e.opts.threads())
	if e.kv, err = attend.NewPages(b.shape.Tables); err != nil {
		return fmt.Errorf("%w; lower --kv-cache-memory-bytes or --max-model-len", err)
	}
	e.fine = e.kv.Finely()
	if e.states, err = newStates(e.model.states, b.states); err != nil {
		return fmt.Errorf("%w; lower --kv-cache-memory-bytes or --max-num-seqs", err)
	}
	e.adapters.init(e.model, &e.opts)
	e.model.formKeys(e.cpu, e.kv, b.maxModelLen)
	if err := e.model.try(e.cpu, e.kv, b.shape.blockTokens(), e.opts.stopped); err != nil {
		return err
	}
	e.cache = kvcache.Config{
		Blocks: b.shape.blocks(), BlockTokens: b.shape.blockTokens(), Windows: b.shape.windows, StepRows: b.stepRows,
		States: b.states, StateInterval: stateInterval,
		ModelDigest: e.info.Digest, KVType: e.info.KVLayout, Secret: e.opts.Secret, FloorPercent: cacheFloor,
		Events: e.opts.BlockEvents, FineTokens: e.fine.Table(0).BlockTokens,
	}
	if e.opts.BlockEvents {
		e.blocks = newBlockLog(b.shape.blocks())
	}
	e.opts.Scheduler.MaxModelLen = b.maxModelLen
	e.opts.Scheduler.Cost = e.model.price(e.info.WeightBytes, e.info.Threads)
	e.opts.Scheduler.Attention = e.model.attention()
	e.opts.Scheduler.RowPanel = weight.PanelRows(e.cpu.Level())
	if e.opts.Service != nil {
		e.opts.Scheduler.Lane = e.opts.Service.Lane()
	}
	if e.opts.Draft != nil {
		if e.drafts.model, err = openDraftModel(e, &small, progress); err != nil {
			return fmt.Errorf("read the draft model: %w", err)
		}
		e.opts.Draft = nil
		e.info.DraftBytes, e.info.DraftKVBytes = e.drafts.model.bytes(), e.drafts.model.kvBytes
	}
	if e.opts.MTP {
		if e.drafts.mtp, err = openMTP(e, o); err != nil {
			return fmt.Errorf("open the MTP head: %w", err)
		}
		e.drafts.model = &e.drafts.mtp.draftModel
	}
	if e.drafts.faults = &e.loop.faults; e.drafts.is() {
		e.opts.Scheduler.Proposer = &e.drafts
	}
	if err := e.openScheduler(); err != nil {
		return err
	}
	e.precheck = admission.NewPrecheck(e.sched.Bounds())
	e.end = make(map[inference.TokenID]bool, len(e.opts.EndTokens))
	for _, id := range e.opts.EndTokens {
		e.end[id] = true
	}
	e.permits = constraintPermits(e.cpu.Threads(), e.stepping.Load)
	e.transfers.init()
	e.loop.init(e)
	e.loop.publish()
	return nil
}

// cacheFloor is the part of an equal share of the cache, in percent, that each
// tenant keeps whatever others cache.
const cacheFloor = 50

// openScheduler makes an empty block pool and the scheduler over it.
func (e *Engine) openScheduler() error {
	pool, err := kvcache.New(e.cache)
	if err != nil {
		return err
	}
	if err := e.drafts.reset(); err != nil {
		return err
	}
	sched, err := scheduler.New(e.opts.Scheduler, pool)
	if err != nil {
		return err
	}
	if e.blocks != nil {
		e.blocks.begin()
	}
	e.mu.Lock()
	e.pool, e.sched = pool, sched
	e.mu.Unlock()
	return nil
}

// release frees what build took; the loop has ended or never began.
func (e *Engine) release() {
	if e.opts.Scheduler.Lane != nil {
		e.opts.Scheduler.Lane.Close()
	}
	if e.cpu != nil {
		e.cpu.Close()
	}
	if e.kv != nil {
		_ = e.kv.Close()
	}
	_ = e.states.close()
	_ = e.drafts.model.close()
	if e.model != nil {
		_ = e.model.release()
	}
}

// Info describes the model and its budget.
func (e *Engine) Info() Info { return e.info }

// Adapters are the LoRA adapters that requests may name.
func (e *Engine) Adapters() *Adapters { return &e.adapters }

// Stats is a snapshot taken after the last step, with what waits now.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s, w := e.stats, e.precheck.Waiting()
	s.Transfers = e.transfers.counts()
	s.Scheduler.Waiting, s.Scheduler.WaitingChoices, s.Scheduler.WaitingTokens = w.Requests, w.Choices, w.Tokens
	return s
}

// Load reports the state without waiting for a step.
func (e *Engine) Load() inference.Load {
	why := e.inbox.notReady()
	e.mu.Lock()
	defer e.mu.Unlock()
	s, w := &e.stats, e.precheck.Waiting()
	return inference.Load{
		Running: s.Scheduler.Running, Waiting: w.Requests, WaitingTokens: w.Tokens,
		KVBlocks: s.Cache.Blocks, KVBlocksUsed: s.Cache.Referenced, FetchRate: e.fetchRate(),
		Ready: why == "", Why: why,
	}
}

// NotReady says why the engine takes no requests, or nothing.
func (e *Engine) NotReady() string { return e.inbox.notReady() }

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
// router.Backend; internal/server joins the two.)
func (e *Engine) SubmitAll(rs []*inference.Request) ([]*inference.Stream, error) {
	return e.submitAll(rs, nil)
}

// SubmitHeld is SubmitAll of requests with an adapter that is held, whatever has its name by now.
func (e *Engine) SubmitHeld(rs []*inference.Request, held HeldAdapter) ([]*inference.Stream, error) {
	for _, r := range rs {
		r.Adapter = held.Info.Name
	}
	return e.submitAll(rs, held.adapter)
}

// submitAll submits requests with an adapter that is held; nil: with those that they name.
func (e *Engine) submitAll(rs []*inference.Request, held *adapter) ([]*inference.Stream, error) {
	for _, r := range rs {
		if err := e.check(r); err != nil {
			return nil, err
		}
	}
	items, err := e.reserve(rs)
	if err != nil { // before anything is hashed for a call that is refused
		return nil, err
	}
	taken := false
	defer func() {
		if !taken {
			e.unreserve(items)
		}
	}()
	var now, later []command
	streams := make([]*inference.Stream, len(rs))
	group := e.group(len(rs))
	for i, r := range rs {
		a := held
		if a == nil {
			if a, err = e.adapters.of(r); err != nil {
				return nil, err
			}
		}
		j := newJob(r, e.domain(r, a), e.opts.EndTokens)
		j.adapter = a
		j.group, j.item, j.waits = group, items[i], true
		j.hash(e.blockTokens(r))
		j.fetch = e.newFetch(j)
		j.stream = inference.NewStream(ringEvents(r), func(choice int) {
			if c := (command{job: j, choice: choice, at: time.Now()}); j.fetch == nil || !j.fetch.hold(c) {
				e.inbox.post(c)
			}
		})
		streams[i] = j.stream
		if c := (command{job: j, submit: true}); j.fetch == nil {
			now = append(now, c)
		} else {
			later = append(later, c)
		}
	}
	if err := e.inbox.submit(len(later), now...); err != nil { // it has been closed meanwhile
		return nil, err
	}
	taken = true
	for _, c := range later {
		go c.job.fetch.first(c)
	}
	return streams, nil
}

// domain is where a request's prefixes are shared, which is among those of one adapter. Rows of what measures are computed and kept finely.
func (e *Engine) domain(r *inference.Request, a *adapter) kvcache.Domain {
	var fields []kvcache.Field
	if a != nil {
		fields = append(fields, kvcache.Field{Key: "adapter", Value: fmt.Appendf(nil, "%s %v", a.info.Digest, a.info.Scale)})
	}
	if r.Given != nil {
		return e.cache.FineDomain(r.CacheDomain, fields...)
	}
	return e.cache.Domain(r.CacheDomain, fields...)
}

// pages are the memory as sequences see it that measure, or the others.
func (e *Engine) pages(fine bool) *attend.Pages {
	if fine {
		return e.fine
	}
	return e.kv
}

// blockTokens is how many rows of a request a block has.
func (e *Engine) blockTokens(r *inference.Request) int {
	if r.Given != nil {
		return e.fine.Table(0).BlockTokens
	}
	return e.info.BlockTokens
}

// group names a call of several requests, which take turns with others as one.
func (e *Engine) group(requests int) string {
	if requests < 2 {
		return ""
	}
	return strconv.FormatUint(e.calls.Add(1), 10)
}

// check refuses what can never be served: what only the engine knows, then what
// the scheduler does.
func (e *Engine) check(r *inference.Request) error {
	if err := e.checkTokens(r); err != nil {
		return err
	}
	if err := e.checkMarks(r); err != nil {
		return err
	}
	switch {
	case r.N < 1:
		return fmt.Errorf("%w: n is %d, must be at least 1", inference.ErrInvalid, r.N)
	case r.Constraint != nil && len(e.opts.EndTokens)+len(r.StopTokens) == 0:
		return fmt.Errorf("%w: a constrained answer ends with an end token, and the model has none; give stop_token_ids", inference.ErrInvalid)
	case r.Given != nil && (r.Constraint != nil || r.PromptLogprobs >= 0 || r.KV.DoRemoteDecode):
		return fmt.Errorf("%w: of given tokens nothing is told but how likely they are", inference.ErrInvalid)
	case r.MinTokens < 0:
		return fmt.Errorf("%w: min_tokens is %d, must not be negative", inference.ErrInvalid, r.MinTokens)
	case r.KV.DoRemoteDecode && !e.model.transfers():
		return e.blocksStay()
	}
	q := schedulerRequest(r, e.opts.Speculate)
	if r.Given != nil {
		q.Domain = e.domain(r, nil) // takes more blocks
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sched.Check(&q)
}

// checkTokens refuses ids outside the vocabulary.
func (e *Engine) checkTokens(r *inference.Request) error {
	vocab := inference.TokenID(e.info.VocabSize)
	check := func(what string, ids ...inference.TokenID) error {
		for _, id := range ids {
			if id < 0 || id >= vocab {
				return fmt.Errorf("%w: %s %d is outside the vocabulary of %d", inference.ErrInvalid, what, id, vocab)
			}
		}
		return nil
	}
	for _, list := range []struct {
		what string
		ids  []inference.TokenID
	}{{"prompt token", r.Prompt}, {"stop token", r.StopTokens}, {"allowed token", r.Sampling.AllowedTokens}} {
		if err := check(list.what, list.ids...); err != nil {
			return err
		}
	}
	for _, given := range r.Given {
		if err := check("given token", given...); err != nil {
			return err
		}
	}
	for _, b := range r.Sampling.LogitBias {
		if err := check("logit_bias token", b.ID); err != nil {
			return err
		}
	}
	for _, word := range r.Sampling.BadWords {
		if len(word) == 0 {
			return fmt.Errorf("%w: a bad word has no tokens", inference.ErrInvalid)
		}
		if err := check("bad word token", word...); err != nil {
			return err
		}
	}
	return nil
}

// Close refuses new requests, lets the others finish until ctx ends, cancels
// the rest, and releases the memory. It returns ctx's error if requests had to
// be cancelled.
func (e *Engine) Close(ctx context.Context) error { return e.inbox.close(ctx, e.transfers.abort) }

// Fingerprint is short and changes with the model's content or how keys and values are stored.
func (i Info) Fingerprint() string {
	sum := sha256.Sum256([]byte(i.Digest + "/" + cmp.Or(i.KVLayout, i.KVType)))
	return "fp_" + hex.EncodeToString(sum[:5])
}

// checkMarks refuses marks that are none of the prompt, or that the model has no head for.
func (e *Engine) checkMarks(r *inference.Request) error {
	if r.Marks == nil {
		return nil
	}
	if e.model.decision.pointer == 0 {
		return fmt.Errorf("%w: marks in a prompt, and the model has no decision head", inference.ErrInvalid)
	}
	if len(r.Marks) != r.N || len(r.Given) != r.N || r.MaxTokens != 1 {
		return fmt.Errorf("%w: %d marks of %d choices with %d tokens, want one each", inference.ErrInvalid, len(r.Marks), r.N, len(r.Given))
	}
	for i, at := range r.Marks {
		if at < 0 || at >= len(r.Prompt) || i > 0 && at <= r.Marks[i-1] {
			return fmt.Errorf("%w: mark %d is at %d, want ascending places in the prompt of %d tokens", inference.ErrInvalid, i, at, len(r.Prompt))
		}
	}
	return nil
}
