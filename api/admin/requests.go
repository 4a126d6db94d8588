package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/inference"
)

// State is what one request does in its engine, by the engine's id of it: that of
// the Entry, with "-0", "-1" … behind it where the request has several prompts.
type State struct {
	ID string
	inference.State
	Queue, Prefill, Decode time.Duration // so far

	Model, Version string
	Life           Life          // what it has done; nil: that is not told
	Wait           time.Duration // until something of it is computed, as far as that can be told
	Known          bool          // Wait can be told
}

// Life says what a request has done in its engine.
type Life interface{ Lived() inference.Lived }

// StatesFunc asks the engines for the state of every live request. It waits for
// the end of a step, or until ctx ends.
type StatesFunc func(ctx context.Context) ([]State, error)

// askTimeout bounds how long a page of requests waits for the engines' answer: a
// step takes a second at most, unless the machine is in trouble.
const askTimeout = 5 * time.Second

// listed is how many requests a page shows, if the caller does not say.
const listed = 100

// requestView is a request as GET /admin/requests shows it.
type requestView struct {
	ID           string       `json:"id"`
	State        string       `json:"state"` // running, ended, refused
	Route        string       `json:"route,omitempty"`
	Model        string       `json:"model,omitempty"`
	Version      string       `json:"version,omitempty"`
	Arm          string       `json:"arm,omitempty"`
	Tenant       string       `json:"tenant"`
	Stream       bool         `json:"stream,omitempty"`
	Prompts      int          `json:"prompts,omitempty"`
	Choices      int          `json:"choices,omitempty"`
	Retries      int          `json:"client_retries,omitempty"`
	PromptTokens int          `json:"prompt_tokens,omitempty"`
	CachedTokens int          `json:"cached_tokens,omitempty"`
	OutputTokens int          `json:"output_tokens,omitempty"`
	Arrived      time.Time    `json:"arrived"`
	TTFT         float64      `json:"ttft_seconds,omitempty"`
	Age          float64      `json:"seconds"` // from arrival to the end, or until now
	Status       int          `json:"status,omitempty"`
	Code         string       `json:"code,omitempty"`
	Limit        string       `json:"limit,omitempty"` // of the tenant, that ended the answer
	Replica      string       `json:"replica,omitempty"`
	RouteReason  string       `json:"route_reason,omitempty"`
	Attempts     int          `json:"attempts,omitempty"`
	Moderation   []Finding    `json:"moderation,omitempty"`
	Engine       []engineView `json:"engine,omitempty"` // one per prompt
}

// engineView is what the engine says of one prompt of a request.
type engineView struct {
	ID          string  `json:"id"`
	Phase       string  `json:"phase"`
	WaitsFor    string  `json:"waits_for,omitempty"`
	Class       string  `json:"class"`
	Ahead       int     `json:"requests_ahead,omitempty"`
	Overtaken   int     `json:"overtaken,omitempty"`
	Debt        float64 `json:"fairness_debt_seconds"`
	Choices     int     `json:"choices"`
	Prompt      int     `json:"prompt_tokens"`
	Prefilled   int     `json:"prefill_tokens"`
	Cached      int     `json:"cached_tokens,omitempty"`
	Stateless   int     `json:"stateless_tokens,omitempty"` // whose blocks were cached, and no state of recurrent layers behind them
	Output      int     `json:"output_tokens"`
	KVBlocks    int     `json:"kv_blocks"`
	Preemptions int     `json:"preemptions,omitempty"`
	Gave        string  `json:"gave_way_to,omitempty"` // for what it is paused or preempted
	Wait        float64 `json:"expected_wait_seconds,omitempty"`
	Queue       float64 `json:"queue_seconds"`
	Prefill     float64 `json:"prefill_seconds"`
	Decode      float64 `json:"decode_seconds"`
}

