package cost

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// machine is a computer whose steps take a known time.
type machine func(l Load) float64 // nanoseconds

// linear has one price for everything.
func linear(l Load) float64 {
	return 2e6 + 0.8e6*float64(l.Rows) + 0.2e6*float64(l.Outputs) + 40*float64(l.Prompt) + 90*float64(l.Decode)
}

// plateau reads its weights in 30 ms, during which 16 rows come for free.
func plateau(l Load) float64 {
	return 1e6 + max(30e6, 30e6/16*float64(l.Rows)) + 0.3e6*float64(l.Outputs) + 60*float64(l.Prompt+l.Decode)
}

// served draws the load of a step as servers have them: outputs decode, and
// now and then a prompt's chunk comes with them.
func served(r *rand.Rand) Load {
	var l Load
	for range 1 + r.IntN(12) {
		l = l.Add(Load{Rows: 1, Outputs: 1, Decode: r.IntN(4000)})
	}
	if r.IntN(4) == 0 {
		n := 16 * (1 + r.IntN(2<<r.IntN(5)))
		l = l.Add(Load{Rows: n, Prompt: Attended(r.IntN(3000), n)})
	}
	return l
}

// probes are the loads on which estimates are judged.
func probes() []Load {
	var all []Load
	for _, rows := range []int{1, 2, 4, 8, 12} {
		all = append(all, Load{Rows: rows, Outputs: rows, Decode: rows * 700})
	}
	for _, n := range []int{16, 32, 64, 128, 256} {
		for _, start := range []int{0, 500, 2500} {
			all = append(all, Load{Rows: 8 + n, Outputs: 8, Decode: 8 * 700, Prompt: Attended(start, n)})
		}
	}
	return all
}

// worst is the largest distance of an estimate from the truth, as a share.
func worst(t *testing.T, m *Model, truth machine) float64 {
	t.Helper()
	far := 0.0
	for _, l := range probes() {
		off := math.Abs(float64(m.Estimate(l))/truth(l) - 1)
		far = max(far, off)
	}
	return far
}

func TestEstimatesConverge(t *testing.T) {
	noisy := func(spikes float64) func(*rand.Rand, float64) float64 {
		return func(r *rand.Rand, ns float64) float64 {
			ns *= 1 + 0.05*r.NormFloat64()
			if r.Float64() < spikes {
				ns *= 2 + 18*r.Float64()
			}
			return max(ns, 1)
		}
	}
	exact := func(_ *rand.Rand, ns float64) float64 { return ns }
	for _, c := range []struct {
		name  string
		truth machine
		noise func(*rand.Rand, float64) float64
		prior Prior
		limit float64
	}{
		{"linear", linear, exact, Prior{}, 0.03},
		{"linear, a prior far off", linear, exact, Prior{Step: 200, Row: 1, Output: 20, Position: 0.05}, 0.15},
		{"plateau", plateau, exact, Prior{}, 0.15},
		{"noise", linear, noisy(0), Prior{}, 0.10},
		{"noise and a spike in twenty steps", linear, noisy(0.05), Prior{}, 0.20},
		{"noise and spikes on a plateau", plateau, noisy(0.05), Prior{}, 0.25},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(5) {
				r := rand.New(rand.NewPCG(seed, 1))
				m := New(c.prior)
				for range 500 {
					l := served(r)
					m.Observe(l, time.Duration(c.noise(r, c.truth(l))))
				}
				if far := worst(t, m, c.truth); far > c.limit {
					t.Errorf("seed %d: estimates are off by up to %.0f %%, want %.0f %%", seed, 100*far, 100*c.limit)
				}
			}
		})
	}
}

func TestEstimatesFollowAMachineThatChanges(t *testing.T) {
	for _, factor := range []float64{4, 0.25} {
		r := rand.New(rand.NewPCG(3, 3))
		m := New(Prior{})
		changed := func(l Load) float64 { return factor * linear(l) }
		for range 500 {
			l := served(r)
			m.Observe(l, time.Duration(linear(l)))
		}
		for range 2000 { // rare steps are relearned last
			l := served(r)
			m.Observe(l, time.Duration(changed(l)))
		}
		if far := worst(t, m, changed); far > 0.20 {
			t.Errorf("at %v times the cost: off by up to %.0f %%", factor, 100*far)
		}
	}
}

// Steps of several rows may be of requests that are cheap to sample, and steps
// of one row of one that is not: no sum of costs explains both. What runs now
// is estimated well all the same.
func TestEstimatesFollowWhatRunsNow(t *testing.T) {
	m := New(Prior{})
	few, one := Load{Rows: 6, Outputs: 6, Decode: 3000}, Load{Rows: 1, Outputs: 1, Decode: 500}
	for range 200 {
		m.Observe(few, 20*time.Millisecond)
	}
	for range 100 {
		m.Observe(one, 40*time.Millisecond)
	}
	if got := m.Estimate(one); got < 34*time.Millisecond || got > 42*time.Millisecond {
		t.Errorf("steps that take 40 ms are estimated at %v", got)
	}
}

func TestOneSpikeHardlyMovesAnEstimate(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	m := New(Prior{})
	for range 300 {
		l := served(r)
		m.Observe(l, time.Duration(linear(l)))
	}
	l := Load{Rows: 8, Outputs: 8, Decode: 4000}
	before := m.Estimate(l)
	m.Observe(l, 50*before)
	if after := m.Estimate(l); float64(after) > 1.05*float64(before) {
		t.Errorf("a spike of 50 times the time moved the estimate from %v to %v", before, after)
	}
}

