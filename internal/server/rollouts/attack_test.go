package rollouts_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/configs"
	"weir/internal/reference"
	"weir/internal/server/servertest"
	"weir/router/rollout"
)

// twoFleets starts a server with a good version and one that is bad in some way, and a rollout that goes on at 50 %.
func twoFleets(t *testing.T, bad *atomic.Bool, how int, gates string) *servertest.Server {
	t.Helper()
	stable, candidate := servertest.Upstream(t, new(atomic.Bool), 0), servertest.Upstream(t, bad, how)
	s := servertest.Start(t, func(c *configs.Config) {
		c.Store.URL = "sqlite:" + filepath.Join(t.TempDir(), "weir.db")
		c.Models = []configs.ServedModel{servertest.ChatVersion("1", stable.URL, "m"), servertest.ChatVersion("bad", candidate.URL, "m")}
		c.Models[1].Load = configs.LoadNever
	})
	s.AwaitVersion("1")
	if got, _, text := s.Rollout("", `{"model": "chat", "candidate": "bad", "gates": {`+gates+`}, "steps": [{"percent": 50, "min_requests": 100000, "min_time": "10m"}]}`); got != http.StatusOK {
		t.Fatalf("%d %s", got, text)
	}
	return s
}

// A candidate whose streams die after their first event is taken back after a few. Who had such a stream is told that it is broken.
func TestACandidateThatDiesInStreams(t *testing.T) {
	reference.Slow(t)
	bad := new(atomic.Bool)
	s := twoFleets(t, bad, servertest.CutStream, `"ttft_ratio": -1, "itl_ratio": -1, "p99_ratio": -1`)
	for n := range 60 {
		s.AskStream(n)
	}
	bad.Store(true)
	var harmed atomic.Int64
	begun := time.Now()
	done := s.AwaitRollout(rollout.RolledBack, func(n int) {
		if _, whole := s.AskStream(1000 + n); !whole {
			harmed.Add(1)
		}
	})
	t.Logf("taken back within %v, %d users had half an answer: %s", time.Since(begun).Round(time.Millisecond), harmed.Load(), done.Reason)
	if n := harmed.Load(); n == 0 || n > 30 { // 12 at once
		t.Errorf("%d users had half an answer", n)
	}
}

// Words about answers of others are refused however many come, one answer counts once however often it is told of, and users are served meanwhile.
func TestFloodOfOutcomes(t *testing.T) {
	reference.Slow(t)
	t.Parallel() // most of it is waiting
	s := servertest.Start(t, func(c *configs.Config) {
		c.Store.URL = "sqlite:" + filepath.Join(t.TempDir(), "weir.db")
		c.Models = []configs.ServedModel{
			servertest.Record("chat", configs.BuiltinPath, func(m *configs.ServedModel) { m.Version = "1" }),
			servertest.Record("chat", configs.BuiltinPath, func(m *configs.ServedModel) { m.Version, m.Load = "2", configs.LoadNever }),
		}
	})
	if status, _, text := s.Rollout("", `{"model": "chat", "candidate": "2", "unchecked": true, "gates": {"ttft_ratio": -1, "itl_ratio": -1, "p99_ratio": -1, "compute_ratio": -1, "signal_drop": -1},
		"steps": [{"percent": 50, "min_requests": 1000000, "min_time": "10m"}]}`); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	const answers = 20
	var ids []string
	var of [2]int
	for n := range answers {
		arm, _, id := s.AskChat(n, 3)
		ids = append(ids, id)
		of[rollout.ArmOf(arm)]++
	}
	var taken, wrong atomic.Int64
	var clients sync.WaitGroup
	for c := range 8 {
		clients.Go(func() {
			for n := range 100 {
				body := fmt.Sprintf(`{"id": %q, "tenant": "thief", "thumbs": "down"}`, ids[(c+n)%answers])
				r, err := http.Post(s.Admin+"/v1/outcomes", "application/json", strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				r.Body.Close()
				if r.StatusCode != http.StatusNotFound {
					taken.Add(1)
				}
			}
		})
		clients.Go(func() {
			for n := range 20 {
				if status := s.TellOutcome(ids[0], fmt.Sprintf(`"thumbs": %d`, n%2)); status != http.StatusOK && status != http.StatusServiceUnavailable {
					t.Errorf("one's own answer: status %d", status)
				}
				if _, status, _ := s.AskChat(1000+c*100+n, 3); status != http.StatusOK {
					wrong.Add(1)
				}
			}
		})
	}
	clients.Wait()
	if taken.Load() > 0 || wrong.Load() > 0 {
		t.Errorf("%d words of a thief were taken, %d users harmed", taken.Load(), wrong.Load())
	}
	for _, id := range ids {
		s.AwaitOutcome(id, `"thumbs": "up"`)
	}
	want := func(n int) rollout.SignalStatus { return rollout.SignalStatus{Mean: 1, Answers: n} }
	s.AwaitThumbs(want(of[0]), want(of[1]))
}
