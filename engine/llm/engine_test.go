package llm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/engine/kernel/attend"
	"weir/engine/kernel/isa"
	"weir/internal/inference"
	"weir/internal/reference"
	"weir/scheduler"
)

// patience is how long a test waits for what must happen; it is no measure.
const patience = 60 * time.Second

func start(t *testing.T, m tiny, o Options) *Engine {
	t.Helper()
	if o.Threads == 0 {
		o.Threads = 2
	}
	if o.KVBlocks == 0 {
		o.KVBlocks = 200
	}
	o.KVBlocks = m.blocks(t, o)
	e, err := Open(m.file(t), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, e) })
	return e
}

// blocks are as many as hold what o.KVBlocks do of a model with one block table.
func (m tiny) blocks(t testing.TB, o Options) int {
	t.Helper()
	n := o.KVBlocks - 1
	o.KVBlocks = 1 << 20
	i, err := Describe(m.file(t), o)
	if err != nil {
		return n + 1 // of which Open says more
	}
	return n*len(i.kv.Tables) + 1
}

// stop closes the engine and checks that every block came back.
func stop(t *testing.T, e *Engine) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := e.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
	s := e.Stats()
	if s.Cache.Referenced != 0 || s.Cache.Tables != 0 || s.Scheduler.Running != 0 || s.Scheduler.Waiting != 0 {
		t.Errorf("left behind: %+v", s)
	}
	if err := e.pool.Check(); err != nil {
		t.Error(err)
	}
	if err := e.sched.CheckInvariants(); err != nil {
		t.Error(err)
	}
}

// await waits for what must happen.
func await(t testing.TB, what string, happened func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !happened(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in %v: %s", patience, what)
		}
	}
}

func greedy(prompt []int32, tokens int) *inference.Request {
	r := &inference.Request{Prompt: prompt, MaxTokens: tokens, N: 1, PromptLogprobs: -1, Sampling: inference.DefaultSampling(), Arrived: time.Now()}
	r.Sampling.Temperature = 0
	return r
}

// answer is what a stream carried.
type answer struct {
	tokens map[int][]int32 // per choice
	finish map[int]inference.FinishReason
	events []inference.Event
	err    error
}

func read(t testing.TB, s *inference.Stream) answer {
	t.Helper()
	a := answer{tokens: map[int][]int32{}, finish: map[int]inference.FinishReason{}}
	buf := make([]inference.Event, 16)
	timeout := time.After(patience)
	for {
		n, done, err := s.Poll(buf)
		for _, e := range buf[:n] {
			switch e.Kind {
			case inference.EventToken:
				a.tokens[e.Choice] = append(a.tokens[e.Choice], e.Token)
			case inference.EventFinish:
				a.finish[e.Choice] = e.Finish
			default:
			}
			a.events = append(a.events, e)
		}
		if done {
			a.err = err
			return a
		}
		select {
		case <-s.Wake():
		case <-timeout:
			t.Fatal("stream does not end")
		}
	}
}

func ask(t testing.TB, e *Engine, r *inference.Request) answer {
	t.Helper()
	s, err := e.Submit(r)
	if err != nil {
		t.Fatal(err)
	}
	return read(t, s)
}

func prompt(seed uint64, n int) []int32 {
	r := rand.New(rand.NewPCG(seed, 5))
	p := make([]int32, n)
	for i := range p {
		p[i] = r.Int32N(tinyVocab)
	}
	return p
}

// oracle decodes greedily by running the whole sequence through the model again
// for every token: no cache, no scheduler.
func oracle(t *testing.T, f tiny, kv attend.KVType, prompt []int32, tokens int) []int32 {
	m := load(t, f.file(t))
	ids := slices.Clone(prompt)
	for range tokens {
		l := allLogits(t, m, isa.Auto, ids, kv, 16, len(ids), 2)
		row := l[(len(ids)-1)*m.vocab:]
		best := 0
		for i := range row {
			if row[i] > row[best] {
				best = i
			}
		}
		ids = append(ids, int32(best))
	}
	return ids[len(prompt):]
}

