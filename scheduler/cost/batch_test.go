package cost

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A machine whose costs are known is found again from its steps, in whatever order they come; steps of other sizes are estimated, too.
func TestFitFindsAMachine(t *testing.T) {
	truth := New(Prior{})
	truth.observed, truth.theta = 1, vector{5e6, 1e5, 4e5, 8e5, 5e5, 2e5, 300, 500}
	var seen []Observation
	for _, n := range []int{1, 2, 4, 8, 16, 32} {
		for _, length := range []int{16, 128, 512} {
			decode := Load{Rows: n, Outputs: n, Decode: n * length}
			prompt := Load{Rows: n * length, Outputs: n, Prompt: n * Attended(0, length)}
			seen = append(seen, Observation{decode, truth.Estimate(decode)}, Observation{prompt, truth.Estimate(prompt)})
		}
	}
	m := Fit(Prior{}, seen)
	rng := rand.New(rand.NewPCG(1, 1))
	shuffled := slices.Clone(seen)
	rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	again := Fit(Prior{}, shuffled)
	for range 200 {
		l := Load{Rows: 1 + rng.IntN(500), Outputs: 1 + rng.IntN(30), Prompt: rng.IntN(60000), Decode: rng.IntN(9000)}
		want, got := float64(truth.Estimate(l)), float64(m.Estimate(l))
		if math.Abs(got/want-1) > 0.08 {
			t.Errorf("%+v: %v, want %v", l, time.Duration(got), time.Duration(want))
		}
		if other := float64(again.Estimate(l)); math.Abs(other/got-1) > 1e-6 {
			t.Errorf("%+v: %g in one order, %g in another", l, got, other)
		}
	}
	if !m.Ready() || m.Error() > 0.03 {
		t.Errorf("ready %v, off by %g", m.Ready(), m.Error())
	}
	if Fit(Prior{}, []Observation{{Load{Rows: 0}, time.Second}, {Load{Rows: 3}, 0}}).Ready() {
		t.Error("a model of nothing is ready")
	}
}
