package brownout

import (
	"math"
	"time"
)

// Wait expects how long a request that comes now waits: what waits, over the rate at
// which requests were admitted of late (Little's law). The zero value has seen
// nothing. It belongs to one goroutine.
type Wait struct {
	last     time.Time
	admitted uint64
	rate     float64 // requests per second
}

const (
	// rateFade is the time in which what was seen of the rate fades to a third.
	rateFade = 10 * time.Second
	// longestWait bounds the estimate, where next to nothing is admitted.
	longestWait = time.Hour
)

// Observe takes in how many requests wait and how many were admitted so far.
func (w *Wait) Observe(now time.Time, waiting int, admitted uint64) time.Duration {
	took := now.Sub(w.last)
	if w.last.IsZero() || admitted < w.admitted || took <= 0 {
		if took > 0 {
			w.last, w.admitted = now, admitted
		}
		return w.estimate(waiting)
	}
	seen := float64(admitted-w.admitted) / took.Seconds()
	keep := math.Exp(-float64(took) / float64(rateFade))
	w.rate = keep*w.rate + (1-keep)*seen
	w.last, w.admitted = now, admitted
	return w.estimate(waiting)
}

func (w *Wait) estimate(waiting int) time.Duration {
	if waiting <= 0 || w.rate == 0 {
		return 0
	}
	return time.Duration(min(float64(waiting)/w.rate*float64(time.Second), float64(longestWait)))
}
