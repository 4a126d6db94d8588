package brownout

import (
	"math"
	"time"
)

// Wait expects how long a request that comes now waits: what waits, over the rate at
// which requests were admitted of late while others waited (Little's law). While
// no request waits the rate is that of arrivals, which says nothing. The zero value has
// seen nothing. It belongs to one goroutine.
type Wait struct {
	last     time.Time
	admitted uint64
	waited   bool    // something waited when it was last looked
	served   float64 // requests admitted of late while something waited
	busy     float64 // seconds in which something waited, of late
}

const (
	// rateFade is the time in which what was seen of the rate fades to a third.
	rateFade = 10 * time.Second
	// leastBusy is how many seconds something must have waited before the rate counts.
	leastBusy   = 0.5
	leastServed = 1e-9
	// longestWait bounds the estimate, where next to nothing is admitted.
	longestWait = time.Hour
)

// Observe takes in how many requests wait and how many were admitted so far.
func (w *Wait) Observe(now time.Time, waiting int, admitted uint64) time.Duration {
	if took := now.Sub(w.last); took > 0 {
		if w.waited && admitted >= w.admitted {
			keep := math.Exp(-float64(took) / float64(rateFade))
			w.served = keep*w.served + float64(admitted-w.admitted)
			if w.served > 0 {
				w.served = max(w.served, leastServed) // what was seen once is not forgotten
			}
			w.busy = keep*w.busy + took.Seconds()
		}
		w.last, w.admitted, w.waited = now, admitted, waiting > 0
	}
	if waiting <= 0 || w.served == 0 || w.busy < leastBusy {
		return 0
	}
	return time.Duration(min(float64(waiting)*w.busy/w.served*float64(time.Second), float64(longestWait)))
}
