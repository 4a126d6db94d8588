package admin

import (
	"net/http"
	"time"

	"weir/router"
)

// explanation is a request as GET /admin/explain shows it: what happened to it at each of the servers that were asked,
// and what each pick has looked at.
type explanation struct {
	requestView

	Life  []lifeView    `json:"life"`                       // of each prompt, up to 8
	More  int           `json:"prompts_left_out,omitempty"` // of Life
	Tried []attemptView `json:"tried"`
}

type attemptView struct {
	Replica    string          `json:"replica"`
	Reason     string          `json:"reason"`
	Began      time.Time       `json:"began"`
	Seconds    float64         `json:"seconds"`
	Status     int             `json:"status,omitempty"`
	Failed     string          `json:"failed,omitempty"`
	Considered []candidateView `json:"considered"`
}

type candidateView struct {
	Replica     string  `json:"replica"`
	Picked      bool    `json:"picked,omitempty"`
	CachedKeys  int     `json:"cached_keys"` // blocks, or pieces of text
	NewTokens   int     `json:"uncached_tokens"`
	Fetched     int     `json:"fetched_tokens,omitempty"`
	TokensAhead int     `json:"tokens_ahead"`
	Load        int     `json:"load"` // requests
	KVShare     float64 `json:"kv_share"`
	Cost        float64 `json:"cost"` // of the policy prefix, in seconds; of others, the load
	Session     bool    `json:"session_home,omitempty"`
	Gated       bool    `json:"gated,omitempty"`
	Waits       bool    `json:"waits_for_slot,omitempty"`
	Excluded    string  `json:"excluded,omitempty"` // why the request must not go there
}

// explain answers GET /admin/explain?request=ID.
func (c Config) explain(w http.ResponseWriter, r *http.Request) {
	found, view, states, ok := c.one(w, r)
	if !ok {
		return
	}
	answer := explanation{requestView: view, Tried: []attemptView{}, Life: found.lives(statesOf(states, found.ID), time.Now())}
	if n := len(answer.Life); n == mostLives {
		answer.More = max(0, found.Prompts-n)
	}
	for _, a := range found.Tried {
		answer.Tried = append(answer.Tried, attemptOf(a))
	}
	write(w, http.StatusOK, answer)
}

func attemptOf(a *router.Attempt) attemptView {
	v := attemptView{Replica: a.Replica, Reason: a.Reason, Began: a.Began, Seconds: a.Took.Seconds(), Status: a.Status, Failed: a.Failed, Considered: []candidateView{}}
	for _, c := range a.Considered {
		v.Considered = append(v.Considered, candidateView{
			Replica: c.Replica, Picked: c.Replica == a.Replica, CachedKeys: c.Keys, NewTokens: c.Tokens, Fetched: c.Fetched, TokensAhead: c.Ahead, Load: c.Load, KVShare: c.KVShare,
			Cost: c.CostSeconds, Session: c.Session, Gated: c.Gated, Waits: c.Waits, Excluded: c.Excluded,
		})
	}
	return v
}
