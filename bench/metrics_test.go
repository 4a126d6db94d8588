package bench

import (
	"math"
	"slices"
	"testing"
)

// near compares figures that were computed by hand.
func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

// sample is a load of four requests: two that overlap, one of a single token,
// one that failed.
func sample() *Load {
	return &Load{Duration: 4, Outcomes: []Outcome{
		{
			Arrival: 0, Start: 0.5, TTFT: 0.2, FirstText: 0.3, ITLs: []float64{0.1, 0.3, 0.2}, Latency: 0.8,
			PromptTokens: 10, OutputTokens: 4, CachedTokens: 3, Counted: true, Chunks: 4, Fingerprint: "f",
		},
		{
			Arrival: 1, Start: 1, TTFT: 0.4, FirstText: 0.4, ITLs: []float64{1.6}, Latency: 2,
			PromptTokens: 20, OutputTokens: 5, Counted: true, Chunks: 2, Fingerprint: "f",
		},
		{Arrival: 1.3, Start: 1.3, TTFT: 0.1, Latency: 0.1, PromptTokens: 30, OutputTokens: 1, Chunks: 1},
		{Arrival: 1, Start: 1, TTFT: 9, ITLs: []float64{9}, Latency: 18, PromptTokens: 99, OutputTokens: 99, Kind: failTruncated,
			Error: "x"},
	}}
}

func TestCompute(t *testing.T) {
	f := Compute(sample(), []SLO{{"ttft", 300}, {"tpot", 250}})
	if f.Completed != 3 || f.Failed != 1 || f.Failures[failTruncated] != 1 || f.Uncounted != 1 {
		t.Errorf("%d completed, %d failed %v, %d not counted", f.Completed, f.Failed, f.Failures, f.Uncounted)
	}
	if f.InputTokens != 60 || f.OutputTokens != 10 || f.CachedTokens != 3 {
		t.Errorf("%d tokens in, %d out, %d cached", f.InputTokens, f.OutputTokens, f.CachedTokens)
	}
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"request throughput", f.RequestThroughput, 3.0 / 4},
		{"output throughput", f.OutputThroughput, 10.0 / 4},
		{"total throughput", f.TotalThroughput, 70.0 / 4},
		{"goodput: the first (tpot 0.2) and the third (tpot 0)", f.Goodput, 2.0 / 4},
		{"chunks per token", f.ChunksPerToken, 7.0 / 10},
		{"peak of the second from 0.5: 0.7 0.8 1.1 1.3 1.4 1.4", f.PeakOutputPerS, 6},
		{"peak concurrency at 1.3, when the first ends", float64(f.PeakConcurrent), 2},
	} {
		if !near(c.got, c.want) {
			t.Errorf("%s: %g, want %g", c.name, c.got, c.want)
		}
	}
	for key, want := range map[string][]float64{
		"ttft":                        {0.1, 0.2, 0.4},
		"first_text":                  {0.3, 0.4},
		"tpot":                        {0.2, 0.4}, // (0.8-0.2)/3, (2-0.4)/4; none of one token
		"itl":                         {0.1, 0.2, 0.3, 1.6},
		"e2el":                        {0.1, 0.8, 2},
		"client_queue_time":           {0, 0, 0.5},
		"e2el_including_client_queue": {0.1, 1.3, 2},
	} {
		if !slices.EqualFunc(f.Latencies[key], want, near) {
			t.Errorf("%s: %v, want %v", key, f.Latencies[key], want)
		}
	}
}

// Without requests every figure is 0 and none is NaN, which JSON lacks.
func TestComputeNothing(t *testing.T) {
	f := Compute(&Load{}, nil)
	if f.RequestThroughput != 0 || f.ChunksPerToken != 0 || f.PeakOutputPerS != 0 || f.PeakConcurrent != 0 {
		t.Errorf("figures of nothing: %+v", f)
	}
	if mean(nil) != 0 || Deviation(nil) != 0 || Percentile(nil, 50) != 0 {
		t.Error("statistics of nothing are not 0")
	}
}

// The values are those of numpy.percentile and numpy.std.
func TestStatistics(t *testing.T) {
	values := []float64{1, 2, 4, 8, 16}
	for p, want := range map[float64]float64{0: 1, 25: 2, 50: 4, 75: 8, 90: 12.8, 99: 15.68, 99.9: 15.968, 100: 16} {
		if got := Percentile(values, p); !near(got, want) {
			t.Errorf("percentile %g: %g, want %g", p, got, want)
		}
	}
	if got := Percentile([]float64{7}, 99); got != 7 {
		t.Errorf("percentile of one value: %g", got)
	}
	if got := Deviation([]float64{2, 4, 4, 4, 5, 5, 7, 9}); !near(got, 2) {
		t.Errorf("deviation %g, want 2", got)
	}
}

func TestGoodputBounds(t *testing.T) {
	o := &Outcome{TTFT: 0.5, Latency: 1.5, OutputTokens: 11}
	for _, c := range []struct {
		slo  SLO
		want bool
	}{
		{SLO{"ttft", 500}, true}, {SLO{"ttft", 499}, false},
		{SLO{"tpot", 100}, true}, {SLO{"tpot", 99}, false},
		{SLO{"e2el", 1500}, true}, {SLO{"e2el", 1499}, false},
	} {
		if got := o.keeps([]SLO{c.slo}); got != c.want {
			t.Errorf("%+v: %v, want %v", c.slo, got, c.want)
		}
	}
	single := &Outcome{TTFT: 0.1, Latency: 0.1, OutputTokens: 1}
	if !single.keeps([]SLO{{"tpot", 0}}) {
		t.Error("a request of one token has no TPOT, so every bound of it holds")
	}
}

// Known values of the exact two-sided Mann-Whitney test.
func TestRankSum(t *testing.T) {
	for _, c := range []struct {
		a, b []float64
		want float64
	}{
		{[]float64{1, 2, 3, 4, 5}, []float64{6, 7, 8, 9, 10}, 2.0 / 252},
		{[]float64{6, 7, 8, 9, 10}, []float64{1, 2, 3, 4, 5}, 2.0 / 252},
		{[]float64{1, 2, 3, 4}, []float64{5, 6, 7, 8}, 2.0 / 70},
		{[]float64{1, 2, 4, 5}, []float64{3, 6, 7, 8}, 8.0 / 70}, // U = 2: 1+1+2 ways on each side
		{[]float64{1, 4}, []float64{2, 3}, 1},
		{[]float64{3, 3, 3, 3}, []float64{3, 3, 3, 3}, 1},
		{nil, []float64{1}, 1},
	} {
		if got := rankSum(c.a, c.b); !near(got, c.want) {
			t.Errorf("%v and %v: p = %.4f, want %.4f", c.a, c.b, got, c.want)
		}
	}
	var low, high []float64 // too many for the exact count
	for i := range 40 {
		low, high = append(low, float64(i)), append(high, float64(i)+30)
	}
	if p := rankSum(low, high); p > 1e-6 {
		t.Errorf("sets that hardly overlap: p = %g", p)
	}
	if p := rankSum(low, low); p < 0.99 {
		t.Errorf("equal sets: p = %g", p)
	}
}