func TestGreedyEqualsTheModelRunAgainForEveryToken(t *testing.T) {
	reference.Slow(t)
	for _, f := range families {
		want := oracle(t, f, attend.KVF16, prompt(1, 23), 30)
		e := start(t, f, Options{})
		a := ask(t, e, greedy(prompt(1, 23), 30))
		if a.err != nil || !slices.Equal(a.tokens[0], want) {
			t.Errorf("%s: %v (%v)\nwant %v", f.arch, a.tokens[0], a.err, want)
		}
		if a.finish[0] != inference.FinishLength {
			t.Errorf("%s: finish %v, want length", f.arch, a.finish[0])
		}
	}
}

// The metamorphic set: the same requests under other block sizes, chunks,
// threads and pools, alone and together, with preemption and shared prefixes,
// give the same tokens, at every level.
func TestAnswersDoNotDependOnHowTheEngineIsRun(t *testing.T) {
	var requests []func() *inference.Request
	shared := prompt(7, 40)
	for i := range 8 {
		p := slices.Concat(shared[:5*i], prompt(uint64(100+i), 3+7*i))
		requests = append(requests, func() *inference.Request {
			r := greedy(p, 40)
			if i%2 == 1 {
				r.Sampling.Temperature, r.Sampling.TopP, r.Sampling.Seed = 1, 0.95, uint64(i)
			}
			if i%3 == 0 {
				r.N = 2
			}
			if i >= 6 {
				r.Sampling.BadWords = [][]int32{{3}, {5, 6}, {1, 2, 4}}
				r.Sampling.AllowedTokens = prompt(uint64(i), 9)
			}
			return r
		})
	}
	for _, level := range levels() {
		t.Run(level.String(), func(t *testing.T) { sameAnswers(t, families[1], level, requests) })
	}
}

// sameAnswers runs requests one by one and then in every other way.
func sameAnswers(t *testing.T, f tiny, level isa.Level, requests []func() *inference.Request) {
	var want []map[int][]int32
	alone := start(t, f, Options{KVBlocks: 100, Level: level})
	for _, r := range requests {
		want = append(want, ask(t, alone, r()).tokens)
	}
	preempted := false
	for _, o := range []Options{
		{BlockTokens: 16},
		{BlockTokens: 64, KVBlocks: 40},
		{BlockTokens: 16, Scheduler: scheduler.Config{PrefillChunk: 16}},
		{BlockTokens: 48, Threads: 5, Scheduler: scheduler.Config{MaxBatchTokens: 17, MaxSeqs: 9}},
		{BlockTokens: 16, KVBlocks: 17, MaxModelLen: 160, Scheduler: scheduler.Config{OutputEstimate: 1}},
	} {
		t.Run(fmt.Sprintf("block=%d,chunk=%d,blocks=%d", o.BlockTokens, o.Scheduler.PrefillChunk, o.KVBlocks), func(t *testing.T) {
			var hold sync.Mutex                                                       // a step ends only while it is free
			o.Level, o.OnStep = level, func(StepStats) { hold.Lock(); hold.Unlock() } //nolint:staticcheck // waiting is all
			var counted atomic.Uint64
			o.OnFinish = func(p Phases) { counted.Add(uint64(p.Preemptions)) } //nolint:gosec // a count
			e := start(t, f, o)
			for round := range 2 { // the second finds its prefixes cached
				hold.Lock()
				streams := make([]*inference.Stream, len(requests))
				for i, r := range requests {
					var err error
					if streams[i], err = e.Submit(r()); err != nil {
						hold.Unlock()
						t.Fatal(err)
					}
				}
				hold.Unlock()
				got := make([]answer, len(requests))
				var wg sync.WaitGroup
				for i, s := range streams {
					wg.Go(func() { got[i] = read(t, s) })
				}
				wg.Wait()
				for i := range got {
					for c, tokens := range want[i] {
						if !slices.Equal(got[i].tokens[c], tokens) {
							t.Errorf("round %d, request %d, choice %d (%v):\n%v\nwant %v", round, i, c, got[i].err, got[i].tokens[c], tokens)
						}
					}
				}
			}
			all := e.Stats().Scheduler.Preemptions
			if counted.Load() != all {
				t.Errorf("%d preemptions of requests that ended, %d of all", counted.Load(), all)
			}
			preempted = preempted || all > 0
		})
	}
	if !preempted {
		t.Error("no run preempted; make the smallest pool smaller")
	}
}

