package admission

import (
	"math"
	"time"
)

// throughput measures how much work leaves the queue to be served per time, while
// something waits. What it saw fades over some seconds.
type throughput struct {
	work  float64 // served in the last seconds
	busy  float64 // nanoseconds of the last seconds in which something waited
	since int64   // what lies before is counted
}

const (
	// drainDecay is the time in which what was seen fades to a third.
	drainDecay = 10 * time.Second
	// drainMinBusy is how long something must have waited before the rate counts.
	drainMinBusy = 500 * time.Millisecond
	// drainPriorTime is the time for which a tenant's part by weight counts beside
	// what was measured of it.
	drainPriorTime = time.Second
)

// advance lets time pass, in which something waited or not.
func (d *throughput) advance(now int64, waited bool) {
	took := float64(now - d.since)
	if d.since = now; !waited || took <= 0 {
		return
	}
	fade := math.Exp(-took / float64(drainDecay))
	d.work *= fade
	d.busy = d.busy*fade + took
}

// rate is the work per nanosecond; 0 when it is not known.
func (d *throughput) rate() float64 {
	if d.busy < float64(drainMinBusy) {
		return 0
	}
	return d.work / d.busy
}
