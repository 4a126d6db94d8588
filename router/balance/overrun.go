package balance

import (
	"math"
	"time"
)

// overrun is what prompts that were given up, because they took far longer than expected, tell of a replica's speed. What a replica says of
// itself is how fast it computes; it says nothing of the cores, or of the requests beside it, for which a prompt waits. It is only replaced.
type overrun struct {
	each float64       // nanoseconds for a prompt token: the time that was lost, and that of computing the prompt elsewhere then
	at   time.Duration // when, since the balancer's start
	row  int           // so many prompts in a row
}

// maxOverruns is how often the time in which an overrun is forgotten doubles.
const maxOverruns = 6

// above is what it adds to a mean, in nanoseconds for a token. It halves as a share of faults does, and with each further overrun in a row half as
// fast: a try costs its caller the whole time limit.
func (o *overrun) above(mean float64, now time.Duration) float64 {
	if o == nil || o.each <= mean {
		return 0
	}
	half := faultsHalve << min(max(o.row-1, 0), maxOverruns-1)
	return (o.each - mean) * math.Exp2(-float64(now-o.at)/float64(half))
}

func (o *overrun) count() int {
	if o == nil {
		return 0
	}
	return o.row
}

// speed is the expected time of a prompt token in nanoseconds.
func (r *replica) speed(now time.Duration) float64 {
	mean := r.prefill.get()
	return mean + r.overran.Load().above(mean, now)
}

// overrun takes in that so many tokens were given up. Changes at the same time may be lost.
func (r *replica) overrun(now, lost time.Duration, tokens int) {
	row := 1
	if o := r.overran.Load(); o != nil {
		row += o.row
	}
	r.overran.Store(&overrun{float64(lost) / float64(max(tokens, leastTokens)), now, row})
}

// inTime takes in that so many tokens were computed after all: their time counts in place of the bound.
func (r *replica) inTime(now, took time.Duration, tokens int) {
	switch each := float64(took) / float64(max(tokens, 1)); {
	case r.overran.Load() == nil || tokens < leastTokens:
	case each > r.prefill.get():
		r.overran.Store(&overrun{each: each, at: now})
	default:
		r.overran.Store(nil)
	}
}