func TestStopTokensEndAChoice(t *testing.T) {
	f := families[0]
	free := ask(t, start(t, f, Options{}), greedy(prompt(2, 9), 40)).tokens[0]
	last := free[10]
	first := slices.Index(free, last)
	e := start(t, f, Options{EndTokens: []int32{last}})
	a := ask(t, e, greedy(prompt(2, 9), 40))
	if !slices.Equal(a.tokens[0], free[:first+1]) || a.finish[0] != inference.FinishStop {
		t.Errorf("end token %d: %v %v, want %v stop", last, a.tokens[0], a.finish[0], free[:first+1])
	}
	r := greedy(prompt(2, 9), 40)
	r.IgnoreEOS = true
	if a := ask(t, e, r); !slices.Equal(a.tokens[0], free) {
		t.Errorf("ignore_eos: %v, want %v", a.tokens[0], free)
	}
	r = greedy(prompt(2, 9), 40)
	r.MinTokens = first + 3
	if a := ask(t, e, r); slices.Contains(a.tokens[0][:r.MinTokens], last) {
		t.Errorf("min_tokens %d: token %d in %v", r.MinTokens, last, a.tokens[0])
	}
	r = greedy(prompt(2, 9), 40)
	r.IgnoreEOS, r.StopTokens = true, []int32{free[3]}
	if a := ask(t, e, r); a.finish[0] != inference.FinishStop || len(a.tokens[0]) != slices.Index(free, free[3])+1 {
		t.Errorf("stop token %d: %v %v", free[3], a.tokens[0], a.finish[0])
	}
}

func TestLogprobsAreTheModelsOwn(t *testing.T) {
	f := families[3]
	p := prompt(3, 20)
	e := start(t, f, Options{Scheduler: scheduler.Config{PrefillChunk: 7}})
	r := greedy(p, 4)
	r.Sampling.Logprobs, r.PromptLogprobs = 3, 2
	a := ask(t, e, r)
	ids := slices.Concat(p, a.tokens[0])
	m := load(t, f.file(t))
	logits := allLogits(t, m, isa.Auto, ids, attend.KVF16, 16, len(ids), 1)
	want := func(pos int, id int32) float64 { // log softmax, by hand
		row, sum := logits[pos*m.vocab:][:m.vocab], 0.0
		for _, l := range row {
			sum += math.Exp(float64(l))
		}
		return float64(row[id]) - math.Log(sum)
	}
	pos := 0
	for _, ev := range a.events {
		if ev.Kind == inference.EventFinish {
			continue
		}
		if ev.Token != ids[pos] {
			t.Fatalf("event %d is of token %d, want %d", pos, ev.Token, ids[pos])
		}
		if pos == 0 {
			if !math.IsNaN(float64(ev.Logprob)) {
				t.Errorf("first token has logprob %v", ev.Logprob)
			}
		} else {
			if d := math.Abs(float64(ev.Logprob) - want(pos-1, ev.Token)); d > 1e-4 {
				t.Errorf("position %d: logprob off by %g", pos, d)
			}
			alternatives := 2
			if ev.Kind == inference.EventToken {
				alternatives = 3
			}
			if len(ev.Top) != alternatives || float64(ev.Top[0].Logprob)-want(pos-1, ev.Top[0].ID) > 1e-4 {
				t.Errorf("position %d: alternatives %v", pos, ev.Top)
			}
		}
		pos++
	}
	if pos != len(ids) {
		t.Errorf("%d events, want %d", pos, len(ids))
	}
	r = greedy(p, 0)
	r.PromptLogprobs = 0
	if a := ask(t, e, r); a.err != nil || len(a.events) != len(p)+1 {
		t.Errorf("max_tokens 0 with prompt logprobs: %d events, %v; want %d", len(a.events), a.err, len(p)+1)
	}
}

