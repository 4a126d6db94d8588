package main

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"weir/internal/server/servertest"
	"weir/router/rollout"
)

// A rollout is the server's that has begun it. One that starts meanwhile on the same store leaves it alone, and what its operator decides stays
// decided; it goes on with the rollout where that server is dead.
func TestARolloutIsOneServers(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the lease of a killed process")
	}
	t.Parallel()
	for name, url := range map[string]func(t *testing.T) string{
		"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "weir.db") },
		"postgres": postgresSchema,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "weir.yml")
			if err := os.WriteFile(file, []byte(`store: {url: "`+url(t)+`"}
models:
  - {name: chat, version: "1", path: builtin}
  - {name: chat, version: "2", path: builtin, load: never}
`), 0o600); err != nil {
				t.Fatal(err)
			}
			run := func() *process {
				p := startProcessWith(t, briefLease, 512, "--config", file, peppered)
				p.answersWith("1")
				return p
			}
			begin := func(p *process) {
				t.Helper()
				if status, _, text := p.deploy("", `{"model": "chat", "candidate": "2", "unchecked": true, "gates": {"ttft_ratio": -1, "itl_ratio": -1, "p99_ratio": -1, "compute_ratio": -1},
					"steps": [{"percent": 50, "min_requests": 1000000, "min_time": "10m"}]}`); status != http.StatusOK {
					t.Fatalf("%d %s", status, text)
				}
			}
			ask := func(p *process) {
				for i := range 10 {
					p.askChat(i, 2)
				}
			}
			a := run()
			begin(a)
			ask(a)
			b := run()
			if list := b.deployments(); len(list) > 0 {
				t.Errorf("a server that has started beside it has the rollout, too: %+v", list)
			}
			if status, _, text := a.deploy("/abort", `{"model": "chat"}`); status != http.StatusOK {
				t.Fatalf("%d %s", status, text)
			}
			ask(b)
			c := run() // the store says that it is over
			if list := c.deployments(); len(list) != 1 || list[0].State != rollout.Aborted {
				t.Errorf("an aborted rollout is %+v for a server that starts", list)
			}

			begin(a)
			ask(a)
			d := run()
			if err := a.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			<-a.done
			close(a.done)
			d.goesOn(rollout.Running)
			ask(d)
			e := run()
			for _, st := range e.deployments() {
				if !st.State.Over() {
					t.Errorf("two servers have the rollout of a dead one: %+v", st)
				}
			}
			if status, _, text := d.deploy("/promote", `{"model": "chat"}`); status != http.StatusOK {
				t.Fatalf("%d %s", status, text)
			}
			e.goesOn(rollout.Promoted)
		})
	}
}

// goesOn waits until the last rollout that a server knows is in a state.
func (p *process) goesOn(want rollout.State) {
	p.t.Helper()
	var last []rollout.Status
	for end := time.Now().Add(servertest.Patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		last = p.deployments()
		if n := len(last); n > 0 && (last[n-1].State == want || last[0].State == want) {
			return
		}
	}
	p.t.Fatalf("no rollout is %s: %+v", want, last)
}
