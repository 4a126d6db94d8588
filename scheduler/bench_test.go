package scheduler

import (
	"fmt"
	"testing"
	"time"

	"weir/internal/inference"
	"weir/kvcache"
)

// load keeps a scheduler at so many running outputs and waiting requests.
type load struct {
	s       *Scheduler
	plan    Plan
	results []Result
	token   []inference.TokenID
	prompt  []inference.TokenID
	domain  kvcache.Domain
	waiting int
	salt    uint64

	planning time.Duration // spent in Plan
}

func newLoad(tb testing.TB, running, waiting, output int) *load {
	tb.Helper()
	return newLoadWith(tb, running, running, waiting, output)
}

// newLoadWith has more slots than the blocks are enough for when slots exceeds
// running: the head of the queue waits for blocks. Windows are those of kvcache.Config.
func newLoadWith(tb testing.TB, running, slots, waiting, output int, windows ...int) *load {
	tb.Helper()
	const prompt = 16
	c := kvcache.Config{BlockTokens: 16, ModelDigest: "m", KVType: "f16", Windows: windows, StepRows: 512}
	c.Blocks = running*(c.Need(prompt+output)+1) + 100
	pool, err := kvcache.New(c)
	if err != nil {
		tb.Fatal(err)
	}
	s, err := New(Config{
		MaxSeqs: slots, MaxBatchTokens: max(512, 2*slots), MaxModelLen: prompt + output, MaxWaiting: 2*(waiting+running) + 64, OutputEstimate: output,
	}, pool)
	if err != nil {
		tb.Fatal(err)
	}
	l := &load{s: s, token: []inference.TokenID{7}, prompt: make([]inference.TokenID, prompt), domain: pool.Domain("a"), waiting: waiting}
	for range running {
		l.submit(tb, output)
	}
	for l.s.Stats().Running < running || l.s.Stats().Waiting > 0 {
		l.step()
	}
	for range waiting {
		l.submit(tb, output)
	}
	return l
}

func (l *load) submit(tb testing.TB, output int) ID {
	l.salt++
	id, err := l.s.Submit(0, Request{
		Prompt: l.prompt, MaxTokens: output/2 + int(mix(l.salt)%uint64(output/2)), Class: inference.Default, Domain: l.domain, Tenant: tenants[l.salt%8],
	})
	if err != nil {
		tb.Fatal(err)
	}
	return id
}

var tenants = [8]string{"a", "b", "c", "d", "e", "f", "g", "h"}

// step runs one step in which everybody samples the same token.
func (l *load) step() []End {
	start := time.Now()
	ok := l.s.Plan(0, &l.plan)
	l.planning += time.Since(start)
	if !ok {
		return nil
	}
	l.results = l.results[:0]
	for i := range l.plan.Chunks {
		l.results = append(l.results, Result{Tokens: l.token[:l.plan.Chunks[i].Samples]})
	}
	return l.s.Commit(0, l.results)
}

func BenchmarkStep(b *testing.B) {
	for _, bm := range []struct{ running, waiting int }{
		{256, 0}, {256, 1000}, {256, 10_000}, {256, 100_000}, {1000, 0}, {10_000, 0},
	} {
		b.Run(fmt.Sprintf("running=%d/waiting=%d", bm.running, bm.waiting), func(b *testing.B) {
			l := newLoad(b, bm.running, bm.waiting, 2048)
			l.planning = 0
			b.ReportAllocs()
			for b.Loop() {
				for range l.step() {
					l.submit(b, 2048) // keeps the queue as long as it was
				}
			}
			b.ReportMetric(float64(l.planning.Nanoseconds())/float64(b.N), "plan-ns/op")
		})
	}
}

func BenchmarkStepWithBlockedHead(b *testing.B) {
	for _, waiting := range []int{1000, 100_000} {
		b.Run(fmt.Sprintf("running=256/waiting=%d", waiting), func(b *testing.B) {
			l := newLoadWith(b, 256, 512, waiting, 2048)
			l.planning = 0
			b.ReportAllocs()
			for b.Loop() {
				for range l.step() {
					l.submit(b, 2048)
				}
			}
			b.ReportMetric(float64(l.planning.Nanoseconds())/float64(b.N), "plan-ns/op")
		})
	}
}

// BenchmarkStepOfWindows is a step where most layers see a window and the head of the queue waits for blocks.
func BenchmarkStepOfWindows(b *testing.B) {
	for _, running := range []int{64, 256, 1024} {
		b.Run(fmt.Sprintf("running=%d", running), func(b *testing.B) {
			l := newLoadWith(b, running, 2*running, 1000, 2048, 0, 512, 512, 512, 512, 512, 512)
			l.planning = 0
			b.ReportAllocs()
			for b.Loop() {
				for range l.step() {
					l.submit(b, 2048)
				}
			}
			b.ReportMetric(float64(l.planning.Nanoseconds())/float64(b.N), "plan-ns/op")
		})
	}
}

func BenchmarkSubmitCancel(b *testing.B) {
	for _, waiting := range []int{1000, 100_000} {
		b.Run(fmt.Sprintf("waiting=%d", waiting), func(b *testing.B) {
			l := newLoad(b, 4, waiting, 2048)
			var ids [1024]ID
			for i := range ids {
				ids[i] = l.submit(b, 2048)
				l.s.Cancel(0, ids[i], -1)
			}
			b.ReportAllocs()
			for b.Loop() {
				l.s.Cancel(0, l.submit(b, 2048), -1)
			}
		})
	}
}

func BenchmarkPreempt(b *testing.B) {
	pool, err := kvcache.New(kvcache.Config{Blocks: 600, BlockTokens: 16, ModelDigest: "m", KVType: "f16"})
	if err != nil {
		b.Fatal(err)
	}
	s, err := New(Config{MaxModelLen: 8192, MaxBatchTokens: 8192}, pool)
	if err != nil {
		b.Fatal(err)
	}
	prompt := make([]inference.TokenID, 256*16)
	for i := range prompt {
		prompt[i] = inference.TokenID(i)
	}
	var plan Plan
	if _, err := s.Submit(0, Request{Prompt: prompt, MaxTokens: 2, Domain: pool.Domain("a")}); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if !s.Plan(0, &plan) {
			b.Fatal("nothing to run")
		}
		s.Abandon(0) // gives 256 blocks back; the next plan takes them again
	}
}

func TestStepsDoNotAllocate(t *testing.T) {
	l := newLoad(t, 32, 100, 2048)
	for range 64 {
		l.step()
	}
	if n := testing.AllocsPerRun(200, func() { l.step() }); n != 0 {
		t.Errorf("%v allocations per step", n)
	}
	id := ID(0)
	if n := testing.AllocsPerRun(200, func() {
		id = l.submit(t, 2048)
		l.s.Cancel(0, id, -1)
	}); n != 0 {
		t.Errorf("%v allocations per submit and cancel", n)
	}
	if l.s.Cancel(0, id, -1) {
		t.Error("an id was still good after its request had ended")
	}
}

// BenchmarkLookup searches a text in which nothing repeats, from end to end.
func BenchmarkLookup(b *testing.B) {
	for _, n := range []int{1000, 8000, 64_000} {
		b.Run(fmt.Sprintf("ids=%d", n), func(b *testing.B) {
			ids := make([]inference.TokenID, n)
			for i := range ids {
				ids[i] = inference.TokenID(i)
			}
			for b.Loop() {
				if at := lookup(ids, 2, 4); at != 0 {
					b.Fatalf("found something at %d", at)
				}
			}
		})
	}
}
