package llm

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"weir/engine/gguf"
	"weir/engine/kernel/pool"
	"weir/internal/defaultmodel"
	"weir/internal/inference"
	"weir/internal/reference"
	"weir/scheduler"
	"weir/scheduler/admission"
)

// sharedPool is a pool that ends after the engines that a test starts later.
func sharedPool(t testing.TB, workers int) *pool.Pool {
	t.Helper()
	p := pool.New(workers)
	t.Cleanup(p.Close)
	return p
}

// lively are the requests that every engine of these tests answers: of several
// lengths, greedy and sampled, with log probabilities, so that bits are compared.
func lively(engine int) []*inference.Request {
	var all []*inference.Request
	for i := range 6 {
		r := greedy(prompt(uint64(10*engine+i), 5+23*i), 20+10*i)
		r.IgnoreEOS = true
		r.Sampling.Logprobs = 3
		if i%2 == 1 {
			r.Sampling.Temperature, r.Sampling.Seed = 1, uint64(i)
		}
		all = append(all, r)
	}
	return all
}

// answers submits all requests at once and returns what each stream carried.
func answers(t testing.TB, e *Engine, requests []*inference.Request) []answer {
	t.Helper()
	var streams []*inference.Stream
	for _, r := range requests {
		s, err := e.Submit(r)
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, s)
	}
	var all []answer
	for _, s := range streams {
		all = append(all, read(t, s))
	}
	return all
}

func sameBits(a, b answer) error {
	if a.err != nil || b.err != nil || len(a.events) != len(b.events) {
		return fmt.Errorf("%d events (%s), %d alone (%s)", len(a.events), fmt.Sprint(a.err), len(b.events), fmt.Sprint(b.err))
	}
	for i := range a.events {
		x, y := a.events[i], b.events[i]
		if x.Token != y.Token || math.Float32bits(x.Logprob) != math.Float32bits(y.Logprob) || !slices.Equal(x.Top, y.Top) {
			return fmt.Errorf("event %d is %+v, alone %+v", i, x, y)
		}
	}
	return nil
}

// Engines that step in turns on one pool give the bits that each gives alone,
// while one more engine comes and goes beside them, and one has steps that panic.
func TestEnginesOnOnePoolAnswerAsAlone(t *testing.T) {
	reference.Slow(t)
	options := Options{Threads: 3, BlockTokens: 16, KVBlocks: 200, Scheduler: scheduler.Config{PrefillChunk: 32}}
	families := families
	if reference.Raced {
		families = families[:4]
	}
	var alone [][]answer
	for i, f := range families {
		alone = append(alone, answers(t, start(t, f, options), lively(i)))
	}
	options.Pool = sharedPool(t, 3)
	var wait sync.WaitGroup
	for i, f := range families {
		options.PoolWeight = i
		e := start(t, f, options)
		wait.Go(func() {
			for range 3 {
				for k, a := range answers(t, e, lively(i)) {
					if err := sameBits(a, alone[i][k]); err != nil {
						t.Errorf("%s, request %d: %v", f.arch, k, err)
					}
				}
			}
		})
	}
	wait.Go(func() { comeAndGo(t, options) })
	wait.Wait()
}

// comeAndGo starts engines on a pool, lets a step of each panic, and closes them
// in the middle of an answer.
func comeAndGo(t *testing.T, o Options) {
	for range 5 {
		e, err := Open(families[0].file(t), o, nil)
		if err != nil {
			t.Error(err)
			return
		}
		r := greedy(prompt(3, 40), 200)
		j := newJob(r, e.cache.Domain(""), nil)
		j.stream = inference.NewStream(100, nil)
		j.samplers = nil // a broken invariant: sampling panics
		e.inbox.post(command{job: j, submit: true})
		if a := read(t, j.stream); a.err == nil {
			t.Error("a step that panicked gave an answer")
		}
		s, err := e.Submit(greedy(prompt(4, 40), 200))
		if err != nil {
			t.Error(err)
			return
		}
		<-s.Wake()
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = e.Close(ended) // ended: what runs is cancelled
		if n := e.Stats().Panics; n != 1 {
			t.Errorf("%d panics counted, want 1", n)
		}
	}
}

// An engine waits for its turn no longer than for a step of the other's, however
// busy that one is, and an idle engine keeps no other engine from computing.
func TestEnginesOnOnePoolAllGoOn(t *testing.T) {
	o := Options{Pool: sharedPool(t, 2), BlockTokens: 16, KVBlocks: 200}
	busy, quick, idle := start(t, families[0], o), start(t, families[1], o), start(t, families[2], o)
	long := greedy(prompt(1, 20), 230)
	long.IgnoreEOS = true
	stream, err := busy.Submit(long)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if a := ask(t, quick, greedy(prompt(uint64(i), 5), 3)); a.err != nil {
			t.Error(a.err)
		}
	}
	if a := read(t, stream); a.err != nil {
		t.Error(a.err)
	}
	if n := idle.Stats().Steps; n != 0 {
		t.Errorf("the idle engine made %d steps", n)
	}
}

