package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// ServeOptions say how requests are sent.
type ServeOptions struct {
	Requests []Request
	Warmups  []Request // sent before, and not measured

	Rate           float64 // requests per second; +Inf sends all at once
	Burstiness     float64 // shape of the gaps' gamma distribution; 1 is a Poisson process
	SelfTimed      bool    // requests come at their own times; a finite Rate stretches them to it
	MaxConcurrency int     // requests at a time; 0 is no limit. With an infinite Rate this is a closed loop
	Seed           uint64
	KeepText       bool // keep the generated texts

	Progress func(done, total int) // called after each measured request, from several goroutines; may be nil
}

// Load is the raw record of a run: every request's outcome and times. Compute makes
// figures of it.
type Load struct {
	Outcomes []Outcome // in the order of the requests
	Duration float64   // seconds from the first arrival to the last answer
	Ramp     int       // requests of a closed loop's first wave, sent at once to an idle server; 0 where there is no later one
}

// check refuses options that make no sense.
func (o *ServeOptions) check() error {
	switch {
	case len(o.Requests) == 0:
		return errors.New("no requests to send")
	case !(o.Rate > 0):
		return fmt.Errorf("request rate is %g per second, must be above 0, or inf", o.Rate)
	case !(o.Burstiness > 0):
		return fmt.Errorf("burstiness is %g, must be above 0; 1 is a Poisson process", o.Burstiness)
	case o.MaxConcurrency < 0:
		return fmt.Errorf("max concurrency is %d, must be above 0, or 0 for no limit", o.MaxConcurrency)
	}
	return nil
}

// arrivals are the times of all requests, in seconds.
func (o *ServeOptions) arrivals() []float64 {
	if !o.SelfTimed {
		r := rand.New(rand.NewPCG(o.Seed, uint64(streamArrival)<<48|1))
		return gammaArrivals(r, len(o.Requests), o.Rate, o.Burstiness)
	}
	at := make([]float64, len(o.Requests))
	for i := range at {
		at[i] = o.Requests[i].At
	}
	if !math.IsInf(o.Rate, 1) {
		rescale(at, float64(len(at))/o.Rate)
	}
	return at
}

// Serve sends the requests to the target and times the answers. Requests that
// fail are outcomes too; the error is about the run itself.
func Serve(ctx context.Context, t *Target, o ServeOptions) (*Load, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if err := t.Check(); err != nil {
		return nil, err
	}
	if o.Progress == nil {
		o.Progress = func(int, int) {}
	}
	if err := warmUp(ctx, t, &o); err != nil {
		return nil, err
	}
	l := loader{target: t, o: &o, outcomes: make([]Outcome, len(o.Requests))}
	l.run(ctx, o.arrivals())
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("stopped after %d of %d requests: %w", l.done.Load(), len(o.Requests), err)
	}
	return &Load{Outcomes: l.outcomes, Duration: l.duration, Ramp: o.ramp()}, nil
}

// ramp is how many requests a closed loop begins with.
func (o *ServeOptions) ramp() int {
	if o.SelfTimed || !math.IsInf(o.Rate, 1) || o.MaxConcurrency >= len(o.Requests) {
		return 0
	}
	return o.MaxConcurrency
}

// warmUp sends the warm-ups, as many at a time as the run will.
func warmUp(ctx context.Context, t *Target, o *ServeOptions) error {
	if len(o.Warmups) == 0 {
		return nil
	}
	w := loader{target: t, outcomes: make([]Outcome, len(o.Warmups)), o: &ServeOptions{
		Requests: o.Warmups, MaxConcurrency: max(1, o.MaxConcurrency), Progress: func(int, int) {},
	}}
	w.run(ctx, make([]float64, len(o.Warmups)))
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("stopped while warming up: %w", err)
	}
	for i := range w.outcomes {
		if out := &w.outcomes[i]; !out.ok() {
			return fmt.Errorf("warm-up request %d failed (%s): %s", i, out.Kind, out.Error)
		}
	}
	return nil
}

// loader is one run. Each goroutine owns its request's outcome.
type loader struct {
	target   *Target
	o        *ServeOptions
	outcomes []Outcome
	done     atomic.Int64
	began    time.Time
	duration float64
}

// arrival is a request whose arrival time has passed.
type arrival struct {
	index int
	at    float64
}

// run lets requests arrive at their times. Without a limit each is sent at
// once; with one they are sent in their order, as soon as one of so many senders
// is free.
func (l *loader) run(ctx context.Context, at []float64) {
	queue := make(chan arrival, len(l.outcomes))
	var wg sync.WaitGroup
	for range l.o.MaxConcurrency {
		wg.Go(func() {
			for a := range queue {
				l.one(ctx, a)
			}
		})
	}
	l.began = time.Now()
	for i := range l.outcomes {
		if !sleepUntil(ctx, l.began.Add(time.Duration(at[i]*float64(time.Second)))) {
			break
		}
		a := arrival{i, time.Since(l.began).Seconds()}
		if l.o.MaxConcurrency > 0 {
			queue <- a // never blocks: there is room for all
		} else {
			wg.Go(func() { l.one(ctx, a) })
		}
	}
	close(queue)
	wg.Wait()
	l.duration = time.Since(l.began).Seconds()
}

func (l *loader) one(ctx context.Context, a arrival) {
	if ctx.Err() != nil {
		return
	}
	out := l.target.exchange(ctx, &l.o.Requests[a.index], l.began, l.o.KeepText)
	out.Arrival = a.at
	l.outcomes[a.index] = out
	l.o.Progress(int(l.done.Add(1)), len(l.outcomes))
}

// sleepUntil reports false if the context ended first.
func sleepUntil(ctx context.Context, at time.Time) bool {
	wait := time.Until(at)
	if wait <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