// requests answers GET /admin/requests: the requests that run and the last that
// ended, as far as the query's tenant, model and state match.
func (c Config) requests(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	limit, err := limitOf(q)
	if err != nil {
		write(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
		return
	}
	found := c.Journal.entries(func(e *Entry) bool {
		return is(q, "tenant", e.Tenant) && is(q, "model", e.Model) && is(q, "state", e.state())
	})
	views, _, err := c.views(r.Context(), found[:min(limit, len(found))])
	answer := map[string]any{"requests": views, "matching": len(found)}
	if err != nil {
		answer["engine_error"] = err.Error()
	}
	write(w, http.StatusOK, answer)
}

// request answers GET /admin/requests/ID.
func (c Config) request(w http.ResponseWriter, r *http.Request) {
	if _, view, _, ok := c.one(w, r); ok {
		write(w, http.StatusOK, view)
	}
}

// one finds the request that the path names; where there is none, or what it does cannot be asked, one has answered.
func (c Config) one(w http.ResponseWriter, r *http.Request) (*Entry, requestView, []State, bool) {
	id := r.PathValue("id")
	found := c.Journal.entries(func(e *Entry) bool { return e.named(id) })
	if len(found) == 0 {
		write(w, http.StatusNotFound, map[string]string{"error": fmt.Sprintf(
			"no request %.128q runs, nor is it among the last %d that ended; GET /admin/requests lists them", id, pastEntries)})
		return nil, requestView{}, nil, false
	}
	views, states, err := c.views(r.Context(), found[:1])
	if err != nil && found[0].Status == 0 {
		write(w, http.StatusServiceUnavailable, map[string]any{"error": err.Error(), "request": views[0]})
		return nil, requestView{}, nil, false
	}
	return &found[0], views[0], states, true
}

func limitOf(q url.Values) (int, error) {
	text := q.Get("limit")
	if text == "" {
		return listed, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("limit is %.32q; it takes a whole number of at least 1", text)
	}
	return n, nil
}

func is(q url.Values, field, value string) bool { return !q.Has(field) || q.Get(field) == value }

func (e *Entry) state() string {
	switch {
	case e.Refused:
		return "refused"
	case e.Status != 0:
		return "ended"
	}
	return "running"
}

// views joins entries with what their engine says of them, if any runs. The error is
// the engine's; the views lack only its part then.
func (c Config) views(ctx context.Context, entries []Entry) ([]requestView, []State, error) {
	runs := slices.ContainsFunc(entries, func(e Entry) bool { return e.Status == 0 })
	if !runs || c.States == nil {
		return joined(entries, nil), nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	states, err := c.States(ctx)
	if err != nil {
		return joined(entries, nil), nil, fmt.Errorf("ask the engine: %w", err)
	}
	return joined(entries, states), states, nil
}

// joined are entries with what engines say of them.
func joined(entries []Entry, states []State) []requestView {
	slices.SortFunc(states, func(a, b State) int { return strings.Compare(a.ID, b.ID) })
	views := make([]requestView, len(entries))
	for i := range entries {
		v := entries[i].view(time.Now())
		own := statesOf(states, v.ID)
		for k := range own {
			v.Engine = append(v.Engine, own[k].view())
		}
		views[i] = v
	}
	return views
}

// statesOf are those of one request, of states that are sorted by id.
func statesOf(states []State, id string) (own []State) {
	first, _ := slices.BinarySearchFunc(states, id, func(s State, id string) int { return strings.Compare(s.ID, id) })
	for k := first; k < len(states) && strings.HasPrefix(states[k].ID, id); k++ {
		if len(states[k].ID) == len(id) || states[k].ID[len(id)] == '-' {
			own = append(own, states[k])
		}
	}
	return own
}

func (e *Entry) view(now time.Time) requestView {
	v := requestView{
		ID: e.ID, State: e.state(), Route: e.Route, Model: e.Model, Version: e.Version, Arm: e.Arm, Tenant: e.Tenant, Stream: e.Stream,
		Prompts: e.Prompts, Choices: e.Choices, Retries: e.Retries, PromptTokens: e.Prompt, CachedTokens: e.Cached, OutputTokens: e.Output,
		Arrived: e.Arrived, Status: e.Status, Code: e.Code, Limit: e.Limit, Replica: e.Replica, RouteReason: e.Reason, Attempts: e.Attempts,
		Moderation: e.Findings,
	}
	if !e.First.IsZero() {
		v.TTFT = e.First.Sub(e.Arrived).Seconds()
	}
	if !e.Finished.IsZero() {
		now = e.Finished
	}
	v.Age = now.Sub(e.Arrived).Seconds()
	return v
}

// expected is how long a waiting request will wait yet, in seconds; 0: it waits no more, or that cannot be told.
func (s *State) expected() float64 {
	if s.Phase != inference.PhaseWaiting || !s.Known {
		return 0
	}
	return s.Wait.Seconds()
}

func (s *State) view() engineView {
	return engineView{
		ID: s.ID, Phase: s.Phase.String(), WaitsFor: s.Cause.String(), Class: s.Class.String(), Ahead: s.Ahead, Overtaken: s.Overtaken,
		Debt: s.Debt.Seconds(), Choices: s.Choices, Prompt: s.PromptTokens, Prefilled: s.PrefillTokens, Cached: s.CachedTokens,
		Stateless: s.StatelessTokens, Output: s.OutputTokens, KVBlocks: s.KVBlocks, Preemptions: s.Preemptions,
		Gave: s.Gave.String(), Wait: s.expected(), Queue: s.Queue.Seconds(), Prefill: s.Prefill.Seconds(), Decode: s.Decode.Seconds(),
	}
}
