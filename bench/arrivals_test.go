package bench

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// gapsOf are the differences of times, with their mean and coefficient of
// variation.
func gapsOf(at []float64) (average, variation float64) {
	gaps := make([]float64, len(at))
	last := 0.0
	for i, t := range at {
		gaps[i], last = t-last, t
	}
	return mean(gaps), Deviation(gaps) / mean(gaps)
}

func TestGammaArrivals(t *testing.T) {
	const n, rate = 100_000, 4.0
	for _, burstiness := range []float64{0.2, 0.5, 1, 2, 10, math.Inf(1)} {
		at := gammaArrivals(rand.New(rand.NewPCG(7, 8)), n, rate, burstiness)
		if !slices.IsSorted(at) || at[0] < 0 {
			t.Errorf("burstiness %g: times go backwards", burstiness)
		}
		if last := at[n-1]; math.Abs(last-n/rate) > 1e-6 {
			t.Errorf("burstiness %g: the last comes at %g s, want %g", burstiness, last, n/rate)
		}
		average, variation := gapsOf(at)
		if math.Abs(average-1/rate) > 1e-9 {
			t.Errorf("burstiness %g: mean gap %g s, want %g", burstiness, average, 1/rate)
		}
		if want := 1 / math.Sqrt(burstiness); math.Abs(variation-want) > 0.03*want+1e-9 {
			t.Errorf("burstiness %g: gaps vary by %.3f, want %.3f", burstiness, variation, want)
		}
	}
}

// The gamma distribution's third moment, too: k·(k+1)·(k+2) at scale 1.
func TestGammaMoments(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, k := range []float64{0.3, 1, 3.7} {
		const n = 400_000
		var m1, m3 float64
		for range n {
			x := gamma(r, k)
			m1 += x / n
			m3 += x * x * x / n
		}
		if want := k * (k + 1) * (k + 2); math.Abs(m1-k) > 0.02*k || math.Abs(m3-want) > 0.06*want {
			t.Errorf("shape %g: moments %.3f and %.3f, want %.3f and %.3f", k, m1, m3, k, want)
		}
	}
}

func TestAllAtOnce(t *testing.T) {
	if at := gammaArrivals(rand.New(rand.NewPCG(1, 1)), 3, math.Inf(1), 1); !slices.Equal(at, []float64{0, 0, 0}) {
		t.Errorf("at an infinite rate requests come at %v", at)
	}
}

// The shapes of traces, against the figures they were taken from.
func TestTraceArrivals(t *testing.T) {
	const n = 60_000
	at := onOff(rand.New(rand.NewPCG(3, 4)), n)
	average, variation := gapsOf(at)
	if rate := 1 / average; rate < 2.3 || rate > 2.9 {
		t.Errorf("on-off arrivals come at %.2f per second, want about 2.57", rate)
	}
	if variation < 11 || variation > 15 {
		t.Errorf("their gaps vary by %.1f, want about 13", variation)
	}
	_, variation = gapsOf(drifting(rand.New(rand.NewPCG(5, 6)), n))
	if variation < 1.05 || variation > 1.2 {
		t.Errorf("drifting gaps vary by %.2f, want about 1.1", variation)
	}
}
