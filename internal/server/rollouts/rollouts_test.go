package rollouts_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/configs"
	"weir/internal/defaultmodel"
	"weir/internal/reference"
	"weir/internal/server/servertest"
	"weir/router/rollout"
)

const quickSteps = `"copy_share": 0.2, "steps": [{"shadow": 100, "min_requests": 10, "min_time": "300ms"}, {"percent": 30, "min_requests": 15, "min_time": "300ms"},
	{"percent": 100, "min_requests": 15, "min_time": "300ms"}]`

// A good version is promoted through shadow and shares: copies are compared and not
// shown, conversations stick to their arm, and the name has moved at the end.
func TestRolloutOfALanguageModel(t *testing.T) {
	reference.Slow(t)
	t.Parallel() // most of it is waiting
	folder := t.TempDir()
	configure := func(c *configs.Config) {
		c.Store.URL = "sqlite:" + filepath.Join(folder, "weir.db")
		c.Models = []configs.ServedModel{
			servertest.Record("chat", configs.BuiltinPath, func(m *configs.ServedModel) { m.Version = "1" }),
			servertest.Record("chat", servertest.ChangedFile(t, "other", 1), func(m *configs.ServedModel) { m.Version, m.Load = "2", configs.LoadNever }),
		}
	}
	s := servertest.Start(t, configure)
	for body, want := range map[string]int{
		`{"model": "unknown", "candidate": "2"}`:                                                         http.StatusNotFound,
		`{"model": "chat", "candidate": "9"}`:                                                            http.StatusNotFound,
		`{"model": "chat", "candidate": "1"}`:                                                            http.StatusBadRequest,
		`{"model": "chat", "candidate": "2", "percent": 5}`:                                              http.StatusBadRequest,
		`{"model": "chat", "candidate": "2", "sticky": "no"}`:                                            http.StatusBadRequest,
		`{"model": "chat", "candidate": "2", "golden": [{"prompt": "Hello", "text": "no such answer"}]}`: http.StatusConflict,
	} {
		if status, _, text := s.Rollout("", body); status != want {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	// Latencies of a small model on a busy machine tell nothing.
	status, st, text := s.Rollout("", `{"model": "chat", "candidate": "2", "gates": {"ttft_ratio": -1, "p99_ratio": -1, "compute_ratio": -1, "itl_ratio": -1, "distance": 0.2}, `+quickSteps+`}`)
	if status != http.StatusOK || st.State != rollout.Running || st.Plan.Stable != "1" {
		t.Fatalf("%d %s", status, text)
	}
	if status, _, text := s.Rollout("", `{"model": "chat", "candidate": "2"}`); status != http.StatusConflict {
		t.Errorf("a second one: %d %s", status, text)
	}
	var mu sync.Mutex
	arms := map[int]map[string]bool{}
	done := s.AwaitRollout(rollout.Promoted, func(n int) {
		arm, _ := s.Talk(n % 40)
		mu.Lock()
		defer mu.Unlock()
		if arms[n%40] == nil {
			arms[n%40] = map[string]bool{}
		}
		arms[n%40][arm] = true
	})
	if done.Copies < 10 || done.Arms[1].Requests < 30 || len(done.Changes) != 4 {
		t.Errorf("%d copies, %+v, %d changes", done.Copies, done.Arms, len(done.Changes))
	}
	for end := time.Now().Add(servertest.Patience); ; time.Sleep(10 * time.Millisecond) {
		if _, version := s.Talk(1); version == "2" {
			break
		} else if time.Now().After(end) {
			t.Fatalf("version %s answers after a rollout to 2", version)
		}
	}
	_, metrics := s.Get(s.Admin + "/metrics")
	for _, want := range []string{`weir_rollout_transitions_total{to="promoted"} 1`, `weir_rollout_shadows_total{outcome="compared"}`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	if err := s.End(); err != nil {
		t.Fatal(err)
	}
	again := servertest.Start(t, configure) // the configuration still says 1
	if _, version := again.Talk(1); version != "2" {
		t.Errorf("after a restart version %q answers", version)
	}
	if list := again.Rollouts(); len(list) != 1 || list[0].State != rollout.Promoted {
		t.Errorf("after a restart: %+v", list)
	}
	// An operator moves the name back: the next restart must not promote again.
	if status, _, body := again.ChangeModel("alias", "chat", "1"); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	if list := again.Rollouts(); len(list) != 1 || list[0].State != rollout.Replaced {
		t.Errorf("after the move: %+v", list)
	}
	if err := again.End(); err != nil {
		t.Fatal(err)
	}
	if _, version := servertest.Start(t, configure).Talk(1); version != "1" {
		t.Errorf("after the move and a restart version %q answers", version)
	}
}

// garbledModel writes a copy of the built-in model with other weights here and there: the
// engine takes it, and its answers are no language.
func garbledModel(t *testing.T) string {
	t.Helper()
	data := defaultmodel.GGUF()
	for i := len(data) - 900_000; i < len(data)-100_000; i += 97 {
		data[i] ^= 0x31
	}
	path := filepath.Join(t.TempDir(), "garbled.gguf")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A version that writes garbage is taken back by what its copies say, before any client
// gets it; one that refuses much of what it gets, by the answers to clients.
func TestBadVersionsAreRolledBack(t *testing.T) {
	reference.Slow(t)
	t.Parallel() // most of it is waiting
	s := servertest.Start(t, servertest.Records(
		servertest.Record("chat", configs.BuiltinPath, func(m *configs.ServedModel) { m.Version = "1" }),
		servertest.Record("chat", garbledModel(t), func(m *configs.ServedModel) { m.Version, m.Load = "garbled", configs.LoadNever }),
		servertest.Record("chat", configs.BuiltinPath, func(m *configs.ServedModel) {
			m.Version, m.Load = "refusing", configs.LoadNever
			m.Settings = []configs.ModelSetting{{Key: "scheduler.max_num_seqs", Value: "1"}, {Key: "scheduler.max_num_queued_reqs", Value: "1"}}
		}),
	))
	for candidate, plan := range map[string]string{
		"garbled":  `"copy_share": 0.2, "gates": {"distance": 0.3}, "steps": [{"shadow": 100, "min_requests": 20, "min_time": "1m"}, {"percent": 100, "min_requests": 1, "min_time": "1m"}]`,
		"refusing": `"gates": {"ttft_ratio": -1, "p99_ratio": -1, "compute_ratio": -1, "itl_ratio": -1}, "steps": [{"percent": 50, "min_requests": 100000, "min_time": "10m", "max_time": "20m"}]`,
	} {
		begun := time.Now()
		status, _, text := s.Rollout("", fmt.Sprintf(`{"model": "chat", "candidate": %q, "unchecked": true, %s}`, candidate, plan))
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
		done := s.AwaitRollout(rollout.RolledBack, func(n int) {
			body := fmt.Sprintf(`{"model":"chat","messages":[{"role":"user","content":"Hello"}],"temperature":0,"max_tokens":80,"prompt_cache_key":"%d"}`, n)
			r, err := http.Post(s.API+"/v1/chat/completions", "application/json", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			r.Body.Close()
		})
		took, harmed := time.Since(begun), done.Changes[len(done.Changes)-1].Harmed
		t.Logf("%s: rolled back within %v, %d answers of the candidate, %d harmed: %s", candidate, took.Round(time.Millisecond), done.Arms[1].Requests, harmed, done.Reason)
		if candidate == "garbled" && done.Arms[1].Requests > 0 {
			t.Errorf("%s: %d clients got the candidate", candidate, done.Arms[1].Requests)
		}
		if arm, version := s.Talk(1); arm != "" || version != "1" {
			t.Errorf("%s: arm %q, version %q after the rollback", candidate, arm, version)
		}
	}
}

// A classical candidate that is worse is taken back, and a good one stays the default
// after its promotion. Requests that name a version get it whatever happens.
func TestRolloutOfAClassicalModel(t *testing.T) {
	reference.Slow(t)
	t.Parallel() // most of it is waiting
	model, _ := defaultmodel.Iris()
	path := filepath.Join(t.TempDir(), "iris.json")
	if err := os.WriteFile(path, []byte(model), 0o600); err != nil {
		t.Fatal(err)
	}
	s := servertest.Start(t, func(c *configs.Config) {
		c.Model.Path = servertest.EmbeddedFile(t)
		for _, v := range []string{"1", "2"} {
			m := configs.NewClassic("iris", path)
			m.Version, m.Candidate = v, v == "2"
			c.Classic = append(c.Classic, m)
		}
	})
	predict := func(version string) (answered string) {
		target := "/v2/models/iris/infer"
		if version != "" {
			target = "/v2/models/iris/versions/" + version + "/infer"
		}
		r := s.Post(target, `{"inputs":[{"name":"input","datatype":"FP32","shape":[1,4],"data":[5.1,3.5,1.4,0.2]}]}`)
		defer r.Body.Close()
		var answer struct {
			Version string `json:"model_version"`
			Error   any    `json:"error"`
		}
		_ = json.NewDecoder(r.Body).Decode(&answer)
		if answer.Version == "" {
			t.Errorf("status %d: %v", r.StatusCode, answer.Error)
		}
		return answer.Version
	}
	if got := predict(""); got != "1" {
		t.Fatalf("version %s answers before the rollout", got)
	}
	status, _, text := s.Rollout("", `{"model": "iris", "candidate": "2", "sticky": "request", "gates": {"ttft_ratio": -1, "p99_ratio": -1, "compute_ratio": -1},
		"steps": [{"percent": 50, "min_requests": 50, "min_time": "300ms"}]}`)
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	done := s.AwaitRollout(rollout.Promoted, func(int) { predict("") })
	if done.Arms[0].Requests == 0 || done.Arms[1].Requests < 50 {
		t.Errorf("%+v", done.Arms)
	}
	if got := predict(""); got != "2" {
		t.Errorf("version %s answers after the promotion", got)
	}
	if got := predict("1"); got != "1" {
		t.Errorf("version %s answers a request for 1", got)
	}
	status, _, text = s.Rollout("", `{"model": "iris", "stable": "2", "candidate": "1", "steps": [{"percent": 50, "min_requests": 5000, "min_time": "1h"}]}`)
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	if status, st, text := s.Rollout("/abort", `{"model": "iris"}`); status != http.StatusOK || st.State != rollout.Aborted {
		t.Errorf("%d %s", status, text)
	}
	if got := predict(""); got != "2" {
		t.Errorf("version %s answers after an abort", got)
	}
	if status, _, text := s.Rollout("/kill", ""); status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}
	if status, _, _ := s.Rollout("", `{"model": "iris", "stable": "2", "candidate": "1"}`); status != http.StatusConflict {
		t.Errorf("after the kill switch: %d", status)
	}
}
