package rollout

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"weir/internal/unit"
)

// State is where a rollout stands.
type State string

// The states. From the last four no request gets the candidate by the rollout any more.
const (
	Running    State = "running"
	Paused     State = "paused" // an operator decides; after a pause by a gate the candidate has no users until then
	Promoted   State = "promoted"
	RolledBack State = "rolled_back" // by a gate
	Aborted    State = "aborted"     // by an operator
	Replaced   State = "replaced"    // it was promoted, and an operator has moved the name since
)

// Over reports whether no request gets the candidate by the rollout any more.
func (s State) Over() bool { return s != Running && s != Paused }

// Transition is a change of a rollout, for the audit log.
type Transition struct {
	ID      string    `json:"id"`
	Model   string    `json:"model"`
	At      time.Time `json:"at"`
	From    State     `json:"from"`
	To      State     `json:"to"`
	Step    int       `json:"step"`    // from 1
	Percent float64   `json:"percent"` // that the candidate answers from now on
	By      string    `json:"by"`      // who or which rule
	Reason  string    `json:"reason"`
	Harmed  int       `json:"harmed"` // requests so far that the candidate failed
}

// Decision is which version answers a request.
type Decision struct {
	Rollout string // the plan's ID
	Version string
	Arm     Arm
	Key     uint64 // of what gets the same arm
	Shadow  bool   // the candidate shall get a copy
}

// Rollout is the state machine of one plan. It belongs to one goroutine; a Controller
// guards those of a server.
type Rollout struct {
	plan    Plan
	budget  float64
	state   State
	step    int
	entered time.Time // the step, or the state
	began   time.Time
	why     string // of the state
	benched bool   // paused, and the candidate has no users
	arms    [numArms]series
	before  window // the stable version's outcomes in the steps before, for one in which it has none
	copies  copies
	copied  int // of the whole rollout
	spared  int // requests that the stable version was asked for in the candidate's place, since the process began
	seen    int // outcomes, copies and signals since the process began
	changes []Transition
	pending []Transition // not taken yet
}

// maxChanges is how many transitions a rollout remembers.
const maxChanges = 100

// Start begins a plan. Budget is the share of answers that may miss the objectives of the
// server; 0 switches the burn rate off.
func Start(p Plan, budget float64, now time.Time) (*Rollout, error) {
	p, err := p.WithDefaults()
	if err != nil {
		return nil, err
	}
	r := &Rollout{plan: p, budget: budget, state: Running, entered: now, began: now}
	for i := range r.arms {
		r.arms[i].began = now
	}
	r.note(now, Running, "operator", "started")
	return r, nil
}

// Plan is what the rollout does.
func (r *Rollout) Plan() Plan { return r.plan }

// State is where the rollout stands.
func (r *Rollout) State() State { return r.state }

// percent is the candidate's share now.
func (r *Rollout) percent() float64 {
	switch r.state {
	case Running, Paused:
		if r.benched {
			return 0
		}
		return r.plan.Steps[r.step].Percent
	case Promoted:
		return 100
	case RolledBack, Aborted, Replaced:
	}
	return 0
}

// Choose decides by the key of a request, which is the same for all requests that shall get
// the same arm. As the share grows, keys only join the candidate.
func (r *Rollout) Choose(key string) Decision {
	drawn := draw(r.plan.ID, "arm", key)
	d := Decision{Rollout: r.plan.ID, Version: r.plan.Stable, Key: drawn}
	if share(drawn) < r.percent()/100 {
		d.Version, d.Arm = r.plan.Candidate, Candidate
		return d
	}
	d.Shadow = r.state == Running && share(draw(r.plan.ID, "shadow", key)) < r.plan.Steps[r.step].Shadow/100
	return d
}

// leastSpared and spareShare bound how many requests are asked of both versions, so that a candidate which fails does not
// double the stable version's work for long: so many, and this share of all requests beyond them.
const (
	leastSpared = 100
	spareShare  = 0.2
)

func (r *Rollout) spare() bool {
	if float64(r.spared) >= leastSpared+spareShare*float64(r.arms[Stable].total.N+r.arms[Candidate].total.N) {
		return false
	}
	r.spared++
	return true
}

// draw is a number that depends on nothing but its arguments.
func draw(id, what, key string) uint64 {
	h := sha256.Sum256([]byte(id + "\x00" + what + "\x00" + key))
	return binary.BigEndian.Uint64(h[:8])
}

