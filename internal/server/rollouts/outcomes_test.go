package rollouts_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"weir/internal/reference"
	"weir/internal/server/servertest"
	"weir/internal/store/storetest"
	"weir/router/rollout"
)

// What comes of an answer of server A may be told to server B, also while A is dead after kill -9: A counts it once, for the arm that
// answered.
func TestOutcomesReachTheServerThatAnswered(t *testing.T) {
	reference.Slow(t)
	t.Parallel()
	for name, url := range map[string]func(t *testing.T) string{
		"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "weir.db") },
		"postgres": func(t *testing.T) string { return storetest.Postgres(t) },
	} {
		t.Run(name, func(t *testing.T) { testOutcomesReach(t, url(t)) })
	}
}

func testOutcomesReach(t *testing.T, url string) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "weir.yml")
	if err := os.WriteFile(file, []byte(`store: {url: "`+url+`"}
models:
  - {name: chat, version: "1", path: builtin}
  - {name: chat, version: "2", path: builtin, load: never}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := []string{"--config", file, servertest.Peppered}
	a, b := servertest.StartProcessWith(t, servertest.BriefLease, 512, flags...), servertest.StartProcessWith(t, servertest.BriefLease, 512, flags...)
	a.AwaitVersion("1")
	b.AwaitVersion("1")
	if status, _, text := a.Rollout("", `{"model": "chat", "candidate": "2", "unchecked": true, "gates": {"ttft_ratio": -1, "itl_ratio": -1, "p99_ratio": -1, "compute_ratio": -1, "signal_drop": -1},
		"steps": [{"percent": 50, "min_requests": 1000000, "min_time": "10m"}]}`); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	const each = 8
	asked := 0
	ask := func() (ids [2][]string) { // of each arm, the last one of all at the end
		for len(ids[0]) < each || len(ids[1]) < each {
			arm, _, id := a.AskChat(asked, 3)
			asked++
			n := rollout.ArmOf(arm)
			ids[n] = append(ids[n], id)
		}
		return ids
	}
	words := [2]string{`"thumbs": "up"`, `"thumbs": "down"`}
	first := ask()
	for arm, ids := range first {
		for _, id := range ids {
			b.AwaitOutcome(id, words[arm])
			for _, s := range []*servertest.Process{a, b} { // told again
				if status := s.TellOutcome(id, words[arm]); status != http.StatusOK {
					t.Errorf("told again: status %d", status)
				}
			}
		}
	}
	a.AwaitThumbs(rollout.SignalStatus{Mean: 1, Answers: len(first[0])}, rollout.SignalStatus{Answers: len(first[1])})
	if status := b.TellOutcome("chatcmpl-000000000000000000000000", words[0]); status != http.StatusNotFound {
		t.Errorf("an unknown answer: status %d", status)
	}
	second := ask()
	lastID := func() string { _, _, id := a.AskChat(asked, 3); return id }()
	b.AwaitOutcome(lastID, `"conversion": true`) // what was answered before it is in the store, too
	a.Kill()
	for arm, ids := range second {
		for _, id := range ids {
			if status := b.TellOutcome(id, words[arm]); status != http.StatusOK {
				t.Errorf("an answer of a server that was killed: status %d", status)
			}
		}
	}
	a = servertest.StartProcessWith(t, servertest.BriefLease, 512, flags...)
	a.AwaitLastRollout(rollout.Running)
	a.AwaitThumbs(rollout.SignalStatus{Mean: 1, Answers: len(first[0]) + len(second[0])}, rollout.SignalStatus{Answers: len(first[1]) + len(second[1])})
	if status, _, text := a.Rollout("/abort", `{"model": "chat"}`); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	for _, s := range []*servertest.Process{a, b} {
		if status := s.TellOutcome(second[0][0], `"label": 1`); status != http.StatusNotFound {
			t.Errorf("after the rollout: status %d", status)
		}
	}
}
