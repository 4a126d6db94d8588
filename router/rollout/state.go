package rollout

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"weir/internal/unit"
)

// record is what is kept of a rollout: where it stands, and what was seen of both arms.
type record struct {
	Plan    Plan         `json:"plan"`
	Budget  float64      `json:"budget"`
	State   State        `json:"state"`
	Step    int          `json:"step"`
	Began   time.Time    `json:"began"`
	Entered time.Time    `json:"entered"` // the step or the state; of records of older servers nothing
	At      time.Time    `json:"at"`      // of the record
	Why     string       `json:"why,omitempty"`
	Benched bool         `json:"benched,omitempty"`
	Harmed  int          `json:"harmed"`
	Changes []Transition `json:"changes"`
	Arms    []keptArm    `json:"arms,omitempty"`
	Before  *window      `json:"before,omitempty"`
	Copies  *copies      `json:"copies,omitempty"`
	Copied  int          `json:"copied,omitempty"`
}

// keptArm is what is kept of an arm. What was seen last is not: it is of a moment.
type keptArm struct {
	Step   window `json:"step"`
	Total  window `json:"total"`
	Harmed int    `json:"harmed"`
}

// maxRecordBytes bounds a record.
const maxRecordBytes = 1 << 20

// Record is what a Store keeps.
func (r *Rollout) Record(now time.Time) ([]byte, error) {
	k := record{
		Plan: r.plan, Budget: r.budget, State: r.state, Step: r.step, Began: r.began, Entered: r.entered, At: now, Why: r.why, Benched: r.benched,
		Harmed: r.arms[Candidate].harmed, Changes: r.changes, Copied: r.copied,
	}
	if !r.state.Over() {
		k.Before, k.Copies = &r.before, &r.copies
	}
	for i := range r.arms {
		a := &r.arms[i]
		k.Arms = append(k.Arms, keptArm{a.step, a.total, a.harmed})
	}
	return json.Marshal(k)
}

// Restore is the rollout of a record. The time between the record and now does not count
// as time of its step.
func Restore(data []byte, now time.Time) (*Rollout, error) {
	if len(data) > maxRecordBytes {
		return nil, fmt.Errorf("a rollout's record has %d bytes, limit %d", len(data), maxRecordBytes)
	}
	var k record
	if err := json.Unmarshal(data, &k); err != nil {
		return nil, fmt.Errorf("read a rollout's record: %w", err)
	}
	plan, err := k.Plan.WithDefaults()
	if err != nil {
		return nil, fmt.Errorf("read a rollout's record: %w", err)
	}
	switch k.State {
	case Running, Paused, Promoted, RolledBack, Aborted, Replaced:
	default:
		return nil, fmt.Errorf("read a rollout's record: its state is %.40q", k.State)
	}
	if k.Step < 0 || k.Step >= len(plan.Steps) || len(k.Changes) > maxChanges || !(k.Budget >= 0 && k.Budget <= 1) || len(k.Arms) > int(numArms) {
		return nil, errors.New("read a rollout's record: its step, its budget, its arms or its history is not of its plan")
	}
	r := &Rollout{
		plan: plan, budget: k.Budget, state: k.State, step: k.Step, entered: now, began: k.Began, why: k.Why, changes: k.Changes, copied: k.Copied,
		benched: k.Benched && k.State == Paused,
	}
	if k.At.After(k.Entered) && !k.Entered.IsZero() {
		r.entered = now.Add(k.Entered.Sub(k.At))
	}
	if k.Before != nil && k.Copies != nil {
		r.before, r.copies = *k.Before, *k.Copies
	}
	for i := range r.arms {
		r.arms[i].began = now
		if i < len(k.Arms) {
			r.arms[i].step, r.arms[i].total, r.arms[i].harmed = k.Arms[i].Step, k.Arms[i].Total, k.Arms[i].Harmed
		}
	}
	r.arms[Candidate].harmed = k.Harmed
	return r, nil
}

// Status is a rollout as people see it.
type Status struct {
	Plan    Plan        `json:"plan"`
	State   State       `json:"state"`
	Step    int         `json:"step"` // from 1
	Percent float64     `json:"percent"`
	Shadow  float64     `json:"shadow"`
	Since   time.Time   `json:"since"` // the step, or the state
	Began   time.Time   `json:"began"`
	Reason  string      `json:"reason,omitempty"`
	Waiting string      `json:"waiting,omitempty"` // for what a running step waits
	Arms    []ArmStatus `json:"arms"`
	Copies  int         `json:"copies"`

	Compared *CopiesStatus `json:"compared,omitempty"` // the copies of this step
	Changes  []Transition  `json:"changes"`
}