// share is a drawn number as one from 0 to below 1.
func share(drawn uint64) float64 { return float64(drawn>>11) / (1 << 53) }

// Observe takes in what happened to a request.
func (r *Rollout) Observe(now time.Time, o *Outcome) {
	if r.state.Over() || o.Arm >= numArms {
		return
	}
	r.seen++
	r.arms[o.Arm].add(now, o)
	if o.Arm == Candidate {
		r.guard(now)
	}
}

// Compare takes in what happened to a copy.
func (r *Rollout) Compare(now time.Time, c *Copied) {
	if r.state != Running {
		return
	}
	r.seen++
	r.copies.add(c)
	r.copied++
	if j := r.plan.Gates.judgeCopies(&r.copies); j.verdict == bad {
		r.end(now, RolledBack, "gate", j.why)
	}
}

// guard takes the candidate back where it is worse, of late or in all of the step.
func (r *Rollout) guard(now time.Time) {
	recent, was := r.arms[Candidate].last(), r.arms[Stable].last()
	if was.N < leastJudged { // at a share of nearly all, it has few
		was = r.reference()
	}
	for _, j := range []verdictReason{
		r.plan.Gates.judge(comparison{was, recent, surer, r.level()}, r.budget),
		r.plan.Gates.judge(r.pair(), r.budget),
		r.judgeSignals(),
	} {
		if j.verdict == bad {
			r.end(now, RolledBack, "gate", j.why)
			return
		}
	}
}

func (r *Rollout) judgeSignals() verdictReason {
	return r.plan.Gates.judgeSignals(&r.arms[Stable].step, &r.arms[Candidate].step)
}

// pair is what the step has seen.
func (r *Rollout) pair() comparison {
	return comparison{r.reference(), &r.arms[Candidate].step, sure, r.level()}
}

// level reports whether the candidate has at least as many requests at once as the stable
// version: fewer would cost more each, however good it is.
func (r *Rollout) level() bool { return r.percent() >= 50 }

// reference is what the candidate is compared with: the stable version's answers in this
// step, and where they are few those of the steps before.
func (r *Rollout) reference() *window {
	w := r.arms[Stable].step
	if w.N < leastReference {
		w.merge(&r.before)
	}
	return &w
}

// leastReference is how many answers of the stable version a step must have to be compared
// with alone.
const leastReference = 30

// tell takes in a later word about an answer of an arm and a step, by what it adds.
func (r *Rollout) tell(now time.Time, arm Arm, step int, kind SignalKind, more boundedStats) {
	if r.state.Over() {
		return
	}
	r.seen++
	r.arms[arm].signal(kind, step == r.step, more)
	r.guard(now)
}

// Alarm takes the candidate back for what another part has found: "drift", "burn rate".
func (r *Rollout) Alarm(now time.Time, rule, why string) {
	if r.state.Over() || rule == DriftRule && r.plan.Gates.Drift < 0 {
		return
	}
	r.end(now, RolledBack, rule, why)
}

// DriftRule is the rule of alarms that features or scores of the candidate drift.
const DriftRule = "drift"

// Tick goes on to the next step where this one is over, and pauses where nothing can be
// told. Its owner calls it every second or so.
func (r *Rollout) Tick(now time.Time) {
	if r.state != Running {
		return
	}
	for i := range r.arms {
		r.arms[i].turn(now)
	}
	step, since := &r.plan.Steps[r.step], now.Sub(r.entered)
	seen := r.arms[Candidate].step.N
	if step.Percent == 0 {
		seen = r.copies.N
	}
	j := r.judgeStep()
	switch {
	case j.verdict == bad:
		r.end(now, RolledBack, "gate", j.why)
	case since >= time.Duration(step.MinTime) && seen >= step.MinRequests && j.verdict == good:
		r.advance(now)
	case since >= time.Duration(step.MaxTime):
		why := j.why
		if seen < step.MinRequests {
			why = fmt.Sprintf("%d of %d requests came", seen, step.MinRequests)
		}
		r.benched = true
		r.set(now, Paused, "gate", fmt.Sprintf("step %d cannot be judged within %s: %s; the stable version answers all requests until an operator decides",
			r.step+1, unit.Duration(time.Duration(step.MaxTime).Round(time.Second)), why))
	}
}

