package cost

import (
	"math/rand/v2"
	"testing"
	"time"
)

// The share is one over what all but one step in a hundred stay within.
func TestShareFollowsTheSlowestSteps(t *testing.T) {
	for _, tc := range []struct {
		name        string
		spikes      float64
		least, most float64
	}{
		{"quiet", 0, 0.88, mostShare},
		{"one in thirty takes twice as long", 1.0 / 30, 0.42, 0.56},
		{"one in a thousand", 0.001, 0.85, mostShare},
		{"always different", 0.5, leastShare, 0.62},
	} {
		rng := rand.New(rand.NewPCG(1, 41))
		m := New(Prior{})
		if s := m.Share(); s < 0.7 || s > 0.8 {
			t.Errorf("before any step the share is %.2f, want about three quarters", s)
		}
		for range 4000 {
			l := Load{Rows: 40 + rng.IntN(60), Outputs: 10, Prompt: 5000, Decode: 2000}
			took := linear(l) * (1 + 0.01*rng.NormFloat64())
			if rng.Float64() < tc.spikes {
				took *= 2
			}
			m.Observe(l, time.Duration(took))
		}
		if s := m.Share(); s < tc.least || s > tc.most {
			t.Errorf("%s: the share is %.2f, want %.2f to %.2f", tc.name, s, tc.least, tc.most)
		}
	}
}

// Steps that have outputs alone, or prompts alone, say nothing of the share.
func TestShareIsOfStepsWithBoth(t *testing.T) {
	m := New(Prior{})
	before := m.Share()
	for i := range 2000 {
		m.Observe(Load{Rows: 8, Outputs: 8, Decode: 800}, time.Duration(1+i%9)*time.Millisecond)
		m.Observe(Load{Rows: 80, Prompt: 800}, time.Duration(1+i%9)*time.Millisecond)
	}
	if s := m.Share(); s != before {
		t.Errorf("the share went from %.2f to %.2f", before, s)
	}
}

// The prices of a step's parts add up to its estimate.
func TestPricesAddUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 41))
	m := New(Prior{})
	for range 200 {
		l := served(rng)
		m.Observe(l, time.Duration(linear(l)))
		p := m.Prices(l)
		if got, want := p.Step+p.Of(l), float64(m.Estimate(l)); got < 0.999*want || got > 1.001*want+1 {
			t.Fatalf("the parts of %+v cost %.0f ns, all of it %.0f", l, got, want)
		}
	}
}
