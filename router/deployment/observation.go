package deployment

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// State is where a server is on the way to what is wanted.
type State string

// The states.
const (
	Pending    State = "pending"     // it has not begun
	Pulling    State = "pulling"     // files are on their way
	Verifying  State = "verifying"   // files are compared with their digests
	Loading    State = "loading"     // into memory
	RollingOut State = "rolling_out" // a share of the requests gets the version
	Serving    State = "serving"     // the version answers
	RolledBack State = "rolled_back" // the rollout took the version back: the one before answers
	Failed     State = "failed"      // it goes on trying
	Elsewhere  State = "elsewhere"   // the server has no part in this model
	Unfit      State = "unfit"       // it cannot have one: its labels are others, or its memory is too small
)

// Observation is what a server says of a deployment.
type Observation struct {
	Model      string    `json:"model"`
	Instance   string    `json:"instance"`   // the server, by its address
	Generation int64     `json:"generation"` // of the record that it acts on
	State      State     `json:"state"`
	Answers    string    `json:"answers,omitempty"` // label of the version that requests get
	Why        string    `json:"why,omitempty"`     // it is not yet as it is wanted
	Standby    bool      `json:"standby,omitempty"` // it has no part and takes one that comes free
	DoneBytes  int64     `json:"done_bytes,omitempty"`
	TotalBytes int64     `json:"total_bytes,omitempty"`
	Answered   int       `json:"answered_questions,omitempty"` // of the check of the version
	Questions  int       `json:"questions,omitempty"`          // that the check asks at most
	Warm       []string  `json:"warm,omitempty"`               // labels of the versions in memory beside the one that answers
	Since      time.Time `json:"since"`                        // the state
}

// Difference is why a server is not as a record wants it; empty: it is.
func (r *Record) Difference(o *Observation) string {
	switch {
	case o.Generation == 0 && o.State == Pending:
		return o.Why
	case o.Generation != r.Generation:
		return fmt.Sprintf("acts on generation %d of %d", o.Generation, r.Generation)
	case o.State == Elsewhere, o.State == Unfit:
		return ""
	case o.State == Serving:
		return o.Why // a version that shall be warm may not be
	}
	text := string(o.State)
	switch o.State {
	case RollingOut:
		text = "rolling out"
	case RolledBack:
		text = "rolled back"
	default:
	}
	if o.TotalBytes > 0 && (o.State == Pulling || o.State == Verifying) {
		text += fmt.Sprintf(" %d %%", 100*min(o.DoneBytes, o.TotalBytes)/o.TotalBytes)
	}
	if o.Why != "" {
		text += ": " + o.Why
	}
	if o.Questions > 0 {
		text += fmt.Sprintf(" (%d of at most %d questions)", o.Answered, o.Questions)
	}
	return text
}

// Await adds servers whose lease stands and that have said nothing of a deployment yet to what others have said of it.
func Await(seen []Observation, servers []Server, model string) []Observation {
	said := make(map[string]bool)
	for i := range seen {
		said[seen[i].Instance] = true
	}
	for i := range servers {
		d := &servers[i]
		if !d.Draining && !said[d.Instance] {
			said[d.Instance] = true
			seen = append(seen, Observation{Model: model, Instance: d.Instance, State: Pending, Why: "it has not looked at the deployment yet"})
		}
	}
	slices.SortFunc(seen, func(a, b Observation) int { return strings.Compare(a.Instance, b.Instance) })
	return seen
}

// IsFinal reports whether each server has said what happens to a generation there, and nothing is left to wait for. Where none computes
// the model it is not: one that does may be on its way.
func IsFinal(seen []Observation, generation int64) bool {
	final := false
	for i := range seen {
		o := &seen[i]
		switch o.State {
		case Serving, RolledBack, Failed, Unfit:
			final = true
		case Elsewhere:
		case Pending, Pulling, Verifying, Loading, RollingOut:
			return false
		}
		if o.Standby || o.Generation != generation {
			return false
		}
	}
	return final
}

// Summary is where a deployment stands over all servers, in a word.
type Summary string

// The summaries, the worst first.
const (
	Degraded    Summary = "degraded"    // a server failed, or the version was taken back
	Progressing Summary = "progressing" // a server is on its way
	Ready       Summary = "ready"       // all servers with a part in the model answer as it is wanted
	Unserved    Summary = "unserved"    // no server has a part in the model: none computes it or has a choice where it goes
)

// Summarise says where a record stands, and for each server that is not as it is wanted why.
func (r *Record) Summarise(seen []Observation) (Summary, []string) {
	var why []string
	parts, worst := 0, Ready
	for i := range seen {
		o := &seen[i]
		if o.hasPart() {
			parts++
		}
		text := r.Difference(o)
		if text == "" {
			continue
		}
		why = append(why, o.Instance+": "+text)
		if o.State == Failed || o.State == RolledBack || o.State == Serving && o.Generation == r.Generation {
			worst = Degraded
		} else if worst == Ready {
			worst = Progressing
		}
	}
	if len(seen) == 0 {
		return Progressing, []string{"no server has looked at it yet"}
	}
	slices.SortFunc(why, strings.Compare)
	if short, text := r.short(seen, parts); len(text) > 0 {
		if short == Degraded || worst == Ready {
			worst = short
		}
		why = append(text, why...)
	}
	if parts == 0 && worst != Progressing {
		worst = Unserved
	}
	return worst, why
}

// hasPart reports whether a server computes the model, or will.
func (o *Observation) hasPart() bool {
	return o.State != Elsewhere && o.State != Unfit && o.State != Pending
}

// short says why fewer servers have a part than are wanted, and whether one is about to take it.
func (r *Record) short(seen []Observation, parts int) (Summary, []string) {
	least := max(r.Placement.count(), 1)
	if parts >= least {
		return Ready, nil
	}
	var why []string
	if r.Placement.count() > 0 {
		why = append(why, fmt.Sprintf("%d of %d replicas have a server", parts, least))
	}
	state, others := Degraded, []string{}
	for i := range seen {
		o := &seen[i]
		switch {
		case o.Generation != r.Generation: // Difference says so
			state = Progressing
			continue
		case o.State == Pending: // as above
			state = Progressing
			continue
		case o.hasPart() || o.Why == "":
			continue
		case o.Standby: // the holder has gone since it looked
			state = Progressing
		}
		others = append(others, o.Instance+": "+o.Why)
	}
	slices.SortFunc(others, strings.Compare)
	return state, append(why, others...)
}
