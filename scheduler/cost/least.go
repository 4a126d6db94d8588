package cost

import (
	"math/bits"
	"time"
)

// LeastTime finds what work takes among measurements by the clock on a machine that is busy: a thread that lost its core for
// milliseconds shows them as its own, however short the work. Being interrupted only adds, so of several measurements
// the least is the truest. The zero value has measured nothing. Least is pure and belongs to one goroutine.
type LeastTime struct {
	classes [lineClasses]leastClass // by powers of two of the rows, as a Line's
}

type leastClass struct {
	seen int
	rows int
	took time.Duration
}

// leastOf is how many measurements one is taken from: all of them are interrupted only where the machine is so busy that
// this is what work takes.
const leastOf = 8

// Add takes in that work of so many rows took so long. Each eighth time, for work of about one size, it returns the least
// of the eight, with its rows.
func (l *LeastTime) Add(rows int, took time.Duration) (least int, time time.Duration, ok bool) {
	if took <= 0 || rows <= 0 {
		return 0, 0, false
	}
	c := &l.classes[min(bits.Len(uint(rows)), lineClasses)-1]
	if c.seen == 0 || took < c.took {
		c.rows, c.took = rows, took
	}
	if c.seen++; c.seen < leastOf {
		return 0, 0, false
	}
	c.seen = 0
	return c.rows, c.took, true
}
