package rollouts_test

import (
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"

	"weir/configs"
	"weir/internal/server/servertest"
	"weir/router/rollout"
)

// A version that an operator took back does not answer after a restart, also where the configuration names it first by then, until an operator
// gives the name to it: of models that this process computes, and of a router, which has no others.
func TestAVersionThatWasTakenBackStaysAway(t *testing.T) {
	built := func(version string) configs.ServedModel {
		return servertest.Record("chat", configs.BuiltinPath, func(m *configs.ServedModel) { m.Version = version })
	}
	upstream := servertest.Upstream(t, new(atomic.Bool), 0)
	for name, version := range map[string]func(version string) configs.ServedModel{
		"computed here": built,
		"a router":      func(version string) configs.ServedModel { return servertest.ChatVersion(version, upstream.URL, "m") },
	} {
		t.Run(name, func(t *testing.T) {
			url := "sqlite:" + filepath.Join(t.TempDir(), "weir.db")
			run := func(first, second string) *servertest.Server {
				return servertest.Start(t, func(c *configs.Config) {
					c.Store.URL, c.Engine.KVMemoryBytes = url, 4<<20
					c.Models = []configs.ServedModel{version(first), version(second)}
					c.Models[1].Load = configs.LoadNever
				})
			}
			s := run("1", "2")
			s.AwaitVersion("1")
			if status, _, text := s.Rollout("", `{"model": "chat", "candidate": "2", "unchecked": true, "steps": [{"percent": 50, "min_requests": 1000, "min_time": "1h"}]}`); status != http.StatusOK {
				t.Fatalf("%d %s", status, text)
			}
			if status, st, text := s.Rollout("/abort", `{"model": "chat"}`); status != http.StatusOK || st.State != rollout.Aborted {
				t.Fatalf("%d %s", status, text)
			}
			answers := func(s *servertest.Server, want string) {
				t.Helper()
				for n := range 4 {
					if arm, got := s.Talk(n); got != want || arm != "" {
						t.Fatalf("after the restart version %s answers (arm %q), not %s", got, arm, want)
					}
				}
			}
			again := func(before *servertest.Server) *servertest.Server {
				t.Helper()
				if err := before.End(); err != nil {
					t.Fatal(err)
				}
				return run("2", "1")
			}
			s = again(s)
			answers(s, "1")
			if status, _, text := s.ChangeModel("alias", "chat", "2"); status != http.StatusOK {
				t.Fatalf("%d %s", status, text)
			}
			answers(again(s), "2")
		})
	}
}
