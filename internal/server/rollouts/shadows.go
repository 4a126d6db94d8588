package rollouts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"weir/api/openai/generation"
	"weir/api/openai/models"
	"weir/internal/inference"
	"weir/router/rollout"
	"weir/telemetry"
)

const (
	shadowQueue = 8 // copies that wait for the one that is computed; further ones are dropped
	shadowTime  = 2 * time.Minute
	restPoll    = 5 * time.Millisecond
	// shadowQuiet is how long no request may have been served here before a copy need not rest: between two requests of
	// clients that ask without a pause an engine is idle, too.
	shadowQuiet = time.Second
)

// copied is a request that was answered, to be answered by the candidate too.
type copied struct {
	model, stable, candidate string

	rollout string  // its plan's ID
	share   float64 // of the time that copies may have
	*models.Copy
}

// shadows have copies of requests answered by candidates, one at a time, and compare.
type shadows struct {
	control *rollout.Controller
	series  *telemetry.Rollouts
	models  Models
	client  Client
	changed func(list []rollout.Transition) // takes in what a comparison decides

	copies chan copied
	ctx    context.Context //nolint:containedctx // of run; ends with the rollouts
	begun  int             // copies that were begun; of run
	rested time.Time       // until then no copy is computed here beside users' requests; of run
	served atomic.Int64    // when the last request of a user ended, in nanoseconds of the epoch
}

// run computes copies until the rollouts end.
func (s *shadows) run() {
	for {
		select {
		case c := <-s.copies:
			s.shadow(&c)
		case <-s.ctx.Done():
			return
		}
	}
}

// take brings a request's copy to the candidate of the rollout that wanted it.
func (s *shadows) take(c *models.Copy) {
	for _, st := range s.control.List(time.Now()) {
		if st.Plan.ID != c.Finish.Arm.Rollout || st.State.Over() {
			continue
		}
		select {
		case s.copies <- copied{c.Request.Model, st.Plan.Stable, st.Plan.Candidate, st.Plan.ID, st.Plan.CopyShare, c}:
			return
		default:
		}
	}
	s.series.CountShadow("dropped") // the queue is full, or the rollout is over
}

// runs reports whether the rollout that a copy was made for is not over.
func (s *shadows) runs(c *copied) bool {
	for _, st := range s.control.List(time.Now()) {
		if st.Plan.ID == c.rollout {
			return !st.State.Over()
		}
	}
	return false
}

// shadow has a copy answered by both versions, one at a time, and compares.
func (s *shadows) shadow(c *copied) {
	if !s.runs(c) {
		s.series.CountShadow("dropped") // the rollout is over
		return
	}
	s.begun++
	got, err := s.compare(c, s.begun%againEvery == 1)
	switch {
	case s.ctx.Err() != nil:
		return
	case err != nil:
		s.series.CountShadow("dropped") // a version is not there any more, or busy, which says nothing of the candidate
		return
	case got.Failed:
		s.series.CountShadow("failed")
	default:
		s.series.CountShadow("compared")
	}
	s.changed(s.control.Compare(c.model, time.Now(), got))
}

// againEvery is how often the stable version answers a copy twice, so that it is known how far its answers are from each other.
const againEvery = 4

