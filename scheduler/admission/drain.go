package admission

import (
	"math"
	"time"
)

// drain measures how much work leaves the queue to be served per time, while
// something waits. What it saw fades over some seconds.
type drain struct {
	work  float64 // served of late
	busy  float64 // nanoseconds in which something waited, of late
	since int64   // what lies before is counted
}

const (
	// drainFade is the time in which what was seen fades to a third.
	drainFade = 10 * time.Second
	// drainLeast is how long something must have waited before the rate counts.
	drainLeast = 500 * time.Millisecond
	// drainTrust is the time for which a tenant's part by weight counts beside
	// what was measured of it.
	drainTrust = time.Second
)

// pass lets time pass, in which something waited or not.
func (d *drain) pass(now int64, waited bool) {
	took := float64(now - d.since)
	if d.since = now; !waited || took <= 0 {
		return
	}
	fade := math.Exp(-took / float64(drainFade))
	d.work *= fade
	d.busy = d.busy*fade + took
}

// rate is the work per nanosecond; 0 when it is not known.
func (d *drain) rate() float64 {
	if d.busy < float64(drainLeast) {
		return 0
	}
	return d.work / d.busy
}
