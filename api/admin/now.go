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
	mostNowNames = 100 // tenants
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

// now is what GET /admin/events sends every second.
type now struct {
	Time     time.Time     `json:"time"`
	Version  string        `json:"version"`
	Ready    bool          `json:"ready"`
	Why      string        `json:"why"`
	Engines  []EngineNow   `json:"engines"`
	Tenants  []tenantNow   `json:"tenants"`
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
	live := c.Journal.entries(func(e *Entry) bool { return e.Status == 0 })
	slices.SortFunc(live, func(a, b Entry) int { return a.Arrived.Compare(b.Arrived) })
	n.Running = len(live)
	var states []State
	if c.States != nil {
		var err error
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		if states, err = c.States(ctx); err != nil {
			n.Trouble = "ask the engine: " + err.Error()
		}
	}
	n.Tenants = tenantsNow(states)
	n.Requests = joined(live[:min(len(live), mostRunning)], states)
	ended := c.Journal.entries(func(e *Entry) bool { return e.Status != 0 })
	slices.SortFunc(ended, func(a, b Entry) int { return b.Finished.Compare(a.Finished) })
	n.Ended = joined(ended[:min(len(ended), mostEnded)], nil)
	return n
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
