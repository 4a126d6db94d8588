package llm

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"weir/engine/gguf"
	"weir/engine/kernel"
	"weir/engine/kernel/attend"
	"weir/internal/inference"
	"weir/scheduler/admission"
	"weir/scheduler/cost"
)

// Encoder is a loaded text encoder that serves calls: texts as token ids go in, pooled
// vectors or a classifier's scores come out. Its methods may be called from any
// goroutine; what is computed belongs to its loop, which takes turns with other
// engines at the compute pool. (Encoder is a router.Embedder; internal/server joins the two.)
type Encoder struct {
	opts  Options
	info  Info
	model *model
	cpu   *kernel.CPU
	kv    *attend.Pages // keys and values of one layer, of the texts of a pass

	inbox inbox[embedCommand]

	mu       sync.Mutex
	precheck admission.Precheck
	prices   cost.Prices // after the last pass
	timed    bool        // prices were learned, and are not the prior's
	stats    EncoderStats

	calls atomic.Uint64 // of several texts; names their groups
	loop  encoderLoop
}

// EncoderStats is the state after the last pass, and what waits now.
type EncoderStats struct {
	Waiting, WaitingTokens int    // texts
	Running                int    // texts of the pass that is computed
	Calls, Texts, Tokens   uint64 // computed
	Passes                 uint64 // forward passes, each over many texts
	Computed               time.Duration
	Panics                 uint64 // recovered in the loop, those of hooks included
	LastFault              string
}

// OpenEncoder reads a text encoder into memory and hands its loop to the compute pool.
// Options about sequences and their cache have no meaning here. progress
// is as for Open.
func OpenEncoder(f *gguf.File, opts Options, progress func(done, total int64)) (*Encoder, error) {
	if progress == nil {
		progress = func(int64, int64) {}
	}
	e := &Encoder{opts: opts, inbox: newInbox[embedCommand]()}
	if err := e.build(f, progress); err != nil {
		e.release()
		return nil, err
	}
	e.cpu.DriveBriefly(e.loop.iterate)
	return e, nil
}

func (e *Encoder) build(f *gguf.File, progress func(done, total int64)) error {
	o, err := readOutline(f, &e.opts)
	if err != nil {
		return err
	}
	if err := o.checkEncoder(); err != nil {
		return err
	}
	e.info = o.describe(f, e.opts.threads())
	if e.kv, err = attend.NewPages(o.budget.shape.Tables); err != nil {
		return fmt.Errorf("%w; lower --max-model-len", err)
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
	if e.opts.Service != nil {
		e.opts.Scheduler.Lane = e.opts.Service.Lane()
	}
	if err := e.loop.init(e); err != nil {
		return err
	}
	e.precheck = admission.NewPrecheck(e.loop.queue.Bounds())
	return e.loop.try()
}

// checkEncoder refuses what has no vectors to give.
func (o *outline) checkEncoder() error {
	switch {
	case !o.embeds():
		return fmt.Errorf("%w: it is a language model (%s without pooling_type), which generates text and embeds none", ErrModel, o.arch.name)
	case o.plan.head.pooling == inference.PoolingNone && o.decision.blocks == 0:
		return fmt.Errorf("%w: %s.pooling_type is 0 or missing, so that nothing says what a text's vector is; "+
			"convert the file again with 1 (mean), 2 (cls), 3 (last) or 4 (rank)", ErrModel, o.arch.name)
	}
	return nil
}

// Info describes the model and how it runs.
func (e *Encoder) Info() Info { return e.info }

// Stats is a snapshot.
func (e *Encoder) Stats() EncoderStats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s, w := e.stats, e.precheck.Waiting()
	s.Waiting, s.WaitingTokens = w.Requests, w.Tokens
	return s
}

// Load reports the state without waiting for a pass.
func (e *Encoder) Load() inference.Load {
	ready := e.inbox.refuses() == nil
	e.mu.Lock()
	defer e.mu.Unlock()
	w := e.precheck.Waiting()
	return inference.Load{Running: e.stats.Running, Waiting: w.Requests, WaitingTokens: w.Tokens, Ready: ready}
}

// Embed fills the vectors of a call, or refuses it with one of inference's sentinels.
// It returns when ctx ends, with ctx's error; texts that still wait are then never
// computed, and Computed has the passes that had ended. Texts and Types must not be changed after the call, even then.
func (e *Encoder) Embed(ctx context.Context, a *inference.Embedding) error {
	if err := e.check(a); err != nil {
		return err
	}
	if len(a.Texts) == 0 {
		a.Vectors = [][]float32{}
		return nil
	}
	c := newEmbedCall(e, a)
	if err := e.submit(c); err != nil {
		return err
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		e.inbox.post(embedCommand{c, true})
		c.report(a)
		return ctx.Err()
	}
	c.report(a)
	if c.err == nil {
		a.Vectors = c.vectors
	}
	return c.err
}

