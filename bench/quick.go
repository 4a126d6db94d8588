package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Quick looks for the most users at once that a server keeps two goals for. A user sends a request, reads its answer
// and sends the next one. The goals hold where 9 of 10 requests are within both.
type Quick struct {
	Target  *Target // with an empty Endpoint chats are tried, then completions; with an empty Model the server's first counts
	TTFT    time.Duration
	PerUser float64 // output tokens per second of an answer, after its first

	Input, Output int           // tokens of prompts and, on average, of answers
	Duration      time.Duration // of all steps together
	MostUsers     int
	Seed          uint64   // the same seed sends the same prompts, which a prefix cache may hold
	MetricsURLs   []string // pages that may be the server's, in Prometheus' format; the first counts that sees the load. Only the first gets the key

	Progress func(QuickStep) // called after each step; may be nil

	scale Scale
	sent  atomic.Int64
	trip  float64 // seconds of a request that computes nothing
	page  string  // of MetricsURLs: the one that counts
}

// Bounds of a step.
const (
	quickShortest = 2 * time.Second // a step takes as long, at least
	quickLeast    = 4 * time.Second // that a step may take, at least
	quickPause    = 200 * time.Millisecond
	quickLoad     = time.Minute // that a server may need to load its model
)

// QuickReport is what a run found.
type QuickReport struct {
	Users int  // the most that the goals held for; 0: not even one
	Open  bool // more may have room: no step missed the goals
	Bound Bound
	Steps []QuickStep // by users

	Model, Endpoint string
	Input, Output   int
	TTFT            time.Duration
	PerUser         float64
}

// Check fills in fields that are empty and refuses values that cannot work.
func (q *Quick) Check() error {
	switch {
	case q.TTFT <= 0:
		return fmt.Errorf("the goal for the first token is %v, must be above 0", q.TTFT)
	case !(q.PerUser > 0):
		return fmt.Errorf("the goal is %g tokens per second, must be above 0", q.PerUser)
	case q.Duration < quickLeast:
		return fmt.Errorf("the time is %v, must be at least %v", q.Duration, quickLeast)
	case q.MostUsers < 1 || q.MostUsers > maxUsers:
		return fmt.Errorf("%d users, must be 1 to %d", q.MostUsers, maxUsers)
	}
	if err := errors.Join(checkLen("prompt length", q.Input, 1), checkLen("answer length", q.Output, 8)); err != nil {
		return err
	}
	endpoint := q.Target.Endpoint
	q.Target.Endpoint = cmp.Or(endpoint, EndpointChat)
	err := q.Target.Check()
	q.Target.Endpoint = endpoint
	return err
}

// maxUsers bounds the connections of a run.
const maxUsers = 4096

// Run measures. The error says why there is nothing to measure.
func (q *Quick) Run(ctx context.Context) (*QuickReport, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	if err := q.meet(ctx); err != nil {
		return nil, err
	}
	deadline := time.Now().Add(q.Duration)
	search := quickSearch{most: q.MostUsers}
	var steps []QuickStep
	for {
		users, more := search.next()
		left := time.Until(deadline)
		if !more || left < quickShortest {
			break
		}
		step := q.step(ctx, users, max(min(left, quickLeast), left/6), steps)
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("stopped after %d steps: %w", len(steps), err)
		}
		steps = append(slices.DeleteFunc(steps, func(s QuickStep) bool { return s.Users == users }), step)
		search.note(users, step.Holds)
		if q.Progress != nil {
			q.Progress(step)
		}
	}
	slices.SortFunc(steps, func(a, b QuickStep) int { return a.Users - b.Users })
	r := &QuickReport{
		Users: search.good, Open: search.bad == 0, Steps: steps, Model: q.Target.Model, Endpoint: q.Target.Endpoint,
		Input: q.Input, Output: q.Output, TTFT: q.TTFT, PerUser: q.PerUser,
	}
	r.Bound = q.bound(r, search.bad)
	return r, nil
}

// quickSearch doubles the users until the goals do not hold, then halves the gap. A gap of an eighth is left. What then bounds the search
// is measured once more: a moment in which the machine did something else must not decide.
type quickSearch struct {
	good, bad int // the most users that the goals held for, and the fewest that they did not hold for; 0: none
	most      int
	again     int // bad, once it was measured again
}