// ArmStatus is what was seen of an arm: in the whole rollout, and in this step. Times are
// in seconds; 0 was not measured.
type ArmStatus struct {
	Arm       string  `json:"arm"`
	Version   string  `json:"version"`
	Requests  int     `json:"requests"`
	InStep    int     `json:"requests_in_step"`
	Failed    int     `json:"failed"`
	Denied    int     `json:"denied"`
	Throttled int     `json:"throttled"`
	Empty     int     `json:"empty"`
	Length    int     `json:"length"`
	Refused   int     `json:"refused"`
	TTFTP95   float64 `json:"ttft_p95_seconds"`
	TTFTP99   float64 `json:"ttft_p99_seconds"`
	WholeP95  float64 `json:"whole_answer_p95_seconds"` // of answers in one piece
	ITLP95    float64 `json:"itl_p95_seconds"`
	Compute   float64 `json:"compute_seconds"` // for a token or a row, half of the answers
	Output    float64 `json:"mean_output_tokens"`
	Cost      float64 `json:"mean_cost"`

	Signals map[string]SignalStatus `json:"signals,omitempty"` // of the whole rollout
}

// SignalStatus is what was told of an arm's answers.
type SignalStatus struct {
	Mean    float64 `json:"mean"`
	Answers int     `json:"answers"`
}

// CopiesStatus is how the texts of this step's copies compare.
type CopiesStatus struct {
	Compared      int     `json:"compared"`
	Failed        int     `json:"failed"`
	Same          float64 `json:"same_text"`     // share
	Distance      float64 `json:"mean_distance"` // 0 to 1
	SameAgain     float64 `json:"stable_same_text"`
	DistanceAgain float64 `json:"stable_mean_distance"` // of the stable version's answers from each other
}

// Status describes the rollout at a moment.
func (r *Rollout) Status(now time.Time) Status {
	step := r.plan.Steps[r.step]
	s := Status{
		Plan: r.plan, State: r.state, Step: r.step + 1, Percent: r.percent(), Since: r.entered, Began: r.began, Reason: r.why,
		Copies: r.copied, Changes: append([]Transition(nil), r.changes...),
	}
	if c := &r.copies; c.N > 0 {
		s.Compared = &CopiesStatus{Compared: c.N, Failed: c.Failed, Same: c.Same.mean(), Distance: c.Distance.mean(), SameAgain: c.SameAgain.mean(), DistanceAgain: c.Again.mean()}
	}
	if r.state == Running {
		s.Shadow = step.Shadow
		seen := r.arms[Candidate].step.N
		if step.Percent == 0 {
			seen = r.copies.N
		}
		s.Waiting = fmt.Sprintf("%d of %d requests, %s of %s", min(seen, step.MinRequests), step.MinRequests,
			unit.Duration(min(now.Sub(r.entered), time.Duration(step.MinTime)).Round(time.Second)), unit.Duration(time.Duration(step.MinTime).Round(time.Second)))
		if j := r.judgeStep(); j.verdict == unclear && j.why != "" {
			s.Waiting += "; " + j.why
		}
	}
	for a, version := range []string{r.plan.Stable, r.plan.Candidate} {
		s.Arms = append(s.Arms, r.arms[a].status(Arm(a), version)) //nolint:gosec // one of two
	}
	return s
}

func (s *series) status(arm Arm, version string) ArmStatus {
	t := &s.total
	st := ArmStatus{
		Arm: arm.String(), Version: version, Requests: t.N, InStep: s.step.N, Failed: t.Failed, Denied: t.Denied, Throttled: t.Throttled, Empty: t.Empty,
		Length: t.Length, Refused: t.Refused, TTFTP95: t.TTFT.quantile(0.95), TTFTP99: t.TTFT.quantile(0.99), WholeP95: t.Whole.quantile(0.95),
		ITLP95: t.ITL.quantile(0.95), Compute: t.Compute.quantile(0.5), Output: t.Output.mean(), Cost: t.Cost.mean(),
	}
	for kind := range numSignals {
		if told := t.Signals[kind]; told.Sum > 0 || kind != Conversion && told.N > 0 {
			if st.Signals == nil {
				st.Signals = make(map[string]SignalStatus)
			}
			st.Signals[kind.String()] = SignalStatus{told.mean(), told.N}
		}
	}
	return st
}
