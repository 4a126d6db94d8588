package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/api/admin"
	"weir/internal/reference"
	"weir/internal/server/servertest"
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

// The command line makes, waits for, shows and takes back a deployment.
func TestDeployVerbs(t *testing.T) {
	reference.Slow(t)
	t.Parallel()
	p := servertest.StartProcess(t, 1024, servertest.Peppered, "--store", "sqlite:"+t.TempDir()+"/weir.db", "--models-dir", t.TempDir())
	file := filepath.Join(t.TempDir(), "chat.yml")
	if err := os.WriteFile(file, []byte("modelId: other\nversion: builtin\nresources: {kvCacheBytes: 1MiB, maxModelLen: 64}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"deploy chat builtin --resource kvCacheBytes=1MiB --resource maxModelLen=64 --wait", exitOK, "serving"},
		{"deploy -f " + file + " --wait", exitOK, "serving"},
		{"deploy chat builtin --if-generation 7", exitFailure, "generation 1"},
		{"deploy chat none:v1 --wait", exitFailure, "degraded"},
		{"deployments list", exitOK, "builtin"},
		{"deployments get other", exitOK, "SERVER"},
		{"deployments get other --json", exitOK, `"modelId": "other"`},
		{"deployments delete other", exitOK, "configurations"},
		{"deployments get other", exitFailure, "404"},
		{"deploy chat", exitUsage, "weir deploy MODEL VERSION"},
	} {
		var out, errs strings.Builder
		args := append(strings.Fields(c.args), "--admin", strings.TrimPrefix(p.Admin, "http://"))
		if code := execute(args, &out, &errs); code != c.code || !strings.Contains(out.String()+errs.String(), c.want) {
			t.Errorf("weir %s: %d\n%s%s\nwant %d and %q", c.args, code, &out, &errs, c.code, c.want)
		}
	}
}
