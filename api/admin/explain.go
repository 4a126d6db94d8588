package admin

import (
	"fmt"
	"net/http"
	"time"

	"weir/router"
)

// explanation is a request as GET /admin/explain shows it: what became of it at each of the servers that were asked,
// and what each pick has looked at.
type explanation struct {
	requestView

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
	TokensAhead int     `json:"tokens_ahead"`
	Load        int     `json:"load"` // requests
	KVShare     float64 `json:"kv_share"`
	Cost        float64 `json:"cost"` // of the policy prefix, in seconds; of others, the load
	Session     bool    `json:"session_home,omitempty"`
	Gated       bool    `json:"gated,omitempty"`
	Waits       bool    `json:"waits_for_slot,omitempty"`
}

// explain answers GET /admin/explain?request=ID.
func (c Config) explain(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	found := c.Journal.entries(func(e *Entry) bool { return e.named(id) })
	if len(found) == 0 {
		write(w, http.StatusNotFound, map[string]string{"error": fmt.Sprintf(
			"no request %.128q runs, nor is it among the last %d that ended; GET /admin/requests lists them", id, pastEntries)})
		return
	}
	views, err := c.views(r.Context(), found[:1])
	if err != nil && found[0].Status == 0 {
		write(w, http.StatusServiceUnavailable, map[string]any{"error": err.Error(), "request": views[0]})
		return
	}
	answer := explanation{requestView: views[0], Tried: []attemptView{}}
	for _, a := range found[0].Tried {
		answer.Tried = append(answer.Tried, attemptOf(a))
	}
	write(w, http.StatusOK, answer)
}

func attemptOf(a *router.Attempt) attemptView {
	v := attemptView{Replica: a.Replica, Reason: a.Reason, Began: a.Began, Seconds: a.Took.Seconds(), Status: a.Status, Failed: a.Failed, Considered: []candidateView{}}
	for _, c := range a.Considered {
		v.Considered = append(v.Considered, candidateView{
			Replica: c.Replica, Picked: c.Replica == a.Replica, CachedKeys: c.Keys, NewTokens: c.Tokens, TokensAhead: c.Ahead, Load: c.Load, KVShare: c.KVShare,
			Cost: c.CostSeconds, Session: c.Session, Gated: c.Gated, Waits: c.Waits,
		})
	}
	return v
}
