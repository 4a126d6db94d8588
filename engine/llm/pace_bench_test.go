package llm

import (
	"fmt"
	"testing"
	"time"

	"weir/engine/gguf"
	"weir/internal/inference"
	"weir/scheduler"
)

// BenchmarkLongPrompt lets a prompt of 2000 tokens arrive while eight outputs
// run, with the file named by WEIR_BENCH_MODEL, and reports the longest step,
// the time to the prompt's first token, and how far steps were from their
// estimates.
//
//	WEIR_BENCH_MODEL=model.gguf go test ./engine/llm -run - -bench LongPrompt -benchtime 1x
func BenchmarkLongPrompt(b *testing.B) {
	f := benchFile(b)
	for _, target := range []time.Duration{0, 400 * time.Millisecond, 200 * time.Millisecond, 100 * time.Millisecond} {
		b.Run(fmt.Sprintf("target=%v", target), func(b *testing.B) {
			for b.Loop() {
				benchLongPrompt(b, f, target)
			}
		})
	}
}

func benchLongPrompt(b *testing.B, f *gguf.File, target time.Duration) {
	var steps []StepStats
	e, err := newEngine(f, Options{
		KVBlocks: 1500, MaxModelLen: 2200, Scheduler: scheduler.Config{ITLTarget: target},
		OnStep: func(s StepStats) { steps = append(steps, s) },
	}, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer e.release()
	s := &stepper{Engine: e}
	submit := func(seed uint64, prompted, tokens int) {
		r := greedy(prompt(seed, prompted), tokens)
		r.IgnoreEOS = true
		s.submit(b, r)
	}
	for i := range uint64(8) {
		submit(i, 40+int(i)*20, 2000)
	}
	for s.sched.Stats().OutputTokens < 8*20 {
		s.turn()
	}
	submit(99, 2000, 1)
	steps = steps[:0]
	arrived := time.Now()
	for s.sched.Stats().Length == 0 {
		s.turn()
	}
	first := time.Since(arrived)
	longest, over := time.Duration(0), 0
	off := 0.0
	for _, st := range steps {
		longest = max(longest, st.StepTime)
		if st.StepTime > target {
			over++
		}
		off += max(float64(st.StepTime)/float64(st.Estimate), float64(st.Estimate)/float64(st.StepTime)) - 1
	}
	b.ReportMetric(float64(longest.Milliseconds()), "longest-ms")
	b.ReportMetric(float64(first.Milliseconds()), "first-ms")
	b.ReportMetric(off/float64(len(steps))*100, "off-%")
	b.ReportMetric(float64(len(steps)), "steps")
	b.ReportMetric(float64(over), "over")
	b.ReportMetric(0, "ns/op")
	for j := range e.loop.live {
		e.loop.cancel(time.Now(), j, -1, inference.ErrCancelled)
	}
}