// A tenant that keeps one engine busy waits for its turns in another one on the
// same pool, where the two count what tenants use together.
func TestWhoFloodsAnEngineWaitsInAnother(t *testing.T) {
	fewer := 0
	for range 5 { // a machine that is busy elsewhere charges steps at random
		alone, together := floodsBefore(t, nil), floodsBefore(t, new(admission.Service))
		t.Logf("of 10 answers, the flood had %d before the other tenant's last with engines that count alone, %d with a common count", alone, together)
		if fewer += alone - together; fewer >= 6 {
			return
		}
	}
	t.Errorf("a common count does not keep the flood waiting: %d answers fewer in 5 rounds than with engines that count alone, want 6", fewer)
}

// floodsBefore is how many answers of a tenant, who floods another engine too,
// come before the last one of a tenant who asks for as many.
func floodsBefore(t *testing.T, s *admission.Service) (before int) {
	o := Options{Pool: sharedPool(t, 2), Service: s, BlockTokens: 16, KVBlocks: 200, Scheduler: scheduler.Config{MaxSeqs: 1}}
	a, b := start(t, families[0], o), start(t, families[0], o)
	ask := func(e *Engine, tenant string, tokens int) *inference.Stream {
		r := greedy(prompt(7, 10), tokens)
		r.IgnoreEOS, r.Tenant = true, tenant
		stream, err := e.Submit(r)
		if err != nil {
			t.Fatal(err)
		}
		return stream
	}
	for _, e := range []*Engine{a, b} { // costs are known afterwards
		read(t, ask(e, "before", 40))
	}
	var flood []*inference.Stream
	for range 16 {
		flood = append(flood, ask(a, "flood", 240))
	}
	<-flood[0].Wake()
	var mu sync.Mutex
	var order []string
	var wait sync.WaitGroup
	for range 10 {
		for _, tenant := range []string{"flood", "modest"} {
			stream := ask(b, tenant, 40)
			wait.Go(func() {
				if got := read(t, stream); got.err != nil {
					t.Error(got.err)
				}
				mu.Lock()
				order = append(order, tenant)
				mu.Unlock()
			})
		}
	}
	wait.Wait()
	for _, stream := range flood {
		stream.Cancel(-1)
	}
	last := len(order) - 1
	for ; order[last] != "modest"; last-- {
	}
	for _, tenant := range order[:last] {
		if tenant == "flood" {
			before++
		}
	}
	return before
}

// BenchmarkShared decodes with one engine and with two on the same pool, on the
// file named by WEIR_BENCH_MODEL or the built-in model, by turns: the ratio is
// the two engines' tokens per second in sum over those of one.
//
//	go test ./engine/llm -run - -bench Shared -benchtime 10x
func BenchmarkShared(b *testing.B) {
	f := benchModel(b)
	for _, sequences := range []int{1, 8} {
		b.Run(fmt.Sprintf("sequences=%d", sequences), func(b *testing.B) {
			p := sharedPool(b, (&Options{}).threads())
			var engines []*Engine
			for range 2 {
				e, err := Open(f, Options{Pool: p, KVBlocks: 600, MaxModelLen: 600}, nil)
				if err != nil {
					b.Fatal(err)
				}
				defer e.Close(context.Background())
				engines = append(engines, e)
			}
			rate := func(engines ...*Engine) float64 {
				begin := time.Now()
				var wait sync.WaitGroup
				for _, e := range engines {
					wait.Go(func() { answers(b, e, decodes(sequences)) })
				}
				wait.Wait()
				return float64(len(engines)*sequences*decodeTokens) / time.Since(begin).Seconds()
			}
			rate(engines...) // caches and buffers
			var ones, twos, ratios []float64
			for b.Loop() {
				one, two := rate(engines[0]), rate(engines...)
				ones, twos, ratios = append(ones, one), append(twos, two), append(ratios, two/one)
			}
			for _, m := range [][]float64{ones, twos, ratios} {
				slices.Sort(m)
			}
			b.ReportMetric(ones[len(ones)/2], "tok/s-one")
			b.ReportMetric(twos[len(twos)/2], "tok/s-two")
			b.ReportMetric(ratios[len(ratios)/2], "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

const decodeTokens = 200

func decodes(n int) []*inference.Request {
	var all []*inference.Request
	for i := range n {
		r := greedy(prompt(uint64(i), 20), decodeTokens)
		r.IgnoreEOS = true
		all = append(all, r)
	}
	return all
}

// benchModel is the file named by WEIR_BENCH_MODEL, or the built-in model.
func benchModel(b *testing.B) *gguf.File {
	b.Helper()
	path := os.Getenv("WEIR_BENCH_MODEL")
	if path == "" {
		data := defaultmodel.GGUF()
		f, err := gguf.Parse(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			b.Fatal(err)
		}
		return f
	}
	f, err := gguf.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	return f
}
