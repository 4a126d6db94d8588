package server_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/api/admin"
	"weir/internal/server/servertest"
	"weir/router/deployment"
	"weir/router/rollout"
)

// A process that is killed amid a rollout whose candidate is the configuration's choice, and again and again while it starts at the same
// address, goes on with the rollout where it was: the candidate gets its share and no more, from the first request on.
func TestARolloutOfTheConfigurationsChoiceIsKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("starts several processes")
	}
	t.Parallel()
	const gates = `"gates": {"ttft_ratio": -1, "itl_ratio": -1, "p99_ratio": -1, "compute_ratio": -1, "distance": -1}, "steps": [{"percent": 30, "min_requests": 1000000, "min_time": "10m"}]`
	for name, begin := range map[string]func(p *servertest.Process){
		"deployment": func(p *servertest.Process) {
			p.ApplyDeployment(`{"modelId": "chat", "version": "1", "rolloutPolicy": "unchecked"}`)
			p.AwaitDeployment("chat", readyOn(p))
			p.ApplyDeployment(`{"modelId": "chat", "version": "2", "rolloutPolicy": {` + gates + `}}`)
			p.AwaitDeployment("chat", func(v *admin.DeploymentView) bool { return v.Instances[0].State == deployment.RollingOut })
		},
		"operator": func(p *servertest.Process) {
			if status, _, text := p.ChangeModel("alias", "chat", "1"); status != http.StatusOK {
				p.T.Fatalf("%d %s", status, text)
			}
			if status, _, text := p.Rollout("", `{"model": "chat", "candidate": "2", "unchecked": true, `+gates+`}`); status != http.StatusOK {
				p.T.Fatalf("%d %s", status, text)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "weir.yml")
			text := fmt.Sprintf("store: {url: \"sqlite:%s/weir.db\"}\nmodels:\n", t.TempDir())
			for i, load := range []string{"startup", "never"} {
				text += fmt.Sprintf("  - {name: chat, version: \"%d\", path: builtin, load: %s, kv_cache_memory_bytes: 4MiB}\n", 2-i, load)
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			p := servertest.StartProcess(t, 512, "--config", file)
			port := p.API[strings.LastIndexByte(p.API, ':')+1:]
			begin(p)
			shares := func() (versions map[string]int) {
				versions = make(map[string]int)
				for n := range 30 {
					arm, version := p.Talk(n)
					versions[arm+" "+version]++
				}
				return versions
			}
			want := shares()
			if len(want) != 2 || want["candidate 2"] == 0 {
				t.Fatalf("before: %v", want)
			}
			for range 3 {
				p.Kill()
				p = servertest.StartProcess(t, 512, "--config", file, "--port", port)
			}
			if got := shares(); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("after three kills %v, before %v", got, want)
			}
			p.AwaitLastRollout(rollout.Running)
		})
	}
}