// compare has both versions answer with the likeliest tokens. Where the client asked for these, it has one of the stable version's
// answers; again says whether that is asked once more. The error says that nothing can be told.
func (s *shadows) compare(c *copied, again bool) (*rollout.Copied, error) {
	c.Greedy = true
	usual, err := s.answeredBy(c, c.stable)
	if err != nil {
		return nil, err
	}
	before := usual.Texts
	o := &rollout.Copied{Rollout: c.rollout, Before: usual.Output, WasEmpty: isEmpty(usual.Texts), Stable: usual.ITL}
	if askedGreedily(c.Body) {
		before = c.Texts
		o.Again = rollout.Distances{Measured: true, Distance: textDistance(before, usual.Texts)}
	} else if again {
		second, err := s.answeredBy(c, c.stable)
		if err != nil {
			return nil, err
		}
		o.Again = rollout.Distances{Measured: true, Distance: textDistance(before, second.Texts)}
	}
	got, err := s.answeredBy(c, c.candidate)
	switch {
	case errors.Is(err, inference.ErrQueueFull), errors.Is(err, inference.ErrShed), errors.Is(err, inference.ErrQueueTimeout), errors.Is(err, errNotThere):
		return nil, err
	case err != nil:
		o.Failed, o.Why = true, fmt.Sprintf("%.300s", err)
		return o, nil
	}
	o.Empty, o.Output, o.ITL = isEmpty(got.Texts), got.Output, got.ITL
	o.Distance = textDistance(before, got.Texts)
	if got.Output > 0 && usual.Output > 0 {
		o.Compute = rollout.Computed{Candidate: got.Compute / time.Duration(got.Output), Stable: usual.Compute / time.Duration(usual.Output)}
	}
	return o, nil
}

// isEmpty reports whether an answer has no text.
func isEmpty(texts []string) bool { return strings.Join(texts, "") == "" }

// askedGreedily reports whether a request asks for one answer of the likeliest tokens.
func askedGreedily(body []byte) bool {
	var asked struct {
		Temperature *float64
		N           *int
	}
	err := json.Unmarshal(body, &asked)
	return err == nil && asked.Temperature != nil && *asked.Temperature == 0 && (asked.N == nil || *asked.N == 1)
}

var errNotThere = errors.New("a reload has taken the version away")

// answeredBy has a copy answered by a version.
func (s *shadows) answeredBy(c *copied, version string) (generation.Shadowed, error) {
	entry, release, ok := s.models.EntryOf(c.model, version)
	if !ok {
		return generation.Shadowed{}, errNotThere
	}
	defer release()
	return s.answered(c, entry)
}

// errUsersCame ends a copy that is computed here because no request was served, and one is now.
var errUsersCame = errors.New("requests of users have come")

// answered has a copy computed. Here it waits for a moment without users, and gives way to those that come meanwhile, or for
// the end of the copies' rest: what it takes then counts against their share of the time.
func (s *shadows) answered(c *copied, entry *models.Model) (generation.Shadowed, error) {
	for {
		alone := false
		if entry.Upstream == nil {
			alone = s.awaitRest()
		}
		ctx, cancel := context.WithTimeout(s.ctx, shadowTime)
		ctx, give := context.WithCancelCause(ctx)
		if alone {
			go s.giveWay(ctx, give)
		}
		began := time.Now()
		got, err := s.client.Shadow(ctx, entry, c.Copy)
		again := err != nil && errors.Is(context.Cause(ctx), errUsersCame)
		give(nil)
		cancel()
		if entry.Upstream == nil {
			s.rest(began, c.share)
		}
		if !alone {
			got.Compute = 0 // beside others a token costs less, the more the more there are
		}
		if !again {
			return got, err
		}
	}
}

// giveWay ends a copy when there is more to be computed here than the copy.
func (s *shadows) giveWay(ctx context.Context, give context.CancelCauseFunc) {
	tick := time.NewTicker(restPoll)
	defer tick.Stop()
	for s.client.Engaged() <= 1 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
	give(errUsersCame)
}

// awaitRest waits until a copy may be computed here: until no request is served (alone), until copies have rested, or until the
// server stops.
func (s *shadows) awaitRest() (alone bool) {
	tick := time.NewTicker(restPoll)
	defer tick.Stop()
	for {
		now := time.Now()
		switch {
		case s.client.Engaged() == 0 && now.UnixNano()-s.served.Load() > int64(shadowQuiet):
			return true
		case !now.Before(s.rested):
			return false
		}
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			return false
		}
	}
}

// rest says how long copies rest after one that was computed here, so that they get their share of the time. Only the goroutine that computes copies calls it.
func (s *shadows) rest(began time.Time, share float64) {
	now := time.Now()
	s.rested = now.Add(time.Duration(float64(now.Sub(began)) * (1/share - 1)))
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
