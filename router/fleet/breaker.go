package fleet

import (
	"errors"
	"time"

	"github.com/sony/gobreaker/v2"
)

// breakerWindow is how long outcomes count.
const breakerWindow = time.Minute

// breaker keeps requests from a replica that fails.
type breaker struct{ twoStep }

// twoStep is gobreaker's of two steps. It is an interface so that packages which import this
// one do not compile its generic methods.
type twoStep interface {
	Allow() (done func(error), err error)
	State() gobreaker.State
}

// newBreaker opens after failures in a row, or when half of many requests fail, and lets one
// request try the replica again after a pause.
func (c *Config) newBreaker(changed func(from, to string)) *breaker {
	return &breaker{gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Interval: breakerWindow, BucketPeriod: breakerWindow / 10, Timeout: c.BreakerPause,
		ReadyToTrip: func(n gobreaker.Counts) bool {
			return n.ConsecutiveFailures >= uint32(c.BreakerFailures) || n.Requests >= 20 && n.TotalFailures*2 >= n.Requests //nolint:gosec // checked
		},
		IsExcluded:    func(err error) bool { return errors.Is(err, errNotJudged) },
		OnStateChange: func(_ string, from, to gobreaker.State) { changed(from.String(), to.String()) },
	})}
}

// closeBreaker gives a replica a closed breaker that has seen nothing.
func (f *Fleet) closeBreaker(r *replica) {
	r.breaker.Store(f.config.newBreaker(func(_, to string) { f.config.Changed(Change{r.id, "breaker " + to, ""}) }))
}

// reopen judges an attempt that the breaker was not asked about: a good answer closes it.
func (f *Fleet) reopen(r *replica) func(error) {
	asked := r.breaker.Load()
	return func(err error) {
		if err == nil && r.breaker.Load() == asked {
			f.closeBreaker(r)
			f.config.Changed(Change{r.id, "breaker closed", ""})
		}
	}
}