func (s *quickSearch) next() (users int, more bool) {
	switch {
	case s.bad == 0 && s.good >= s.most:
		return 0, false
	case s.bad == 0:
		return min(max(1, 2*s.good), s.most), true
	case s.bad-s.good > max(1, s.good/8):
		return (s.good + s.bad) / 2, true
	case s.again == s.bad:
		return 0, false
	}
	s.again = s.bad
	return s.bad, true
}

func (s *quickSearch) note(users int, holds bool) {
	switch {
	case !holds:
		s.bad = users
	case users >= s.bad:
		s.good, s.bad = users, 0
	default:
		s.good = max(s.good, users)
	}
}

// meet finds the model and the form of requests that the server takes, and how it counts tokens.
func (q *Quick) meet(ctx context.Context) error {
	t := q.Target
	models, err := t.Models(ctx)
	switch {
	case err == nil && t.Model == "":
		t.Model = models[0].ID
	case err != nil && (t.Model == "" || !isStatus(err, http.StatusNotFound)):
		return q.explain(err)
	}
	if err := q.chooseForm(ctx); err != nil {
		if isStatus(err, http.StatusBadRequest, http.StatusNotFound) && len(models) > 1 {
			var names []string
			for _, m := range models {
				names = append(names, m.ID)
			}
			return fmt.Errorf("%w; --model names another of the server's models: %s", q.explain(err), strings.Join(names[:min(len(names), 10)], ", "))
		}
		return q.explain(err)
	}
	if q.scale, err = t.Calibrate(ctx); err != nil {
		q.scale = Scale{} // a server that does not count gets as many words
	}
	began := time.Now()
	if _, err := t.Models(ctx); err == nil {
		q.trip = time.Since(began).Seconds()
	}
	return nil
}

// chooseForm finds a form of requests that the server takes, and waits until its model is loaded.
func (q *Quick) chooseForm(ctx context.Context) error {
	t, first := q.Target, error(nil)
	endpoints := []string{t.Endpoint}
	if t.Endpoint == "" {
		endpoints = []string{EndpointChat, EndpointCompletions}
	}
	for _, t.Endpoint = range endpoints {
		for _, t.IgnoreEOS = range []bool{true, false} {
			probe := Request{Prompt: "once upon a time", OutputTokens: 1}
			err := t.WaitReady(ctx, quickLoad, &probe)
			if err == nil || !isStatus(err, http.StatusBadRequest, http.StatusNotFound, http.StatusUnprocessableEntity, http.StatusNotImplemented) {
				return err
			}
			first = cmp.Or(first, err)
		}
	}
	return first
}

// isStatus reports whether a server has answered with one of the statuses.
func isStatus(err error, statuses ...int) bool {
	var status *statusError
	return errors.As(err, &status) && slices.Contains(statuses, status.status)
}

// explain adds the way out to the errors that a first try meets.
func (q *Quick) explain(err error) error {
	switch {
	case isStatus(err, http.StatusUnauthorized, http.StatusForbidden) && q.Target.APIKey == "":
		return fmt.Errorf("%w; the server asks for a key: give --api-key, or set WEIR_API_KEY", err)
	case isStatus(err, http.StatusUnauthorized, http.StatusForbidden):
		return fmt.Errorf("%w; the server does not take this key: give another one with --api-key", err)
	case isStatus(err, http.StatusServiceUnavailable):
		return fmt.Errorf("%w; the server is not ready: try again once its model is loaded", err)
	case NotYet(err):
		return fmt.Errorf("no server at %s: %w; start one (weir serve MODEL), or name it with --base-url", q.Target.BaseURL, err)
	}
	return err
}

// request is the next one. No two prompts of a run begin alike.
func (q *Quick) request() Request {
	i := int(q.sent.Add(1))
	w := Workload{Seed: q.Seed}
	words := q.scale.words(q.Input)
	return Request{Prompt: text(w.rand(streamPrompt, i), words), Words: words, OutputTokens: spread(w.rand(streamLength, i), q.Output, 0.5)}
}
