package roofline

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"weir/internal/guard"
)

func TestSecondsTakesTheTighterBound(t *testing.T) {
	r := Rates{ReadBytes: 100, Int8Ops: 1000, FloatOps: 500}
	for _, c := range []struct {
		work  Work
		want  float64
		bound Bound
	}{
		{Work{Bytes: 50}, 0.5, ByMemory},
		{Work{Bytes: 50, Int8Ops: 100}, 0.5, ByMemory},
		{Work{Bytes: 50, Int8Ops: 1000}, 1, ByCompute},
		{Work{Bytes: 50, Int8Ops: 400, FloatOps: 100}, 0.6, ByCompute},
		{Work{}, 0, ByMemory},
	} {
		got, bound := r.Seconds(c.work)
		if math.Abs(got-c.want) > 1e-12 || bound != c.bound {
			t.Errorf("%+v takes %v, bound by %v; want %v, %v", c.work, got, bound, c.want, c.bound)
		}
	}
	if got := r.Ridge(); got != 10 {
		t.Errorf("ridge %v, want 10", got)
	}
	if got := (Work{1, 2, 3}).Add(Work{1, 1, 1}.Times(4)); got != (Work{5, 6, 7}) {
		t.Errorf("sum of work %v", got)
	}
}

func TestWorkOfNothingNeedsNoRate(t *testing.T) {
	if got, _ := (Rates{ReadBytes: 10}).Seconds(Work{Bytes: 20}); got != 2 {
		t.Errorf("%v s, want 2", got)
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 3, 100}, 3.5}} {
		if got := median(c.values); got != c.want {
			t.Errorf("median of %v is %v, want %v", c.values, got, c.want)
		}
	}
}

// quick measures next to nothing: the figures mean little, their presence all.
func quick(l Level) Options {
	return Options{Level: l, Threads: 2, Rounds: 1, Round: time.Millisecond, Bytes: 3 * chunkBytes}
}

func TestMeasureFillsEveryLimitAtEveryLevel(t *testing.T) {
	for l := Portable; l <= Best(); l++ {
		o := quick(l)
		steps, total := 0, 0
		o.Progress = func(done, all int) { steps, total = done, all }
		got, err := Measure(t.Context(), o)
		if err != nil {
			t.Fatalf("%s: %v", l, err)
		}
		if got.Level != l || got.Threads != 2 {
			t.Errorf("%s: measured %s with %d threads", l, got.Level, got.Threads)
		}
		for _, r := range []Rates{got.One, got.All} {
			if r.ReadBytes <= 0 || r.Int8Ops <= 0 || r.FloatOps <= 0 {
				t.Errorf("%s: a rate is not positive: %+v", l, got)
			}
		}
		if clock != nil && got.ClockHz <= 0 {
			t.Errorf("%s: clock %v", l, got.ClockHz)
		}
		if steps == 0 || steps != total {
			t.Errorf("%s: progress ended at %d of %d", l, steps, total)
		}
	}
}

func TestReadVisitsEveryChunk(t *testing.T) {
	seen := make(map[*byte]int)
	m := &meter{at: []int{0}, buffers: [][]byte{make([]byte, 3*chunkBytes)}}
	m.loops.read = func(chunk []byte) float64 {
		seen[&chunk[0]] += len(chunk)
		return 1
	}
	for range 6 {
		m.read(0)
	}
	for i := range 3 {
		if got := seen[&m.buffers[0][i*chunkBytes]]; got != 2*chunkBytes {
			t.Errorf("chunk %d: %d bytes read in two passes, want %d", i, got, 2*chunkBytes)
		}
	}
}

// The loops must do what they claim: the count of operations is checked
// against the sums that portable code leaves.
func TestMultiplyBytesCountsItsOperations(t *testing.T) {
	sum := int32(0)
	for i := range portableLanes {
		sum += int32(bytesA[i]) * int32(bytesB[i])
	}
	if ops := multiplyBytes(); ops != 2*portableLanes*portableRounds {
		t.Errorf("%v operations", ops)
	}
	if got := int32(sink.Load()); got != sum*portableRounds {
		t.Errorf("sum %d, want %d", got, sum*portableRounds)
	}
}

func TestMeasureStopsWhenAsked(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Measure(ctx, quick(Portable)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
}

func TestMeasureRefusesWhatItCannot(t *testing.T) {
	for name, o := range map[string]Options{
		"level":   {Level: AVX512 + 1},
		"threads": {Threads: -1, Bytes: chunkBytes},
		"bytes":   {Bytes: chunkBytes - 1},
	} {
		if _, err := Measure(t.Context(), o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestParseLevel(t *testing.T) {
	for l := Portable; l <= Best(); l++ {
		if got, err := ParseLevel(l.String()); err != nil || got != l {
			t.Errorf("%s: %v, %v", l, got, err)
		}
	}
	if got, err := ParseLevel("auto"); err != nil || got != Best() {
		t.Errorf("auto: %v, %v", got, err)
	}
	if _, err := ParseLevel("sse9"); err == nil {
		t.Error("sse9: no error")
	}
}

// BenchmarkMeasure prints this machine's limits.
func BenchmarkMeasure(b *testing.B) {
	for l := Portable; l <= Best(); l++ {
		b.Run("level="+l.String(), func(b *testing.B) {
			for b.Loop() {
				got, err := Measure(b.Context(), Options{Level: l})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(got.ClockHz/1e9, "GHz")
				b.ReportMetric(got.One.ReadBytes/1e9, "GB/s/thread")
				b.ReportMetric(got.All.ReadBytes/1e9, "GB/s")
				b.ReportMetric(got.One.Int8Ops/1e9, "Gop/s/thread")
				b.ReportMetric(got.All.Int8Ops/1e9, "Gop/s")
				b.ReportMetric(got.All.FloatOps/1e9, "Gflop/s")
			}
		})
	}
}

// Assembly knows no lengths: it reads what it is given, and refuses less than it reads at a time.
func TestReadingStaysWithinItsMemory(t *testing.T) {
	for level := Portable; level <= Best(); level++ {
		guard.Check(t, level.String(), func(m *guard.Margins) { loopsOf(level).read(guard.Whole[byte](m, 1024)) })
		if level == Portable {
			continue
		}
		guard.Check(t, level.String(), func(m *guard.Margins) { loopsOf(level).read(guard.Sized[byte](m, "bytes", 256)) })
	}
}
