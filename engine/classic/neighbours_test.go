package classic

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"weir/internal/cpu"
	"weir/internal/inference"
)

// BenchmarkSinglesBesideLargeRequests measures what requests of one row wait beside requests of 16,384: milliseconds at the caller,
// alone and beside, for rows that are computed inline (20 µs) and at the pool (200 µs).
func BenchmarkSinglesBesideLargeRequests(b *testing.B) {
	for _, c := range []struct {
		name   string
		perRow time.Duration
	}{{"inline", 20 * time.Microsecond}, {"pool", 200 * time.Microsecond}} {
		b.Run(c.name, func(b *testing.B) {
			l, err := NewLane(LaneOptions{MaxWait: time.Minute})
			if err != nil {
				b.Fatal(err)
			}
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
			cpu.MakeRoom(l.opts.Cores) // as servers do
			single := fakeVersion(&doubler{perRow: c.perRow}, Options{})
			large := fakeVersion(&doubler{perRow: 20 * time.Microsecond}, Options{Version: "2"})
			n := max(b.N, 400)
			alone := singles(b, l, single, n)
			ctx, stop := context.WithCancel(b.Context())
			var ended sync.WaitGroup
			bulk, began := 0, time.Now()
			ended.Go(func() {
				for ; ctx.Err() == nil; bulk++ {
					if err := l.Predict(ctx, large, ask("bulk", make([]float32, 16384)...)); err != nil && !errors.Is(err, context.Canceled) && ctx.Err() == nil {
						b.Error(err)
					}
				}
			})
			beside := singles(b, l, single, n)
			took := time.Since(began)
			stop()
			ended.Wait()
			b.ReportMetric(float64(bulk-1)*16384/took.Seconds(), "bulk-rows/s")
			for name, list := range map[string][]time.Duration{"alone": alone, "beside": beside} {
				b.ReportMetric(1000*list[len(list)/2].Seconds(), name+"-p50-ms")
				b.ReportMetric(1000*list[len(list)*99/100].Seconds(), name+"-p99-ms")
			}
			if err := l.Close(b.Context()); err != nil {
				b.Error(err)
			}
		})
	}
}

// singles are the times of requests of one row, one after another with pauses, sorted.
func singles(b *testing.B, l *Lane, v *Version, n int) []time.Duration {
	b.Helper()
	times := make([]time.Duration, n)
	for i := range times {
		time.Sleep(time.Duration(i%7) * 300 * time.Microsecond)
		begin := time.Now()
		if err := l.Predict(b.Context(), v, ask("one", 1)); err != nil {
			b.Fatal(err)
		}
		times[i] = time.Since(begin)
	}
	slices.Sort(times)
	return times
}

// A small batch has its turn before the rest of a large one, and the next one behind: turns are short then.
func TestSmallBatchesGoBeforeTheRestOfLargeOnes(t *testing.T) {
	l := newTestLane(t, LaneOptions{})
	v := fakeVersion(&doubler{perRow: 100 * time.Microsecond}, Options{})
	s := &batcher{l: l, member: l.turns.member}
	if s.length() != turnTime {
		t.Errorf("a turn of a batch alone takes %v", s.length())
	}
	large, small, next, last := &job{v: v, rows: 16384}, &job{v: v, rows: 1}, &job{v: v, rows: 1}, &job{v: v, rows: 1}
	for _, j := range []*job{large, small, next} {
		s.begin(j)
	}
	if !slices.Equal(s.jobs, []*job{small, large, next}) || s.length() != briefTurn {
		t.Errorf("%v take turns of %v", s.jobs, s.length())
	}
	first := s.take()
	second := s.take()
	s.jobs = append(s.jobs, large) // its rest
	s.begin(last)
	if first != small || second != large || !slices.Equal(s.jobs, []*job{last, next, large}) {
		t.Errorf("after two turns %v are left", s.jobs)
	}
}

// Batches that a turn or two compute take their turns one after another, and turns stay long: no request waits for many of them.
func TestBatchesOfOneSizeDoNotShortenTurns(t *testing.T) {
	l := newTestLane(t, LaneOptions{})
	v := fakeVersion(&doubler{perRow: time.Microsecond}, Options{})
	s := &batcher{l: l, member: l.turns.member}
	first, second := &job{v: v, rows: 400}, &job{v: v, rows: 400}
	s.begin(first)
	s.begin(second)
	if !slices.Equal(s.jobs, []*job{first, second}) || s.length() != turnTime {
		t.Errorf("%v take turns of %v", s.jobs, s.length())
	}
}

// A small request that would wait for the turns of a large one is computed on its caller's goroutine; where another engine wants the
// pool too, it waits for its turn there.
func TestSmallRequestsAreComputedBesideALargeOne(t *testing.T) {
	l := newTestLane(t, LaneOptions{Cores: 2})
	other := l.opts.Pool.Join(1)
	stepped := make(chan struct{}, 1)
	other.Drive(func() bool { stepped <- struct{}{}; return false })
	gate := make(chan struct{})
	bulk := &doubler{perRow: 20 * time.Microsecond}
	large := fakeVersion(bulk, Options{Version: "2"})
	bulk.perRow, bulk.gate = 0, gate
	one := &doubler{perRow: 200 * time.Microsecond}
	small := fakeVersion(one, Options{})
	one.perRow = 0
	var all sync.WaitGroup
	all.Go(func() {
		if err := l.Predict(t.Context(), large, ask("bulk", make([]float32, 16384)...)); err != nil {
			t.Error(err)
		}
	})
	gate <- struct{}{} // its first piece is computed
	p := ask("one", 3)
	if err := l.Predict(t.Context(), small, p); err != nil {
		t.Fatal(err)
	}
	doubled(t, p)
	other.Ready()
	ctx, give := context.WithCancel(t.Context())
	late := make(chan error, 1)
	all.Go(func() { late <- l.Predict(ctx, small, ask("one", 3)) })
	for waiting := 0; waiting == 0; runtime.Gosched() {
		l.turns.mu.Lock()
		waiting = l.turns.queue.Len()
		l.turns.mu.Unlock()
	}
	give()
	if err := <-late; !errors.Is(err, inference.ErrCancelled) {
		t.Errorf("beside another engine's turn: %v", err)
	}
	close(gate)
	<-stepped
	all.Wait()
}
