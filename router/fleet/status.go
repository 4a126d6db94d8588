package fleet

import (
	"cmp"
	"time"

	"weir/router"
	"weir/router/balance"
)

// Status is a replica as the fleet sees it.
type Status struct {
	ID      string
	Kind    Kind
	Role    Role
	Zone    string
	Region  string
	Model   string // its name of the model
	State   State
	Why     string    // of a state other than Ready
	Since   time.Time // of the state
	Breaker string    // closed, half-open, open

	Running  int              // requests that were sent there and have not ended
	Requests int64            // since it was added
	Faults   map[string]int64 // as above, by kind; those that never came are left out
	Untold   int64            // tokens of its answers that were counted here, because it did not tell them
	Rests    time.Duration    // for so long it has asked for no requests; 0: it has not

	Said   router.Report // of its load; negative numbers are unknown
	SaidAt time.Time

	PrefillSeconds float64 // expected, of a prompt token; 0 where no replica has the role prefill

	Balance balance.Status
	Events  *EventsStatus // of KV events; nil: they are not followed
}

// EventsStatus is how the KV events of a replica are followed.
type EventsStatus struct {
	Whole     bool   `json:"whole"`            // all that the engine has cached is known
	Blocks    int    `json:"blocks"`           // that it has cached, as far as is known
	Unread    int    `json:"unread,omitempty"` // blocks that cannot be followed: pictures, other adapters
	Batches   int64  `json:"batches"`          // that were read
	Relearned int64  `json:"learned_anew"`     // how often the cache was relearned, the first time among them
	Failing   string `json:"failing,omitempty"`
}

// Status lists the replicas by their ids.
func (f *Fleet) Status() []Status {
	numbered := make(map[balance.ReplicaID]balance.Status)
	for _, b := range f.balancer.Status(time.Now()) {
		numbered[b.ID] = b
	}
	members, pools := f.members.Load().list, f.members.Load().pools
	list := make([]Status, len(members))
	for i, r := range members {
		breaker := r.breaker.Load().State().String() // may call back, so that no lock is held
		r.mu.Lock()
		list[i] = Status{
			ID: r.id, Kind: r.target.Kind, Role: cmp.Or(r.target.Role, Both), Zone: r.target.Zone, Region: r.target.Region, Model: r.model, State: r.state, Why: r.why, Since: r.since,
			Breaker: breaker, Said: r.said, SaidAt: r.saidAt,
		}
		if r.fed != nil {
			told := *r.fed
			list[i].Events = &told
		}
		r.mu.Unlock()
		s := &list[i]
		s.Running, s.Requests, s.Faults, s.Balance = int(r.running.Load()), r.counts.requests.Load(), r.counts.byName(), numbered[r.number]
		s.Untold = r.counts.untold.Load()
		if pools {
			s.PrefillSeconds = s.Balance.Prefill.Seconds()
		}
		s.Rests = max(time.Until(time.Unix(0, r.rests.Load())), 0)
	}
	return list
}

// byName are the faults that came, by the names of metrics.
func (c *replicaCounts) byName() map[string]int64 {
	list := make(map[string]int64)
	for f := Unreachable; f < numFaults; f++ {
		if n := c.faults[f].Load(); n > 0 {
			list[f.String()] = n
		}
	}
	return list
}

// Counts are those of a fleet since its start.
type Counts struct {
	Picks   map[string]int64 // by the kind of the reason
	Retries int64            // attempts after a failure
	Spills  int64            // attempts after a refusal
	Resumed int64            // streams that went on at another replica
	None    int64            // picks that found no replica
	// Displaced are those of None that found others than those of the tenant's residency.
	Displaced int64
	Prefills  map[string]int64 // what happened to long prompts' prefixes; nil where no replica has the role prefill
}

// Counts may be called at any time.
func (f *Fleet) Counts() Counts {
	c := &f.counts
	picks := make(map[string]int64, len(c.picks))
	for why := range c.picks {
		picks[whyNames[why]] = c.picks[why].Load()
	}
	var prefills map[string]int64
	if f.members.Load().pools {
		prefills = make(map[string]int64, len(c.prefills))
		for outcome := range c.prefills {
			prefills[prefillNames[outcome]] = c.prefills[outcome].Load()
		}
	}
	return Counts{Prefills: prefills, Picks: picks, Retries: c.retries.Load(), Spills: c.spills.Load(), Resumed: c.resumed.Load(), None: c.none.Load(), Displaced: c.displaced.Load()}
}

// whyNames are the kinds of reasons as metrics have them.
var whyNames = [balance.Only + 1]string{
	balance.ByPolicy: "policy", balance.ByPrefix: "prefix", balance.ByLoad: "load", balance.BySession: "session", balance.ByGate: "gate", balance.Only: "only",
}
