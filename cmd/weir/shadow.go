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

	// shadowRest is how many times as long as the last copy took there is none, while users are served here.
	shadowRest = 4
	restPoll   = 5 * time.Millisecond
)

// copied is a request that was answered, to be answered by the candidate too.
type copied struct {
	model, candidate string
	rollout          string // its plan's ID
	*openai.Copy
}

// copy is what takes a request's copy to the candidate of the rollout that wanted it.
func (r *rollouts) copy(c *openai.Copy) {
	for _, st := range r.control.List(time.Now()) {
		if st.Plan.ID != c.Finish.Arm.Rollout || st.State.Over() {
			continue
		}
		select {
		case r.copies <- copied{c.Ask.Model, st.Plan.Candidate, st.Plan.ID, c}:
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
	if entry.Upstream == nil {
		if !r.awaitRest() {
			return
		}
		defer r.rest(time.Now())
	}
	ctx, cancel := context.WithTimeout(r.ctx, shadowTime)
	defer cancel()
	got, err := r.s.edge.Shadow(ctx, entry, c.Copy)
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

// awaitRest waits until a copy may be computed here: until nothing is computed for users, or until copies have
// rested. It is false when the server stops.
func (r *rollouts) awaitRest() bool {
	tick := time.NewTicker(restPoll)
	defer tick.Stop()
	for r.s.engaged() && time.Now().Before(r.rested) {
		select {
		case <-tick.C:
		case <-r.ctx.Done():
			return false
		}
	}
	return true
}

// rest says how long copies rest after one that was computed here. Only the goroutine that computes copies calls it.
func (r *rollouts) rest(began time.Time) {
	now := time.Now()
	r.rested = now.Add(shadowRest * now.Sub(began))
}

// engaged reports whether an engine of this process has a request.
func (s *server) engaged() bool {
	for _, e := range s.languages.engines() {
		if l := e.Load(); l.Running+l.Waiting > 0 {
			return true
		}
	}
	return false
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