// check refuses what can never be served.
func (e *Encoder) check(a *inference.Embedding) error {
	vocab := inference.TokenID(e.info.VocabSize)
	types := max(e.model.embedding.types, 1)
	if e.model.head.marks {
		types = QuestionTypes
	}
	if a.Types != nil && len(a.Types) != len(a.Texts) {
		return fmt.Errorf("%w: token types of %d texts, and %d texts", inference.ErrInvalid, len(a.Types), len(a.Texts))
	}
	if err := e.checkMarks(a); err != nil {
		return err
	}
	for i, text := range a.Texts {
		if len(text) == 0 {
			return fmt.Errorf("%w: text %d has no tokens", inference.ErrInvalid, i)
		}
		if len(text) > e.info.MaxModelLen {
			return &inference.LimitError{Err: inference.ErrContextLength, What: fmt.Sprintf("tokens of text %d", i), Need: len(text),
				Limit: e.info.MaxModelLen, Remedy: "shorten the text"}
		}
		for _, id := range text {
			if id < 0 || id >= vocab {
				return fmt.Errorf("%w: token %d of text %d is outside the vocabulary of %d", inference.ErrInvalid, id, i, vocab)
			}
		}
		if a.Types == nil || a.Types[i] == nil {
			continue
		}
		if len(a.Types[i]) != len(text) {
			return fmt.Errorf("%w: text %d has %d tokens and %d token types", inference.ErrInvalid, i, len(text), len(a.Types[i]))
		}
		for _, t := range a.Types[i] {
			if int(t) >= types {
				return fmt.Errorf("%w: token type %d in text %d; the model knows %d", inference.ErrInvalid, t, i, types)
			}
		}
	}
	return nil
}

// checkMarks holds the places where a decision head is read against the texts.
func (e *Encoder) checkMarks(a *inference.Embedding) error {
	switch {
	case !e.model.head.marks && a.Marks != nil:
		return fmt.Errorf("%w: marks in texts, and the model has no decision head", inference.ErrInvalid)
	case e.model.head.marks && len(a.Marks) != len(a.Texts):
		return fmt.Errorf("%w: marks of %d texts, and %d texts", inference.ErrInvalid, len(a.Marks), len(a.Texts))
	}
	for i, marks := range a.Marks {
		last := -1
		for _, at := range marks {
			if at <= last || at >= len(a.Texts[i]) {
				return fmt.Errorf("%w: mark %d in text %d of %d tokens; marks must ascend within their text", inference.ErrInvalid, at, i, len(a.Texts[i]))
			}
			last = at
		}
		if len(marks) == 0 {
			return fmt.Errorf("%w: text %d has no marks", inference.ErrInvalid, i)
		}
	}
	return nil
}

// submit counts a call at the precheck and hands it to the loop, or refuses it.
func (e *Encoder) submit(c *embedCall) error {
	if err := e.inbox.refuses(); err != nil {
		return err
	}
	if err := e.enter(c); err != nil {
		return err
	}
	err := e.inbox.submit(0, embedCommand{call: c})
	if err != nil { // it has been closed meanwhile
		for i := range c.texts {
			e.leave(&c.texts[i], false)
		}
	}
	return err
}

// enter counts the texts of a call among what waits, or refuses all of them.
func (e *Encoder) enter(c *embedCall) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	items := make([]admission.Item, len(c.texts))
	for i := range c.texts {
		t := &c.texts[i]
		t.item = c.item(len(t.tokens), &e.prices, e.timed)
		items[i] = t.item
	}
	if err := e.precheck.Enter(c.queued.UnixNano(), items); err != nil {
		return err
	}
	for i := range c.texts {
		c.texts[i].counted = true
	}
	return nil
}

// leave takes a text out of what waits, once.
func (e *Encoder) leave(t *embedText, served bool) {
	if !t.counted {
		return
	}
	t.counted = false
	e.mu.Lock()
	defer e.mu.Unlock()
	e.precheck.Leave(time.Now().UnixNano(), &t.item, served)
}

// Close refuses new calls, lets the others finish until ctx ends, fails the rest, and
// releases the memory. It returns ctx's error if calls had to be failed.
func (e *Encoder) Close(ctx context.Context) error {
	return e.inbox.close(ctx)
}

// release frees what build took; the loop has ended or never began.
func (e *Encoder) release() {
	if e.opts.Scheduler.Lane != nil {
		e.opts.Scheduler.Lane.Close()
	}
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
