package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"weir/engine/gguf"
	"weir/engine/kernel/isa"
	"weir/engine/llm"
	"weir/internal/inference"
)

// Rig is a loaded engine with a clock on its steps. Its measurements submit
// token ids as a server does and read the times that the step loop itself
// takes, so that no goroutine's waiting is part of them. One measurement runs
// at a time. The creator closes it.
type Rig struct {
	engine *llm.Engine
	level  string
	log    stepLog
	serial int // of the last domain
	random *rand.Rand
}

// OpenRig loads a model as [llm.Open] does. It takes opts.OnStep for itself and
// leaves out end tokens and drafts: sequences run to the length that is asked
// for, a token per step.
func OpenRig(f *gguf.File, opts llm.Options, seed uint64, progress func(done, total int64)) (*Rig, error) {
	level := opts.Level
	if level == isa.Auto {
		level = isa.Best()
	}
	r := &Rig{level: level.String(), random: rand.New(rand.NewPCG(seed, 0))}
	opts.OnStep, opts.EndTokens = r.log.add, nil
	opts.Speculate, opts.Scheduler.MaxDrafts = false, 0
	var err error
	if r.engine, err = llm.Open(f, opts, progress); err != nil {
		return nil, err
	}
	return r, nil
}

// Info describes the model.
func (r *Rig) Info() llm.Info { return r.engine.Info() }

// Level names the instruction set in use.
func (r *Rig) Level() string { return r.level }

// Close ends the engine.
func (r *Rig) Close() error { return r.engine.Close(context.Background()) }

// step is one step of the engine and when it ended.
type step struct {
	llm.StepStats
	end time.Time
}

func (s step) start() time.Time { return s.end.Add(-s.StepTime) }

// stepLog collects steps: the loop adds, the measurement takes.
type stepLog struct {
	mu    sync.Mutex
	steps []step
	count uint64 // of all time
}

func (l *stepLog) add(s llm.StepStats) {
	now := time.Now()
	l.mu.Lock()
	l.steps = append(l.steps, step{s, now})
	l.count++
	l.mu.Unlock()
}

func (l *stepLog) seen() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}

// take returns the steps since the last call.
func (l *stepLog) take() []step {
	l.mu.Lock()
	defer l.mu.Unlock()
	steps := l.steps
	l.steps = nil
	return steps
}

// domain names a new domain of the prefix cache, which shares no blocks with others.
func (r *Rig) domain() string {
	r.serial++
	return "bench-" + strconv.Itoa(r.serial)
}

// tokens are n random ids of the vocabulary. The same seed gives the same.
func (r *Rig) tokens(n int) []inference.TokenID {
	ids := make([]inference.TokenID, n)
	for i := range ids {
		ids[i] = inference.TokenID(r.random.IntN(r.engine.Info().VocabSize))
	}
	return ids
}

func (r *Rig) submit(domain string, prompt []inference.TokenID, tokens int) (*inference.Stream, error) {
	sampling := inference.DefaultSampling()
	sampling.Temperature = 0
	return r.engine.Submit(&inference.Request{
		Tenant: "bench", CacheDomain: domain, Prompt: prompt, MaxTokens: tokens, N: 1, IgnoreEOS: true,
		PromptLogprobs: -1, Sampling: sampling, Arrived: time.Now(),
	})
}

// finish reads a stream to its end and returns its tokens.
func finish(ctx context.Context, s *inference.Stream) ([]inference.TokenID, error) {
	var ids []inference.TokenID
	events := make([]inference.Event, 16)
	for {
		n, done, err := s.Poll(events)
		for _, e := range events[:n] {
			if e.Kind == inference.EventToken {
				ids = append(ids, e.Token)
			}
		}
		if done {
			return ids, err
		}
		if n > 0 {
			continue
		}
		select {
		case <-s.Wake():
		case <-ctx.Done():
			s.Cancel(-1)
			return nil, ctx.Err()
		}
	}
}

// poll is how often the rig looks at the engine where nothing signals it.
const poll = 50 * time.Microsecond

// await looks until ready says so.
func await(ctx context.Context, ready func() bool) error {
	for !ready() {
		if err := ctx.Err(); err != nil {
			return err
		}
		time.Sleep(poll)
	}
	return nil
}

// idle waits for the end of the last step, which comes after the last token,
// and returns the steps since the last call.
func (r *Rig) idle(ctx context.Context) ([]step, error) {
	err := await(ctx, func() bool {
		s := r.engine.Stats()
		return s.Scheduler.Running == 0 && s.Scheduler.Waiting == 0 && s.Steps == r.log.seen()
	})
	return r.log.take(), err
}

// generate runs one request alone and returns its steps.
func (r *Rig) generate(ctx context.Context, domain string, prompt []inference.TokenID, tokens int) ([]step, error) {
	s, err := r.submit(domain, prompt, tokens)
	if err != nil {
		return nil, err
	}
	if _, err := finish(ctx, s); err != nil {
		return nil, err
	}
	return r.idle(ctx)
}

var errDisturbed = errors.New("the engine ran other steps than were asked for")

// countRows adds up what steps computed.
func countRows(steps []step) (prefill, decode int) {
	for _, s := range steps {
		prefill += s.PrefillTokens
		decode += s.DecodeTokens
	}
	return prefill, decode
}

// expectRows refuses steps that a preemption or a cache hit has changed.
func expectRows(steps []step, prefill, decode int) error {
	if p, d := countRows(steps); len(steps) == 0 || p != prefill || d != decode {
		return fmt.Errorf("%w: %d prompt rows and %d decoded, not %d and %d; give the cache more memory (--kv-cache-memory-bytes)",
			errDisturbed, p, d, prefill, decode)
	}
	return nil
}
