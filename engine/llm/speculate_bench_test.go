package llm

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"weir/engine/gguf"
	"weir/internal/inference"
	"weir/scheduler"
)

// BenchmarkSpeculation answers repetitive prompts with the file named by
// WEIR_BENCH_MODEL, with and without draft tokens; one operation is one step.
//
//	WEIR_BENCH_MODEL=model.gguf go test ./engine/llm -run - -bench Speculation -benchtime 100x
func BenchmarkSpeculation(b *testing.B) {
	f := benchFile(b)
	for _, batch := range []int{1, 4, 16} {
		for _, drafts := range []int{0, 8} {
			b.Run(fmt.Sprintf("batch=%d/drafts=%d", batch, drafts), func(b *testing.B) { benchSpeculation(b, f, batch, drafts) })
		}
	}
}

func benchSpeculation(b *testing.B, f *gguf.File, batch, drafts int) {
	e, err := newEngine(f, Options{
		KVBlocks: 2000, MaxModelLen: 1500, Speculate: true, Scheduler: scheduler.Config{MaxDrafts: drafts},
	}, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer e.release()
	s := &stepper{Engine: e}
	for i := range batch {
		r := greedy(slices.Repeat(prompt(uint64(i), 24), 8), 1200)
		r.IgnoreEOS, r.CacheDomain = true, fmt.Sprint(i)
		s.submit(b, r)
	}
	produced := func() int { return int(s.sched.Stats().OutputTokens) }
	for produced() < 32*batch {
		s.turn()
	}
	began, start := produced(), time.Now()
	for b.Loop() {
		if s.sched.Stats().Running == batch {
			s.turn()
		}
	}
	st := s.sched.Stats()
	b.ReportMetric(float64(produced()-began)/time.Since(start).Seconds(), "tokens/s")
	b.ReportMetric(float64(st.AcceptedTokens)/float64(max(st.DraftTokens, 1)), "accepted/draft")
	b.ReportMetric(0, "ns/op")
	for j := range e.loop.live {
		e.loop.cancel(time.Now(), j, -1, inference.ErrCancelled)
	}
}