// judgeStep judges all that the step has seen.
func (r *Rollout) judgeStep() verdictReason {
	step := &r.plan.Steps[r.step]
	j := verdictReason{verdict: good}
	if step.Percent > 0 {
		j = r.plan.Gates.judge(r.pair(), r.budget)
	}
	if step.Shadow > 0 && j.verdict == good {
		j = r.plan.Gates.judgeCopies(&r.copies)
	}
	if j.verdict == good {
		j = r.judgeSignals()
	}
	if r.step == r.plan.goalStep() && j.verdict == good {
		kind := r.plan.Goal.Signal
		j = r.plan.Goal.judge(r.arms[Stable].step.Signals[kind], r.arms[Candidate].step.Signals[kind])
	}
	return j
}

// advance enters the next step, or ends the rollout well.
func (r *Rollout) advance(now time.Time) {
	passed := r.step + 1
	if passed == len(r.plan.Steps) {
		if r.plan.Compare {
			r.set(now, Paused, "plan", "the comparison is complete: promote or abort")
			return
		}
		r.end(now, Promoted, "plan", "all steps passed")
		return
	}
	r.enter(now, passed)
	r.note(now, Running, "plan", fmt.Sprintf("step %d passed", passed))
}

// enter begins a step.
func (r *Rollout) enter(now time.Time, step int) {
	r.step, r.entered = step, now
	r.before.merge(&r.arms[Stable].step)
	for i := range r.arms {
		r.arms[i].step, r.arms[i].denied = window{}, nil
	}
	r.benched = false
	r.copies = copies{}
}

func (r *Rollout) set(now time.Time, to State, by, why string) {
	r.note(now, to, by, why)
	r.state, r.entered, r.why = to, now, why
}

func (r *Rollout) end(now time.Time, to State, by, why string) { r.set(now, to, by, why) }

// note remembers a transition.
func (r *Rollout) note(now time.Time, to State, by, why string) {
	before := r.state
	r.state = to
	t := Transition{
		ID: r.plan.ID, Model: r.plan.Model, At: now, From: before, To: to, Step: r.step + 1, Percent: r.percent(), By: by, Reason: why,
		Harmed: r.arms[Candidate].harmed,
	}
	r.state = before
	r.changes = append(r.changes, t)
	if len(r.changes) > maxChanges {
		r.changes = r.changes[1:]
	}
	r.pending = append(r.pending, t)
}

// Take gives the transitions since the last call, for the owner that applies them. A Controller is the owner of what it was given.
func (r *Rollout) Take() []Transition {
	list := r.pending
	r.pending = nil
	return list
}

// ErrOver says that a rollout has ended.
var ErrOver = errors.New("the rollout is over")

// Promote lets the candidate answer everything, whatever the gates say.
func (r *Rollout) Promote(now time.Time, by string) error {
	return r.decide(now, Promoted, by, "promoted")
}

// Abort takes the candidate back at once.
func (r *Rollout) Abort(now time.Time, by, why string) error { return r.decide(now, Aborted, by, why) }

// Replace ends what the rollout says of its name, because an operator has given that to a version: a promotion says nothing any more,
// and neither does a candidate that was taken back and has the name now.
func (r *Rollout) Replace(now time.Time, label, by string) error {
	switch {
	case r.state == Promoted:
		r.set(now, Replaced, by, "the name was moved to another version")
	case (r.state == RolledBack || r.state == Aborted) && label == r.plan.Candidate:
		r.set(now, Replaced, by, "the name was moved to the candidate")
	default:
		return fmt.Errorf("%w without a promotion: it is %s", ErrOver, r.state)
	}
	return nil
}

// Pause keeps the share as it is. Gates go on taking the candidate back.
func (r *Rollout) Pause(now time.Time, by string) error { return r.decide(now, Paused, by, "paused") }

// Resume begins the step over.
func (r *Rollout) Resume(now time.Time, by string) error {
	if r.state != Paused {
		return fmt.Errorf("%w, or it runs: it is %s", ErrOver, r.state)
	}
	r.enter(now, r.step)
	r.set(now, Running, by, "resumed")
	r.why = ""
	return nil
}

func (r *Rollout) decide(now time.Time, to State, by, why string) error {
	if r.state.Over() {
		return fmt.Errorf("%w: it is %s", ErrOver, r.state)
	}
	r.set(now, to, by, why)
	return nil
}