func TestRefusalsComeAtOnceAndSayWhy(t *testing.T) {
	e := start(t, families[0], Options{MaxModelLen: 100})
	edit := func(f func(r *inference.Request)) *inference.Request {
		r := greedy(prompt(5, 10), 5)
		f(r)
		return r
	}
	for name, c := range map[string]struct {
		r    *inference.Request
		want error
	}{
		"empty prompt":    {edit(func(r *inference.Request) { r.Prompt = nil }), inference.ErrInvalid},
		"foreign token":   {edit(func(r *inference.Request) { r.Prompt[3] = tinyVocab }), inference.ErrInvalid},
		"negative token":  {edit(func(r *inference.Request) { r.Prompt[3] = -1 }), inference.ErrInvalid},
		"bias":            {edit(func(r *inference.Request) { r.Sampling.LogitBias = []inference.TokenBias{{ID: 1 << 20}} }), inference.ErrInvalid},
		"allowed token":   {edit(func(r *inference.Request) { r.Sampling.AllowedTokens = []int32{1, tinyVocab} }), inference.ErrInvalid},
		"bad word":        {edit(func(r *inference.Request) { r.Sampling.BadWords = [][]int32{{1}, {2, -3}} }), inference.ErrInvalid},
		"empty bad word":  {edit(func(r *inference.Request) { r.Sampling.BadWords = [][]int32{{}} }), inference.ErrInvalid},
		"stop token":      {edit(func(r *inference.Request) { r.StopTokens = []int32{-4} }), inference.ErrInvalid},
		"n":               {edit(func(r *inference.Request) { r.N = 0 }), inference.ErrInvalid},
		"nothing asked":   {edit(func(r *inference.Request) { r.MaxTokens = 0 }), inference.ErrInvalid},
		"negative max":    {edit(func(r *inference.Request) { r.MaxTokens = -1 }), inference.ErrInvalid},
		"prompt too long": {edit(func(r *inference.Request) { r.Prompt = prompt(5, 101) }), inference.ErrContextLength},
		"sum too long":    {edit(func(r *inference.Request) { r.MaxTokens = 91 }), inference.ErrContextLength},
	} {
		if _, err := e.Submit(c.r); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestFullQueueRefuses(t *testing.T) {
	e := start(t, families[0], Options{Scheduler: scheduler.Config{MaxSeqs: 1, MaxWaiting: 3}})
	var streams []*inference.Stream
	var refused error
	for range 12 {
		s, err := e.Submit(greedy(prompt(6, 10), 200))
		if err != nil {
			refused = err
			break
		}
		streams = append(streams, s)
	}
	var limit *inference.LimitError
	if !errors.As(refused, &limit) || !errors.Is(refused, inference.ErrQueueFull) || limit.Limit != 3 {
		t.Errorf("%d taken, then %v; want a full queue of 3", len(streams), refused)
	}
	for _, s := range streams {
		s.Cancel(-1)
	}
	for _, s := range streams {
		if a := read(t, s); a.err != nil && !errors.Is(a.err, inference.ErrCancelled) {
			t.Error(a.err)
		}
	}
}

func TestSlowReaderIsCancelledAndHoldsNoOneUp(t *testing.T) {
	e := start(t, families[0], Options{})
	slow := greedy(prompt(8, 4), 240)
	j := newJob(slow, e.cache.Domain(""), nil)
	j.stream = inference.NewStream(5, func(int) {})
	e.inbox.post(command{job: j, submit: true})
	if a := ask(t, e, greedy(prompt(9, 4), 50)); a.err != nil || len(a.tokens[0]) != 50 {
		t.Errorf("the other request: %d tokens, %v", len(a.tokens[0]), a.err)
	}
	await(t, "the slow reader's request ends", func() bool { return e.Stats().Scheduler.Running == 0 })
	if a := read(t, j.stream); !errors.Is(a.err, inference.ErrSlowConsumer) || len(a.tokens[0]) != 5 || a.finish[0] != inference.FinishCancelled {
		t.Errorf("%d tokens, finish %v, %v; want 5, cancelled and a slow consumer", len(a.tokens[0]), a.finish[0], a.err)
	}
}

// OnFinish is called just before the reader learns of the end.
func TestAnAnswerIsCountedBeforeItEnds(t *testing.T) {
	var e *Engine
	var seen Stats
	e = start(t, families[0], Options{OnFinish: func(Phases) { seen = e.Stats() }})
	if a := ask(t, e, greedy(prompt(3, 4), 2)); a.err != nil {
		t.Fatal(a.err)
	}
	if s := seen.Scheduler; s.Running != 0 || s.Length != 1 {
		t.Errorf("at its end %d running, %d ended", s.Running, s.Length)
	}
}

func TestChoiceCancelLeavesTheOthers(t *testing.T) {
	e := start(t, families[0], Options{})
	r := greedy(prompt(10, 12), 100)
	r.N, r.Sampling.Temperature, r.Sampling.Seed = 3, 1, 5
	want := ask(t, e, r).tokens
	again := *r
	s, err := e.Submit(&again)
	if err != nil {
		t.Fatal(err)
	}
	s.Cancel(1)
	a := read(t, s)
	if a.err != nil || a.finish[1] != inference.FinishCancelled && len(a.tokens[1]) != 100 {
		t.Errorf("choice 1: %v after %d tokens, stream %v", a.finish[1], len(a.tokens[1]), a.err)
	}
	for _, c := range []int{0, 2} {
		if !slices.Equal(a.tokens[c], want[c]) {
			t.Errorf("choice %d: %v, want %v", c, a.tokens[c], want[c])
		}
	}
}

func TestPanicInAStepFailsItsRequestsOnly(t *testing.T) {
	e := start(t, families[0], Options{})
	boom := greedy(prompt(11, 6), 5)
	j := newJob(boom, e.cache.Domain(""), nil)
	j.stream = inference.NewStream(64, func(int) {})
	j.samplers = nil // a broken invariant: sampling panics
	e.inbox.post(command{job: j, submit: true})
	if a := read(t, j.stream); !errors.Is(a.err, inference.ErrInternal) {
		t.Errorf("broken request: %v, want an internal error", a.err)
	}
	if a := ask(t, e, greedy(prompt(12, 6), 5)); a.err != nil || len(a.tokens[0]) != 5 {
		t.Errorf("after the panic: %v %v", a.tokens, a.err)
	}
	if n := e.Stats().Panics; n != 1 {
		t.Errorf("%d panics counted, want 1", n)
	}
}

func TestCloseDrainsThenCancels(t *testing.T) {
	e, err := Open(families[0].file(t), Options{Threads: 2, KVBlocks: 100}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := e.Submit(greedy(prompt(13, 10), 60))
	if err != nil {
		t.Fatal(err)
	}
	stop(t, e)
	if a := read(t, s); a.err != nil || len(a.tokens[0]) != 60 {
		t.Errorf("drained request: %d tokens, %v", len(a.tokens[0]), a.err)
	}
	if _, err := e.Submit(greedy(prompt(13, 10), 60)); !errors.Is(err, inference.ErrUnavailable) {
		t.Errorf("submit after close: %v", err)
	}

	e, err = Open(families[0].file(t), Options{Threads: 2, KVBlocks: 100, Scheduler: scheduler.Config{MaxSeqs: 1}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var streams []*inference.Stream
	for i := range 5 {
		s, err := e.Submit(greedy(prompt(uint64(i), 10), 240))
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, s)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := e.Close(ctx); !errors.Is(err, context.Canceled) && err != nil {
		t.Errorf("close: %v", err)
	}
	for i, s := range streams {
		if a := read(t, s); a.err != nil && !errors.Is(a.err, inference.ErrUnavailable) {
			t.Errorf("request %d: %v", i, a.err)
		}
	}
}

func TestCachedPrefixIsReported(t *testing.T) {
	e := start(t, families[0], Options{})
	p := prompt(14, 70)
	for i, want := range []int{0, 64} { // full blocks only: the tail was never one
		s, err := e.Submit(greedy(p, 1))
		if err != nil {
			t.Fatal(err)
		}
		read(t, s)
		if got := s.Progress(); got.CachedTokens != want || got.PrefillTokens != 70 {
			t.Errorf("request %d: %+v, want %d cached of 70", i, got, want)
		}
	}
	other := greedy(p, 1)
	other.CacheDomain = "another"
	s, err := e.Submit(other)
	if err != nil {
		t.Fatal(err)
	}
	read(t, s)
	if got := s.Progress().CachedTokens; got != 0 {
		t.Errorf("another tenant was served %d cached tokens", got)
	}
}
