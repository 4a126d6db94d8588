package cost

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Work of a microsecond of which a third lost its core for milliseconds, in all sizes, keeps its line; what the clock
// said, unfiltered, is far from it.
func TestLeastSeesThroughInterruptions(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var least LeastTime
	var calm, raw Line
	calm.Observe(1, time.Microsecond)
	calm.Observe(64, 64*time.Microsecond)
	raw = calm
	for range 20000 {
		rows := 1 + r.IntN(16)
		took := time.Duration(rows) * time.Microsecond
		if r.IntN(3) == 0 {
			took += time.Duration(1+r.IntN(4)) * time.Millisecond
		}
		raw.Observe(rows, took)
		if n, d, ok := least.Add(rows, took); ok {
			calm.Observe(n, d)
		}
		if got := calm.Estimate(1); got > 3*time.Microsecond {
			t.Fatalf("a row of 1µs is estimated at %v", got)
		}
	}
	if got := raw.Estimate(1); got < 50*time.Microsecond {
		t.Errorf("unfiltered, a row is estimated at %v: the test interrupts too little to show anything", got)
	}
}

// A machine that became slower for good is believed.
func TestLeastFollowsALastingChange(t *testing.T) {
	var least LeastTime
	var l Line
	l.Observe(1, time.Microsecond)
	for range 60 * leastOf {
		if n, d, ok := least.Add(1, 10*time.Microsecond); ok {
			l.Observe(n, d)
		}
	}
	if got := l.Estimate(1); got < 8*time.Microsecond || got > 12*time.Microsecond {
		t.Errorf("a row is estimated at %v, want 10µs", got)
	}
}

// Sizes do not hide one another: small work passes on its own least, large work its own.
func TestLeastKeepsSizesApart(t *testing.T) {
	var least LeastTime
	var passed []int
	for range leastOf {
		for _, rows := range []int{1, 100} {
			if n, d, ok := least.Add(rows, time.Duration(rows)); ok {
				if d != time.Duration(n) {
					t.Errorf("%d rows took %v", n, d)
				}
				passed = append(passed, n)
			}
		}
	}
	if len(passed) != 2 || passed[0] != 1 || passed[1] != 100 {
		t.Errorf("passed on %v, want work of 1 and of 100 rows, once each", passed)
	}
	if _, _, ok := least.Add(0, time.Second); ok {
		t.Error("work without rows counts")
	}
}
