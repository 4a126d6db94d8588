package admin

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"weir/api/admin/feed"
	"weir/internal/inference"
)

const eventsPath = "/admin/events"

// Bounds of what pages see of a server: pages at once, requests that run, and the last ones that have ended.
const (
	mostPages    = 16
	mostRunning  = 200
	mostEnded    = 30
	nowEvery     = time.Second
	mostNowNames = 100 // tenants, and rows of the queue
	mostHolders  = 8   // tenants of an engine
)

// EnginesFunc says how the engines are, with their steps since the last call.
type EnginesFunc func() []EngineNow

// EngineNow is one engine.
type EngineNow struct {
	Model         string    `json:"model"`
	Version       string    `json:"version"`
	Kind          string    `json:"kind"`    // llm, encoder, llamacpp
	Running       int       `json:"running"` // sequences
	Paused        int       `json:"paused"`
	Preempted     int       `json:"preempted"` // that wait to run again
	Waiting       int       `json:"waiting"`   // requests
	WaitingTokens int       `json:"waiting_tokens"`
	MaxSeqs       int       `json:"max_num_seqs"`
	BlockTokens   int       `json:"block_tokens"`
	KVBlocks      int       `json:"kv_blocks"`
	KVReferenced  int       `json:"kv_blocks_referenced"` // by sequences
	KVCached      int       `json:"kv_blocks_cached"`     // a prefix that no sequence uses
	KVFree        int       `json:"kv_blocks_free"`
	Holders       []holder  `json:"kv_holders"`         // the tenants whose requests hold most
	Target        float64   `json:"itl_target_seconds"` // 0: there is none
	Steps         []StepNow `json:"steps"`
	StepsLeft     int       `json:"steps_left_out,omitempty"` // older ones than those in Steps
}

// StepNow is a step: when it ended, in milliseconds since 1970; rows of prompts, of sequences that decode and of drafts; seconds that it
// took and that were expected.
type StepNow struct {
	At       int64   `json:"at"`
	Prefill  int     `json:"prefill"`
	Decode   int     `json:"decode"`
	Draft    int     `json:"draft,omitempty"`
	Seconds  float64 `json:"seconds"`
	Estimate float64 `json:"estimate,omitempty"`
}

// holder is how many KV blocks only the requests of a tenant hold. The last holder stands for all others, how many it says.
type holder struct {
	Tenant   string `json:"tenant"`
	Others   int    `json:"others,omitempty"`
	KVBlocks int    `json:"kv_blocks"`
}

// queueNow is what waits of a tenant in a class of a model.
type queueNow struct {
	Model   string  `json:"model"`
	Class   string  `json:"class"`
	Tenant  string  `json:"tenant"`
	Waiting int     `json:"waiting"`
	Tokens  int     `json:"prompt_tokens"`
	First   int     `json:"requests_ahead"` // of the first
	Last    int     `json:"requests_ahead_of_last"`
	Waits   string  `json:"waits_for"` // the first
	Oldest  float64 `json:"oldest_seconds"`
	Next    float64 `json:"expected_wait_seconds"`         // of the first; below 0: that cannot be told yet
	Longest float64 `json:"expected_wait_seconds_of_last"` // below 0: that cannot be told yet
	Debt    float64 `json:"fairness_debt_seconds"`
}

// now is what GET /admin/events sends every second.
type now struct {
	Time     time.Time     `json:"time"`
	Version  string        `json:"version"`
	Ready    bool          `json:"ready"`
	Why      string        `json:"why"`
	Engines  []EngineNow   `json:"engines"`
	Tenants  []tenantNow   `json:"tenants"`
	Queue    []queueNow    `json:"queue"`
	Running  int           `json:"running"` // requests, of which Requests has the oldest
	Requests []requestView `json:"requests"`
	Ended    []requestView `json:"ended"` // the newest first, refused ones too
	Trouble  string        `json:"engine_error,omitempty"`
}

// tenantNow is what a tenant has in the engines.
type tenantNow struct {
	Name     string  `json:"name"`
	Running  int     `json:"running"` // prompts
	Waiting  int     `json:"waiting"`
	KVBlocks int     `json:"kv_blocks"` // that only its requests hold
	Debt     float64 `json:"fairness_debt_seconds"`
}

// events is the handler of GET /admin/events.
func events(c Config) *feed.Feed {
	return feed.New(func(ctx context.Context) (any, error) { return nowOf(ctx, c), nil }, nowEvery, mostPages)
}

