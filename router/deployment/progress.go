package deployment

import (
	"time"

	"weir/router/rollout"
)

// Progress is where the rollout of a record stands on all servers. Any of them may move it on: the first whose own requests
// have passed a step takes all to the next one, and the first that finds the candidate worse takes it back everywhere.
type Progress struct {
	Sequence int64         `json:"sequence"` // counts the changes
	State    rollout.State `json:"state"`
	Step     int           `json:"step"` // from 1
	By       string        `json:"by,omitempty"`
	Why      string        `json:"why,omitempty"`
	At       time.Time     `json:"at"`
}

// Place is what a rollout follows.
func (p *Progress) Place() rollout.Place {
	return rollout.Place{State: p.State, Step: p.Step, By: p.By, Why: p.Why}
}

// byGate is who changed a rollout where no operator did: its gates. What a gate cannot judge is a pause of one server alone.
const byGate = "gate"

// Move notes what a transition on one server is to all. false: nothing, because others have gone further, or because it is
// of another rollout or of this server alone. Then the server goes to where the record says.
func (r *Record) Move(t *rollout.Transition) (Record, bool) {
	if r.Rollout == "" || r.Rollout != t.ID {
		return *r, false
	}
	at := Progress{State: rollout.Running, Step: 1}
	if r.Progress != nil {
		at = *r.Progress
	}
	if !at.takes(t) {
		return *r, false
	}
	next := *r
	next.Progress = &Progress{Sequence: at.Sequence + 1, State: t.To, Step: t.Step, By: t.By, Why: t.Reason, At: t.At}
	return next, true
}

func (p *Progress) takes(t *rollout.Transition) bool {
	if p.State.Over() {
		return false
	}
	switch t.To {
	case rollout.RolledBack, rollout.Aborted:
		return true
	case rollout.Promoted:
		return t.Step >= p.Step
	case rollout.Paused:
		return t.By != byGate && t.Step >= p.Step && p.State != rollout.Paused
	case rollout.Running:
		return t.Step > p.Step || t.Step == p.Step && p.State == rollout.Paused
	case rollout.Replaced:
	}
	return false
}
