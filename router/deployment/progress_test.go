package deployment

import (
	"testing"

	"weir/router/rollout"
)

// Whatever order servers tell their transitions in: the steps only go on, a bad candidate is taken back for good, and a pause
// of a server that has too few requests is its own.
func TestProgress(t *testing.T) {
	r := Record{Rollout: "deploy-1"}
	for _, c := range []struct {
		to   rollout.State
		step int
		by   string
		id   string
		want bool
	}{
		{rollout.Running, 1, "operator", "deploy-1", false}, // each server starts
		{rollout.Running, 2, "plan", "other", false},
		{rollout.Running, 2, "plan", "deploy-1", true},
		{rollout.Running, 2, "plan", "deploy-1", false}, // the second server is as far
		{rollout.Paused, 1, byGate, "deploy-1", false},
		{rollout.Paused, 2, byGate, "deploy-1", false},
		{rollout.Paused, 2, "ops", "deploy-1", true},
		{rollout.Paused, 2, "ops", "deploy-1", false},
		{rollout.Running, 2, "ops", "deploy-1", true},
		{rollout.Promoted, 1, "plan", "deploy-1", false},
		{rollout.RolledBack, 1, byGate, "deploy-1", true},
		{rollout.Promoted, 3, "plan", "deploy-1", false},
		{rollout.Running, 3, "plan", "deploy-1", false},
	} {
		next, took := r.Move(&rollout.Transition{ID: c.id, To: c.to, Step: c.step, By: c.by})
		if took != c.want {
			t.Errorf("%+v after %+v: %v", c, r.Progress, took)
		}
		r = next
	}
	if r.Progress.State != rollout.RolledBack || r.Progress.Sequence != 4 {
		t.Errorf("%+v", r.Progress)
	}
	done := Record{Rollout: "x", Progress: &Progress{State: rollout.Running, Step: 2}}
	if next, took := done.Move(&rollout.Transition{ID: "x", To: rollout.Promoted, Step: 2}); !took || next.Progress.State != rollout.Promoted {
		t.Errorf("%+v", next.Progress)
	}
}