// nowOf looks at the server.
func nowOf(ctx context.Context, c Config) now {
	n := now{Time: time.Now(), Version: c.Version, Ready: true, Engines: c.Engines(), Tenants: []tenantNow{}}
	if c.Ready != nil {
		n.Ready, n.Why = c.Ready()
	}
	running, live, ended := c.Journal.latest(mostRunning, mostEnded)
	n.Running = running
	var states []State
	if c.States != nil {
		var err error
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		if states, err = c.States(ctx); err != nil {
			n.Trouble = "ask the engine: " + err.Error()
		}
	}
	n.Tenants, n.Queue = tenantsNow(states), queueOf(states)
	for i := range n.Engines {
		n.Engines[i].Holders = holders(states, n.Engines[i].Model, n.Engines[i].Version)
	}
	n.Requests, n.Ended = joined(live, states), joined(ended, nil)
	return n
}

// holders are the tenants that hold KV blocks of an engine.
func holders(states []State, model, version string) []holder {
	all := make(map[string]int)
	for i := range states {
		if s := &states[i]; s.KVBlocks > 0 && s.Model == model && s.Version == version {
			all[s.Tenant] += s.KVBlocks
		}
	}
	list := make([]holder, 0, len(all))
	for tenant, blocks := range all {
		list = append(list, holder{Tenant: tenant, KVBlocks: blocks})
	}
	slices.SortFunc(list, func(a, b holder) int {
		return cmp.Or(cmp.Compare(b.KVBlocks, a.KVBlocks), cmp.Compare(a.Tenant, b.Tenant))
	})
	if len(list) <= mostHolders {
		return list
	}
	rest := holder{Others: len(list) - mostHolders + 1}
	for _, h := range list[mostHolders-1:] {
		rest.KVBlocks += h.KVBlocks
	}
	return append(list[:mostHolders-1], rest)
}

// queueOf adds up what waits, by model, class and tenant, those whose turn comes first in front.
func queueOf(states []State) []queueNow {
	type key struct {
		model, tenant string
		class         inference.Class
	}
	all := make(map[key]*queueNow)
	for i := range states {
		s := &states[i]
		if s.Phase != inference.PhaseWaiting {
			continue
		}
		k := key{s.Model, s.Tenant, s.Class}
		q := all[k]
		if q == nil {
			q = &queueNow{Model: s.Model, Class: s.Class.String(), Tenant: s.Tenant, First: s.Ahead + 1, Last: -1}
			all[k] = q
		}
		q.add(s)
	}
	list := make([]queueNow, 0, len(all))
	for q := range maps.Values(all) {
		list = append(list, *q)
	}
	slices.SortFunc(list, func(a, b queueNow) int {
		return cmp.Or(cmp.Compare(a.Model, b.Model), cmp.Compare(a.First, b.First), cmp.Compare(a.Class, b.Class), cmp.Compare(a.Tenant, b.Tenant))
	})
	return list[:min(len(list), mostNowNames)]
}

// add counts a request that waits.
func (q *queueNow) add(s *State) {
	wait := -1.0
	if s.Known {
		wait = s.Wait.Seconds()
	}
	q.Waiting++
	q.Tokens += s.PromptTokens
	q.Oldest, q.Debt = max(q.Oldest, s.Queue.Seconds()), max(q.Debt, s.Debt.Seconds())
	if s.Ahead < q.First {
		q.First, q.Waits, q.Next = s.Ahead, s.Cause.String(), wait
	}
	if s.Ahead > q.Last {
		q.Last, q.Longest = s.Ahead, wait
	}
}

// tenantsNow adds up what the requests of each tenant have, those with the most KV blocks first.
func tenantsNow(states []State) []tenantNow {
	all := make(map[string]*tenantNow)
	for i := range states {
		s := &states[i]
		t := all[s.Tenant]
		if t == nil {
			t = &tenantNow{Name: s.Tenant}
			all[s.Tenant] = t
		}
		t.KVBlocks += s.KVBlocks
		t.Debt = max(t.Debt, s.Debt.Seconds())
		if s.Phase == inference.PhaseWaiting {
			t.Waiting++
		} else {
			t.Running++
		}
	}
	list := make([]tenantNow, 0, len(all))
	for t := range maps.Values(all) {
		list = append(list, *t)
	}
	slices.SortFunc(list, func(a, b tenantNow) int {
		return cmp.Or(cmp.Compare(b.KVBlocks, a.KVBlocks), cmp.Compare(a.Name, b.Name))
	})
	return list[:min(len(list), mostNowNames)]
}
