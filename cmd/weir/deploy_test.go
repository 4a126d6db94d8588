package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
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
	var w deployWait
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

// What a command line shows is what the server answers last, with nothing of an answer before.
func TestWaitingShowsTheLastAnswer(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := `{"modelId": "chat", "version": "v1", "generation": 1, "state": "ready", "why": [], "instances": [{"instance": "a", "generation": 1, "state": "serving"}]}`
		if r.Method == http.MethodPost {
			v = `{"modelId": "chat", "version": "v1", "state": "progressing", "why": ["a: x"], "instances": [{"instance": "a", "state": "pending", "why": "not looked", "standby": true}]}`
		}
		_, _ = fmt.Fprint(w, v) // a broken peer is no news
	}))
	t.Cleanup(s.Close)
	var out, errs strings.Builder
	if code := execute([]string{"deploy", "chat", "v1", "--wait", "--admin", strings.TrimPrefix(s.URL, "http://")}, &out, &errs); code != exitOK || strings.Contains(out.String(), "not looked") {
		t.Errorf("%d\n%s%s", code, &out, &errs)
	}
}
