package cost

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// A line finds costs that differ by orders of magnitude, through noise and through one
// observation in twenty that took a hundred times as long.
func TestLineLearnsThroughNoise(t *testing.T) {
	for _, c := range []struct{ perRow, base float64 }{{5000, 300}, {50, 40000}, {0, 9000}, {3e6, 0}, {1, 200}} {
		r := rand.New(rand.NewPCG(3, 4))
		var l Line
		for range 2000 {
			rows := 1 << r.IntN(10)
			took := (c.perRow*float64(rows) + c.base) * math.Exp(0.1*r.NormFloat64())
			if r.IntN(20) == 0 {
				took *= 100
			}
			l.Observe(rows, time.Duration(took))
		}
		for _, rows := range []int{1, 7, 64, 512} {
			want := c.perRow*float64(rows) + c.base
			if got := float64(l.Estimate(rows)); got < want*0.7 || got > want*1.4 {
				t.Errorf("%v: %d rows estimated at %v ns, want %v", c, rows, got, want)
			}
		}
	}
}

// Work that became ten times slower for good is believed after some dozen observations.
func TestLineFollowsALastingChange(t *testing.T) {
	var l Line
	for range 100 {
		l.Observe(1, 5*time.Microsecond)
		l.Observe(64, 200*time.Microsecond)
	}
	for range 60 {
		l.Observe(1, 50*time.Microsecond)
		l.Observe(64, 2*time.Millisecond)
	}
	if got := l.Estimate(1); got < 40*time.Microsecond || got > 60*time.Microsecond {
		t.Errorf("after the change a row is estimated at %v, want 50µs", got)
	}
}

// What was learned of large work long ago does not hold back what small work shows.
func TestLineForgetsWhatContradicts(t *testing.T) {
	var l Line
	l.Observe(1, time.Microsecond)
	l.Observe(64, 64*time.Microsecond)
	for range 200 {
		l.Observe(1, time.Millisecond)
	}
	if got := l.Estimate(1); got < 700*time.Microsecond || got > 1300*time.Microsecond {
		t.Errorf("a row is estimated at %v, want 1ms", got)
	}
}

// Estimates never fall when the work grows, whatever was observed.
func TestLineGrowsWithItsWork(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		var l Line
		for range 1 + r.IntN(50) {
			l.Observe(1+r.IntN(5000), time.Duration(1+r.IntN(1_000_000)))
		}
		last := time.Duration(-1)
		for rows := 1; rows < 10000; rows = rows*3/2 + 1 {
			d := l.Estimate(rows)
			if d < last || d < 0 {
				t.Fatalf("%d rows take %v, fewer take %v", rows, d, last)
			}
			last = d
		}
	}
}

func TestLineKnowsNothingAtFirst(t *testing.T) {
	var l Line
	l.Observe(0, time.Second)
	l.Observe(5, 0)
	if l.Ready() || l.Estimate(100) != 0 || l.Error() != 1 {
		t.Errorf("ready %v, estimate %v, error %v", l.Ready(), l.Estimate(100), l.Error())
	}
	l.Observe(10, 10*time.Microsecond)
	if got := l.Estimate(20); got != 20*time.Microsecond {
		t.Errorf("twice the rows of the only observation take %v, want 20µs", got)
	}
}
