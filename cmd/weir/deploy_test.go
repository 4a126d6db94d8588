package main

import (
	"testing"
	"time"

	"weir/api/admin"
	"weir/router/deployment"
)

// A command line waits for what may still heal as long as the lease of a dead server stands, and ends at once where nothing can.
func TestWaiting(t *testing.T) {
	router := deployment.Observation{Instance: "router", Generation: 1, State: deployment.Elsewhere}
	unfit := deployment.Observation{Instance: "a", Generation: 1, State: deployment.Unfit}
	standby := deployment.Observation{Instance: "b", Generation: 1, State: deployment.Elsewhere, Standby: true}
	var w waiting
	for _, c := range []struct {
		at    time.Duration
		state deployment.Summary
		seen  []deployment.Observation
		want  bool
	}{
		{0, deployment.Unserved, []deployment.Observation{router}, false},
		{16 * time.Second, deployment.Unserved, []deployment.Observation{router}, false},
		{17 * time.Second, deployment.Progressing, []deployment.Observation{router, standby}, false},
		{25 * time.Second, deployment.Degraded, []deployment.Observation{unfit, standby}, false},
		{41 * time.Second, deployment.Degraded, []deployment.Observation{unfit, standby}, false},
		{42 * time.Second, deployment.Ready, []deployment.Observation{unfit, standby}, true},
		{43 * time.Second, deployment.Unserved, []deployment.Observation{router}, false},
		{63 * time.Second, deployment.Unserved, []deployment.Observation{router}, true},
		{64 * time.Second, deployment.Unserved, []deployment.Observation{router, unfit}, true},
	} {
		v := admin.DeploymentView{Generation: 1, State: c.state, Instances: c.seen}
		if got := w.isOver(&v, time.Unix(0, 0).Add(c.at)); got != c.want {
			t.Errorf("after %v %s: %v", c.at, c.state, got)
		}
	}
}
