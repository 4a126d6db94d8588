package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/server/servertest"
	"weir/router/rollout"
)

// tellOf says something of an answer and gives the status.
func (s *started) tellOf(id, word string) int {
	s.t.Helper()
	r, err := http.Post(s.api+"/v1/outcomes", "application/json", strings.NewReader(fmt.Sprintf(`{"id": %q, %s}`, id, word)))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Body.Close()
	return r.StatusCode
}

// untilKnown says something of an answer until the server knows it.
func (s *started) untilKnown(id, word string) {
	s.t.Helper()
	status := 0
	for end := time.Now().Add(servertest.Patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if status = s.tellOf(id, word); status == http.StatusOK {
			return
		}
	}
	s.t.Fatalf("the outcome of %s: status %d", id, status)
}

// untilCounted waits until a rollout's thumbs are so many in both arms.
func (s *started) untilCounted(stable, candidate rollout.SignalStatus) {
	s.t.Helper()
	var got [2]rollout.SignalStatus
	for end := time.Now().Add(servertest.Patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		arms := s.deployments()[0].Arms
		if got = [2]rollout.SignalStatus{arms[0].Signals["thumbs"], arms[1].Signals["thumbs"]}; got == [2]rollout.SignalStatus{stable, candidate} {
			return
		}
	}
	s.t.Fatalf("thumbs are %+v, want %+v and %+v", got, stable, candidate)
}

// What comes of an answer of server A may be told to server B, also while A is dead after kill -9: A counts it once, for the arm that
// answered.
func TestOutcomesReachTheServerThatAnswered(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]func(t *testing.T) string{
		"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "weir.db") },
		"postgres": postgresSchema,
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
	flags := []string{"--config", file, peppered}
	a, b := startProcessWith(t, briefLease, 512, flags...), startProcessWith(t, briefLease, 512, flags...)
	a.answersWith("1")
	b.answersWith("1")
	if status, _, text := a.deploy("", `{"model": "chat", "candidate": "2", "unchecked": true, "gates": {"ttft_ratio": -1, "itl_ratio": -1, "p99_ratio": -1, "compute_ratio": -1, "signal_drop": -1},
		"steps": [{"percent": 50, "min_requests": 1000000, "min_time": "10m"}]}`); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	const each = 8
	asked := 0
	ask := func() (ids [2][]string) { // of each arm, the last one of all at the end
		for len(ids[0]) < each || len(ids[1]) < each {
			arm, _, id := a.askChat(asked, 3)
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
			b.untilKnown(id, words[arm])
			for _, s := range []*process{a, b} { // told again
				if status := s.tellOf(id, words[arm]); status != http.StatusOK {
					t.Errorf("told again: status %d", status)
				}
			}
		}
	}
	a.untilCounted(rollout.SignalStatus{Mean: 1, Answers: len(first[0])}, rollout.SignalStatus{Answers: len(first[1])})
	if status := b.tellOf("chatcmpl-000000000000000000000000", words[0]); status != http.StatusNotFound {
		t.Errorf("an unknown answer: status %d", status)
	}
	second := ask()
	lastID := func() string { _, _, id := a.askChat(asked, 3); return id }()
	b.untilKnown(lastID, `"conversion": true`) // what was answered before it is in the store, too
	a.kill()
	for arm, ids := range second {
		for _, id := range ids {
			if status := b.tellOf(id, words[arm]); status != http.StatusOK {
				t.Errorf("an answer of a server that was killed: status %d", status)
			}
		}
	}
	a = startProcessWith(t, briefLease, 512, flags...)
	a.goesOn(rollout.Running)
	a.untilCounted(rollout.SignalStatus{Mean: 1, Answers: len(first[0]) + len(second[0])}, rollout.SignalStatus{Answers: len(first[1]) + len(second[1])})
	if status, _, text := a.deploy("/abort", `{"model": "chat"}`); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	for _, s := range []*process{a, b} {
		if status := s.tellOf(second[0][0], `"label": 1`); status != http.StatusNotFound {
			t.Errorf("after the rollout: status %d", status)
		}
	}
}
