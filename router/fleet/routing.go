package fleet

import (
	"cmp"
	"errors"
	"time"
)

// Routing is how long a fleet waits for its replicas, and what it does about those that
// fail. Zero values take what DefaultRouting has.
type Routing struct {
	AnswerTimeout time.Duration // until an answer begins; of no stream, until its end
	StallTimeout  time.Duration // without a byte of a stream that has begun
	HoldTime      time.Duration // from then on signs of life pass before content does

	RetryShare float64 // of the requests of 10 s may be retries after failures, and three; negative: none at all

	BreakerFailures int           // in a row open a replica's breaker; half of 20 or more in a minute do too
	BreakerPause    time.Duration // from then on one request tries the replica

	ProbeEvery time.Duration // between the probes of a replica
	LookEvery  time.Duration // between the looks at names and files

	Zone         string        // where this process is; "": all replicas are equally near
	ZoneDistance time.Duration // how much sooner a replica of another zone must answer to be picked by the policy prefix
}

// DefaultRouting is what a fleet does unless it is told otherwise.
func DefaultRouting() Routing {
	return Routing{
		AnswerTimeout: DefaultAnswerTimeout, StallTimeout: 2 * time.Minute, HoldTime: 5 * time.Second,
		RetryShare: 0.1, BreakerFailures: 5, BreakerPause: 10 * time.Second,
		ProbeEvery: 2 * time.Second, LookEvery: 5 * time.Second, ZoneDistance: 50 * time.Millisecond,
	}
}

func (r Routing) withDefaults() Routing {
	d := DefaultRouting()
	r.AnswerTimeout = cmp.Or(r.AnswerTimeout, d.AnswerTimeout)
	r.StallTimeout = cmp.Or(r.StallTimeout, d.StallTimeout)
	r.HoldTime = cmp.Or(r.HoldTime, d.HoldTime)
	r.RetryShare = cmp.Or(r.RetryShare, d.RetryShare)
	r.BreakerFailures = cmp.Or(r.BreakerFailures, d.BreakerFailures)
	r.BreakerPause = cmp.Or(r.BreakerPause, d.BreakerPause)
	r.ProbeEvery = cmp.Or(r.ProbeEvery, d.ProbeEvery)
	r.LookEvery = cmp.Or(r.LookEvery, d.LookEvery)
	r.ZoneDistance = cmp.Or(r.ZoneDistance, d.ZoneDistance)
	return r
}

func (r *Routing) check() error {
	for _, d := range []time.Duration{r.AnswerTimeout, r.StallTimeout, r.HoldTime, r.BreakerPause, r.ProbeEvery, r.LookEvery, r.ZoneDistance} {
		if d < 0 {
			return errors.New("a time of routing is negative; give one above 0, or leave it out")
		}
	}
	if r.RetryShare > 1 || r.BreakerFailures < 0 {
		return errors.New("the share of retries must be at most 1, and the failures of the breaker not negative")
	}
	return nil
}

// distance is what going to a zone costs more than staying. Replicas of which no zone is
// known are as near as any.
func (r *Routing) distance(zone string) time.Duration {
	if r.Zone == "" || zone == "" || zone == r.Zone {
		return 0
	}
	return r.ZoneDistance
}
