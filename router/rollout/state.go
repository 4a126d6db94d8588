package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Store keeps rollouts over restarts. SaveRollout replaces what is kept under the id.
type Store interface {
	SaveRollout(ctx context.Context, id string, at time.Time, record []byte) error
	// Rollouts are all records that are kept, the oldest first.
	Rollouts(ctx context.Context) ([][]byte, error)
}

// record is what is kept of a rollout: where it stands, and not what was counted. After a
// restart its step begins anew.
type record struct {
	Plan    Plan         `json:"plan"`
	Budget  float64      `json:"budget"`
	State   State        `json:"state"`
	Step    int          `json:"step"`
	Began   time.Time    `json:"began"`
	Why     string       `json:"why,omitempty"`
	Harmed  int          `json:"harmed"`
	Changes []Transition `json:"changes"`
}

// maxRecordBytes bounds a record.
const maxRecordBytes = 1 << 20

// Record is what a Store keeps.
func (r *Rollout) Record() ([]byte, error) {
	return json.Marshal(record{
		Plan: r.plan, Budget: r.budget, State: r.state, Step: r.step, Began: r.began, Why: r.why, Harmed: r.arms[Candidate].harmed, Changes: r.changes,
	})
}

// Restore is the rollout of a record. Its step begins at now.
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
	if k.Step < 0 || k.Step >= len(plan.Steps) || len(k.Changes) > maxChanges || !(k.Budget >= 0 && k.Budget <= 1) {
		return nil, errors.New("read a rollout's record: its step, its budget or its history is not of its plan")
	}
	r := &Rollout{plan: plan, budget: k.Budget, state: k.State, step: k.Step, entered: now, began: k.Began, why: k.Why, changes: k.Changes}
	for i := range r.arms {
		r.arms[i].began = now
	}
	r.arms[Candidate].harmed = k.Harmed
	return r, nil
}

// Status is a rollout as people see it.
type Status struct {
	Plan    Plan         `json:"plan"`
	State   State        `json:"state"`
	Step    int          `json:"step"` // from 1
	Percent float64      `json:"percent"`
	Shadow  float64      `json:"shadow"`
	Since   time.Time    `json:"since"` // the step, or the state
	Began   time.Time    `json:"began"`
	Reason  string       `json:"reason,omitempty"`
	Waiting string       `json:"waiting,omitempty"` // for what a running step waits
	Arms    []ArmStatus  `json:"arms"`
	Copies  int          `json:"copies"`
	Changes []Transition `json:"changes"`
}

// ArmStatus is what was seen of an arm: in the whole rollout, and in this step. Times are
// in seconds; 0 was not measured.
type ArmStatus struct {
	Arm      string  `json:"arm"`
	Version  string  `json:"version"`
	Requests int     `json:"requests"`
	InStep   int     `json:"requests_in_step"`
	Failed   int     `json:"failed"`
	Empty    int     `json:"empty"`
	Length   int     `json:"length"`
	Refused  int     `json:"refused"`
	TTFTP95  float64 `json:"ttft_p95_seconds"`
	WholeP95 float64 `json:"whole_answer_p95_seconds"` // of answers in one piece
	ITLP95   float64 `json:"itl_p95_seconds"`
	Output   float64 `json:"mean_output_tokens"`
	Cost     float64 `json:"mean_cost"`
}

// Status describes the rollout at a moment.
func (r *Rollout) Status(now time.Time) Status {
	step := r.plan.Steps[r.step]
	s := Status{
		Plan: r.plan, State: r.state, Step: r.step + 1, Percent: r.percent(), Since: r.entered, Began: r.began, Reason: r.why,
		Copies: r.copied, Changes: append([]Transition(nil), r.changes...),
	}
	if r.state == Running {
		s.Shadow = step.Shadow
		seen := r.arms[Candidate].step.n
		if step.Percent == 0 {
			seen = r.copies.n
		}
		s.Waiting = fmt.Sprintf("%d of %d requests, %s of %s", min(seen, step.MinRequests), step.MinRequests,
			seconds(min(now.Sub(r.entered), time.Duration(step.MinTime))), seconds(time.Duration(step.MinTime)))
		if j := r.judgeStep(); j.verdict == unclear && j.why != "" {
			s.Waiting += "; " + j.why
		}
	}
	for a, version := range []string{r.plan.Stable, r.plan.Candidate} {
		t := &r.arms[a].total
		st := ArmStatus{Arm: Arm(a).String(), Version: version, Requests: t.n, InStep: r.arms[a].step.n, Failed: t.failed, Empty: t.empty, //nolint:gosec // one of two
			Length: t.length, Refused: t.refused}
		if t.ttft.n > 0 {
			st.TTFTP95 = t.ttft.quantile(0.95, 0)
		}
		if t.whole.n > 0 {
			st.WholeP95 = t.whole.quantile(0.95, 0)
		}
		if t.itl.n > 0 {
			st.ITLP95 = t.itl.quantile(0.95, 0)
		}
		if t.answered > 0 {
			st.Output, st.Cost = t.output/float64(t.answered), t.cost/float64(t.answered)
		}
		s.Arms = append(s.Arms, st)
	}
	return s
}
