package cost

import (
	"math"
	"math/bits"
	"time"
)

// Line learns the time of work that grows with its rows, a·rows + b, both at least 0.
// The zero value has observed nothing. Like a [Model] it is pure and belongs to one
// goroutine.
type Line struct {
	perRow, base float64 // nanoseconds
	error        float64 // typical distance from the estimate, as a share
	observed     int
	classes      [lineClasses]lineClass // by powers of two of the rows
}

// lineClasses is the number of classes; the last one has all larger work.
const lineClasses = 24

// lineClass sums recent observations of one class, with fading weight.
type lineClass struct {
	n, x, xx, y, xy, yy float64
	seen                int // number of the last observation
	errorEstimate
}

// Ready reports whether anything was observed; before, estimates are 0.
func (l *Line) Ready() bool { return l.observed > 0 }

// Estimate is how long work of so many rows will take.
func (l *Line) Estimate(rows int) time.Duration {
	return time.Duration(l.perRow*float64(rows) + l.base)
}

// PerRow is the part of the estimate that each row adds.
func (l *Line) PerRow() time.Duration { return time.Duration(l.perRow) }

// Base is the part of the estimate that does not grow with the rows.
func (l *Line) Base() time.Duration { return time.Duration(l.base) }

// Error is how far observations typically are from their estimates, as a share of the
// estimate, at most 1; 1 before anything was observed.
func (l *Line) Error() float64 {
	if l.observed == 0 {
		return 1
	}
	return min(l.error, 1)
}

// Observe takes in that work of so many rows took so long. One observation far from its
// estimate moves the estimate little: the machine may have been busy elsewhere.
func (l *Line) Observe(rows int, took time.Duration) {
	if took <= 0 || rows <= 0 {
		return
	}
	x, y := float64(rows), float64(took)
	c := &l.classes[min(bits.Len(uint(rows)), lineClasses)-1]
	switch {
	case l.observed == 0:
		c.error = firstError
	case c.n == 0:
		c.error = farError
		fallthrough
	default:
		var off float64
		y, off = c.believe(l.perRow*x+l.base, y)
		l.error += (off - l.error) / patience
	}
	l.observed++
	c.seen = l.observed
	c.add(x, y)
	l.fit()
}

// farError is the typical error of a class before its first observation: the line may be
// far off where nothing was seen.
const farError = 1.5

func (c *lineClass) add(x, y float64) {
	const keep = 1 - 1.0/memory
	c.n = c.n*keep + 1
	c.x = c.x*keep + x
	c.xx = c.xx*keep + x*x
	c.y = c.y*keep + y
	c.xy = c.xy*keep + x*y
	c.yy = c.yy*keep + y*y
}

// fit finds the non-negative line with the least squares of relative errors.
func (l *Line) fit() {
	var n, x, xx, y, xy float64
	for i := range l.classes {
		c := &l.classes[i]
		if c.n == 0 {
			continue
		}
		age := float64(l.observed-c.seen) / fresh
		f := max(math.Exp(-age), lineStale) * c.n / c.yy // errors count as shares of the class's typical time
		n += f * c.n
		x += f * c.x
		xx += f * c.xx
		y += f * c.y
		xy += f * c.xy
	}
	if d := n*xx - x*x; d > lineSpread*n*xx {
		l.perRow, l.base = (n*xy-x*y)/d, (xx*y-x*xy)/d
	} else {
		l.perRow, l.base = xy/xx, 0 // all of one size: nothing tells rows from what comes before them
	}
	switch {
	case l.base < 0:
		l.perRow, l.base = xy/xx, 0
	case l.perRow < 0:
		l.perRow, l.base = 0, y/n
	}
	l.perRow, l.base = math.Max(l.perRow, 0), math.Max(l.base, 0)
}

// lineStale is what a class weighs at least that was not seen for long: enough to tell what
// only it knows, and too little to hold back the others where the machine has changed.
const lineStale = 1e-3

// lineSpread is how different in size, as a share of variance, work must be to tell the
// cost of a row from the cost of the whole.
const lineSpread = 1e-6