func TestLongDecodingForgetsNothingAboutPrompts(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	m := New(Prior{})
	for range 300 {
		l := served(r)
		m.Observe(l, time.Duration(linear(l)))
	}
	for i := range 20_000 {
		l := Load{Rows: 3, Outputs: 3, Decode: 3 * (i % 2000)}
		m.Observe(l, time.Duration(linear(l)*(1+0.05*r.NormFloat64())))
	}
	if far := worst(t, m, linear); far > 0.15 {
		t.Errorf("after 20000 steps of decoding estimates are off by up to %.0f %%", 100*far)
	}
}

func TestTheFirstStepSetsTheScale(t *testing.T) {
	m := New(Prior{})
	if l := (Load{Rows: 1}); m.Ready() || m.Estimate(l) != 0 || m.Error() != 1 {
		t.Errorf("before any step: ready %v, estimate %v, error %v", m.Ready(), m.Estimate(l), m.Error())
	}
	l := Load{Rows: 100, Outputs: 1, Prompt: Attended(0, 100)}
	m.Observe(l, time.Second)
	if got := m.Estimate(l).Seconds(); math.Abs(got-1) > 0.01 {
		t.Errorf("estimate of the very step that was seen: %.3f s, want 1", got)
	}
	m.Observe(l, 0)
	m.Observe(Load{}, time.Second)
	if got := m.Estimate(l).Seconds(); math.Abs(got-1) > 0.01 {
		t.Errorf("a step of no time or no rows counted: %.3f s", got)
	}
}

// grown is l with one part larger.
func grown(l Load, part, by int) Load {
	switch part {
	case 0:
		l.Rows += by
	case 1:
		l.Outputs += by
	case 2:
		l.Prompt += by
	default:
		l.Decode += by
	}
	return l
}

// FuzzModel feeds a model anything and wants it monotone, finite, and the same
// again from the same observations.
func FuzzModel(f *testing.F) {
	f.Add([]byte("1234567890abcdefghijklmnopqrstuvwxyz"))
	f.Add([]byte{0, 0, 0, 0, 255, 255, 255, 255, 1, 0, 0, 9, 200, 1, 1, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		m, twin := New(Prior{}), New(Prior{})
		for len(data) >= 5 {
			l := Load{Rows: int(data[0]) * int(data[1]), Outputs: int(data[1]), Prompt: int(data[2]) << (data[3] % 20), Decode: int(data[3])}
			took := time.Duration(data[4]) << (data[0] % 40)
			m.Observe(l, took)
			twin.Observe(l, took)
			data = data[5:]
		}
		for _, l := range append(probes(), Load{}, Load{Rows: 1 << 20, Prompt: 1 << 40}) {
			ns := m.nanoseconds(l)
			if math.IsNaN(ns) || math.IsInf(ns, 0) || ns < 0 || ns != twin.nanoseconds(l) {
				t.Fatalf("%+v: %v, the twin says %v", l, ns, twin.nanoseconds(l))
			}
			for part := range 4 {
				for _, by := range []int{1, 3, 60, 1000} {
					if more := m.nanoseconds(grown(l, part, by)); more < ns {
						t.Fatalf("%+v takes %v ns, with part %d larger by %d only %v", l, ns, part, by, more)
					}
				}
			}
		}
	})
}

func TestAttendedCountsEveryPosition(t *testing.T) {
	for start := range 20 {
		want := 0
		for count := range 20 {
			if got := Attended(start, count); got != want {
				t.Fatalf("rows [%d, %d): %d positions, want %d", start, start+count, got, want)
			}
			want += start + count + 1
		}
	}
}

// A row attends to no more than its window in the layers that have one.
func TestWindowsBoundWhatIsAttendedTo(t *testing.T) {
	a := Attention{{Share: 0.25}, {Positions: 7, Share: 0.5}, {Positions: 3, Share: 0.25}}
	for start := range 20 {
		for count := range 20 {
			want := 0.0
			for p := start; p < start+count; p++ {
				want += 0.25*float64(p+1) + 0.5*float64(min(p+1, 7)) + 0.25*float64(min(p+1, 3))
			}
			if got := a.Attended(start, count); math.Abs(float64(got)-want) > 0.5 {
				t.Fatalf("rows [%d, %d): %d positions, want %g", start, start+count, got, want)
			}
			if got := Attention(nil).Attended(start, count); got != Attended(start, count) {
				t.Fatalf("rows [%d, %d) without windows: %d positions, want %d", start, start+count, got, Attended(start, count))
			}
		}
	}
}

func TestModelDoesNotAllocate(t *testing.T) {
	m := New(Prior{})
	l := Load{Rows: 20, Outputs: 4, Prompt: 1000, Decode: 3000}
	if n := testing.AllocsPerRun(100, func() {
		m.Observe(l, time.Millisecond)
		m.Estimate(l)
	}); n != 0 {
		t.Errorf("%v allocations per step", n)
	}
}

func BenchmarkObserve(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	m := New(Prior{})
	for range 2000 { // rare steps are relearned last
		l := served(r)
		m.Observe(l, time.Duration(linear(l)))
	}
	l := served(r)
	took := time.Duration(linear(l))
	for b.Loop() {
		m.Observe(l, took)
	}
}

func BenchmarkEstimate(b *testing.B) {
	m := New(Prior{})
	l := Load{Rows: 20, Outputs: 4, Prompt: 1000, Decode: 3000}
	m.Observe(l, time.Millisecond)
	for b.Loop() {
		m.Estimate(l)
	}
}
