package rollouts_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"weir/internal/server/servertest"
	"weir/internal/store/storetest"
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
		"postgres": func(t *testing.T) string { return storetest.Postgres(t) },
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
			run := func() *servertest.Process {
				p := servertest.StartProcessWith(t, servertest.BriefLease, 512, "--config", file, servertest.Peppered)
				p.AwaitVersion("1")
				return p
			}
			begin := func(p *servertest.Process) {
				t.Helper()
				if status, _, text := p.Rollout("", `{"model": "chat", "candidate": "2", "unchecked": true, "gates": {"ttft_ratio": -1, "itl_ratio": -1, "p99_ratio": -1, "compute_ratio": -1},
					"steps": [{"percent": 50, "min_requests": 1000000, "min_time": "10m"}]}`); status != http.StatusOK {
					t.Fatalf("%d %s", status, text)
				}
			}
			ask := func(p *servertest.Process) {
				for i := range 10 {
					p.AskChat(i, 2)
				}
			}
			a := run()
			begin(a)
			ask(a)
			b := run()
			if list := b.Rollouts(); len(list) > 0 {
				t.Errorf("a server that has started beside it has the rollout, too: %+v", list)
			}
			if status, _, text := a.Rollout("/abort", `{"model": "chat"}`); status != http.StatusOK {
				t.Fatalf("%d %s", status, text)
			}
			ask(b)
			c := run() // the store says that it is over
			if list := c.Rollouts(); len(list) != 1 || list[0].State != rollout.Aborted {
				t.Errorf("an aborted rollout is %+v for a server that starts", list)
			}

			begin(a)
			ask(a)
			d := run()
			a.Kill()
			d.AwaitLastRollout(rollout.Running)
			ask(d)
			e := run()
			for _, st := range e.Rollouts() {
				if !st.State.Over() {
					t.Errorf("two servers have the rollout of a dead one: %+v", st)
				}
			}
			if status, _, text := d.Rollout("/promote", `{"model": "chat"}`); status != http.StatusOK {
				t.Fatalf("%d %s", status, text)
			}
			e.AwaitLastRollout(rollout.Promoted)
		})
	}
}
