package cost

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// How many experts rows meet is what drawing them gives.
func TestTouchedExpertsAreThoseThatAreDrawn(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, e := range []Experts{{128, 8}, {32, 4}, {5, 5}, {8, 1}} {
		for _, rows := range []int{0, 1, 4, 16, 64} {
			const times = 400
			sum := 0
			for range times {
				met := map[int]bool{}
				for range rows {
					for _, i := range rng.Perm(e.Count)[:e.Use] {
						met[i] = true
					}
				}
				sum += len(met)
			}
			if got, want := e.Touched(rows), float64(sum)/times; math.Abs(got-want) > 0.02*float64(e.Count) {
				t.Errorf("%+v, %d rows: %g, drawn %g", e, rows, got, want)
			}
		}
	}
	if (Experts{}).Share(3) != 1 || (Experts{}).Touched(3) != 0 {
		t.Error("no experts have a share")
	}
}

// Before steps of several rows were observed, what further rows read of experts is a part of the estimate; a step with all experts reads no more.
func TestAPriorKnowsTheExpertsThatRowsMeet(t *testing.T) {
	p := Prior{Step: 10, Row: 1, Experts: Experts{Count: 128, Use: 8}, Reading: 100}
	truth := func(rows int) time.Duration {
		return time.Duration(1e6 * (p.Step + p.Row*float64(rows) + p.Reading*p.Experts.Share(rows)))
	}
	m := New(p)
	m.Observe(Load{Rows: 1}, truth(1))
	for _, rows := range []int{1, 4, 16, 64, 400} {
		if got, want := m.Estimate(Load{Rows: rows}), truth(rows); math.Abs(float64(got)/float64(want)-1) > 0.05 {
			t.Errorf("%d rows: %v, want %v", rows, got, want)
		}
	}
}
