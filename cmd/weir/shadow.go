package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"weir/api/openai"
	"weir/internal/inference"
	"weir/router/rollout"
)

const (
	shadowQueue = 8 // copies that wait for the one that is computed; further ones are dropped
	shadowTime  = 2 * time.Minute
	restPoll    = 5 * time.Millisecond
	// shadowQuiet is how long nobody may have been served here before a copy need not rest: between two requests of
	// clients that ask without a pause an engine is idle, too.
	shadowQuiet = time.Second
)

// copied is a request that was answered, to be answered by the candidate too.
type copied struct {
	model, candidate string
	rollout          string  // its plan's ID
	share            float64 // of the time that copies may have
	*openai.Copy
}

// copy is what takes a request's copy to the candidate of the rollout that wanted it.
func (r *rollouts) copy(c *openai.Copy) {
	for _, st := range r.control.List(time.Now()) {
		if st.Plan.ID != c.Finish.Arm.Rollout || st.State.Over() {
			continue
		}
		select {
		case r.copies <- copied{c.Ask.Model, st.Plan.Candidate, st.Plan.ID, st.Plan.CopyShare, c}:
			return
		default:
		}
	}
	r.series.CountShadow("dropped") // the queue is full, or the rollout is over
}

// runs reports whether the rollout that a copy was made for is not over.
func (r *rollouts) runs(c *copied) bool {
	for _, st := range r.control.List(time.Now()) {
		if st.Plan.ID == c.rollout {
			return !st.State.Over()
		}
	}
	return false
}

// shadow has a copy answered by the candidate, one at a time, and compares.
func (r *rollouts) shadow(c *copied) {
	v := r.versionsOf(c.model)
	if v == nil || !r.runs(c) {
		r.series.CountShadow("dropped") // a reload has taken the model away, or the rollout is over
		return
	}
	entry, release, ok := v.entryOf(c.model, c.candidate)
	if !ok {
		r.series.CountShadow("dropped")
		return
	}
	defer release()
	got, err := r.answered(c, entry)
	switch {
	case r.ctx.Err() != nil:
		return
	case errors.Is(err, inference.ErrQueueFull), errors.Is(err, inference.ErrShed), errors.Is(err, inference.ErrQueueTimeout):
		r.series.CountShadow("dropped") // the server is busy, which says nothing of the candidate
		return
	case err != nil:
		r.series.CountShadow("failed")
	default:
		r.series.CountShadow("compared")
	}
	r.changed(r.control.Compare(c.model, time.Now(), &rollout.Copied{
		Rollout: c.rollout, Failed: err != nil, Empty: err == nil && strings.Join(got.Texts, "") == "",
		Distance: textDistance(c.Texts, got.Texts), ITL: got.ITL, Stable: meanGap(&c.Finish), Output: got.Output, Before: c.Finish.OutputTokens,
	}))
}

// errUsersCame ends a copy that is computed here because nobody was served, and somebody is now.
var errUsersCame = errors.New("requests of users have come")

// answered has a copy computed. Here it waits for a moment without users, and gives way to those that come meanwhile, or for
// the end of the copies' rest: what it takes then counts against their share of the time.
func (r *rollouts) answered(c *copied, entry *openai.Model) (openai.Shadowed, error) {
	for {
		alone := false
		if entry.Upstream == nil {
			alone = r.awaitRest()
		}
		ctx, cancel := context.WithTimeout(r.ctx, shadowTime)
		ctx, give := context.WithCancelCause(ctx)
		if alone {
			go r.giveWay(ctx, give)
		}
		began := time.Now()
		got, err := r.s.edge.Shadow(ctx, entry, c.Copy)
		again := err != nil && errors.Is(context.Cause(ctx), errUsersCame)
		give(nil)
		cancel()
		if entry.Upstream == nil {
			r.rest(began, c.share)
		}
		if !again {
			return got, err
		}
	}
}

// giveWay ends a copy when there is more to be computed here than the copy.
func (r *rollouts) giveWay(ctx context.Context, give context.CancelCauseFunc) {
	tick := time.NewTicker(restPoll)
	defer tick.Stop()
	for r.s.engaged() <= 1 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
	give(errUsersCame)
}

// awaitRest waits until a copy may be computed here: until nobody is served (alone), until copies have rested, or until the
// server stops.
func (r *rollouts) awaitRest() (alone bool) {
	tick := time.NewTicker(restPoll)
	defer tick.Stop()
	for {
		now := time.Now()
		switch {
		case r.s.engaged() == 0 && now.UnixNano()-r.served.Load() > int64(shadowQuiet):
			return true
		case !now.Before(r.rested):
			return false
		}
		select {
		case <-tick.C:
		case <-r.ctx.Done():
			return false
		}
	}
}

// rest says how long copies rest after one that was computed here, so that they get their share of the time. Only the goroutine that computes copies calls it.
func (r *rollouts) rest(began time.Time, share float64) {
	now := time.Now()
	r.rested = now.Add(time.Duration(float64(now.Sub(began)) * (1/share - 1)))
}

// engaged is how many sequences the engines of this process have.
func (s *server) engaged() (n int) {
	for _, e := range s.languages.engines() {
		l := e.Load()
		n += l.Running + l.Waiting
	}
	return n
}

// textDistance is the mean over the choices.
func textDistance(a, b []string) float64 {
	if len(a) != len(b) || len(a) == 0 {
		return 1
	}
	sum := 0.0
	for i := range a {
		sum += rollout.Distance(a[i], b[i])
	}
	return sum / float64(len(a))
}
