package rollout

import (
	"testing"
	"time"
)

// A rollout goes where other servers have it, and never back a step.
func TestFollow(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	plan := Plan{ID: "a", Model: "m", Stable: "1", Candidate: "2"}
	run, err := Start(plan, 0, now)
	if err != nil {
		t.Fatal(err)
	}
	run.Take()
	for i, c := range []struct {
		at    Place
		state State
		step  int
		told  int
	}{
		{Place{State: Running, Step: 1}, Running, 1, 0},
		{Place{State: Running, Step: 3}, Running, 3, 1},
		{Place{State: Running, Step: 2}, Running, 3, 0},
		{Place{State: Paused, Step: 2}, Running, 3, 0},
		{Place{State: Paused, Step: 3}, Paused, 3, 1},
		{Place{State: Running, Step: 3}, Running, 3, 1},
		{Place{State: Paused, Step: 4}, Paused, 4, 2},
		{Place{State: Running, Step: 99}, Paused, 4, 0},
		{Place{State: RolledBack, Step: 1, By: "gate", Why: "elsewhere"}, RolledBack, 4, 1},
		{Place{State: Promoted, Step: 6}, RolledBack, 4, 0},
	} {
		run.Follow(now, c.at)
		if told := run.Take(); run.state != c.state || run.step+1 != c.step || len(told) != c.told {
			t.Errorf("%d, %+v: %s, step %d, %+v", i, c.at, run.state, run.step+1, told)
		}
	}
}
