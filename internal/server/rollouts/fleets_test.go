package rollouts_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/configs"
	"weir/internal/defaultmodel"
	"weir/internal/server/servertest"
	"weir/router/fleet"
	"weir/router/rollout"
)

// A version that other servers compute is promoted through copies and shares, and one that writes garbage is taken
// back before a client gets it. The name stays where a rollout or an operator has moved it, also through a reload.
func TestRolloutsBetweenFleets(t *testing.T) {
	if testing.Short() {
		t.Skip("steps of a rollout take seconds")
	}
	one, two := servertest.Start(t, nil), servertest.Start(t, servertest.Records(servertest.Record("other", servertest.ChangedFile(t, "other", 1), nil)))
	bad := servertest.Start(t, servertest.Records(servertest.Record("garbled", garbledModel(t), nil)))
	var from servertest.Source
	s := servertest.StartFrom(t, &from, func(c *configs.Config) {
		c.Models = []configs.ServedModel{servertest.ChatVersion("1", one.API, configs.EmbeddedName), servertest.ChatVersion("2", two.API, "other"), servertest.ChatVersion("bad", bad.API, "garbled")}
		c.Models[1].Load, c.Models[2].Load = configs.LoadNever, configs.LoadNever
	})
	if arm, version := s.Talk(1); arm != "" || version != "1" {
		t.Fatalf("arm %q, version %q before a rollout", arm, version)
	}
	got := s.Post("/v1/chat/completions", `{"model":"chat@2","messages":[{"role":"user","content":"Hello"}],"max_tokens":2}`)
	if text := servertest.Body(t, got); got.Header.Get("X-Weir-Version") != "2" || !strings.Contains(text, `"model":"chat"`) {
		t.Errorf("a version that is named: %v %s", got.Header, text)
	}
	if got := s.Post("/v1/chat/completions", `{"model":"chat@9","messages":[]}`); got.StatusCode != http.StatusNotFound {
		t.Errorf("a version that is not there: %d", got.StatusCode)
	}
	if status, _, text := s.Rollout("", `{"model": "chat", "candidate": "9"}`); status != http.StatusNotFound {
		t.Errorf("%d %s", status, text)
	}

	status, _, text := s.Rollout("", `{"model": "chat", "candidate": "bad", "unchecked": true, "gates": {"distance": 0.3, "ttft_ratio": -1, "p99_ratio": -1, "compute_ratio": -1, "itl_ratio": -1},
		"steps": [{"shadow": 100, "min_requests": 20, "min_time": "1m"}, {"percent": 100, "min_requests": 1, "min_time": "1m"}]}`)
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	begun := time.Now()
	done := s.AwaitRollout(rollout.RolledBack, func(n int) { s.Talk(n) })
	t.Logf("garbage: taken back within %v after %d copies: %s", time.Since(begun).Round(time.Millisecond), done.Copies, done.Reason)
	if done.Arms[1].Requests != 0 {
		t.Errorf("%d clients got the garbage", done.Arms[1].Requests)
	}

	// Latencies of a small model on a busy machine tell nothing.
	status, _, text = s.Rollout("", `{"model": "chat", "candidate": "2", "gates": {"ttft_ratio": -1, "p99_ratio": -1, "compute_ratio": -1, "itl_ratio": -1, "distance": 0.2}, `+quickSteps+`}`)
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	var mu sync.Mutex
	arms := map[int]map[string]bool{}
	done = s.AwaitRollout(rollout.Promoted, func(n int) {
		arm, _ := s.Talk(n % 40)
		mu.Lock()
		defer mu.Unlock()
		if arms[n%40] == nil {
			arms[n%40] = map[string]bool{}
		}
		arms[n%40][arm] = true
	})
	if done.Copies < 10 || done.Arms[1].Requests < 30 {
		t.Errorf("%d copies, %+v", done.Copies, done.Arms)
	}
	s.AwaitVersion("2")
	if status, text := s.Reload(); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	s.AwaitVersion("2")
	if status, _, body := s.ChangeModel("rollback", "chat", ""); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	s.AwaitVersion("1")
	if _, text := s.Get(s.Admin + "/metrics"); !strings.Contains(text, `weir_route_requests_total{model_name="chat@2"`) {
		t.Error("the metrics do not tell the versions apart")
	}
}

// A version that is right and slow is taken back, and so is one whose replica fails; their clients are few.
func TestSlowAndFailingFleetsAreRolledBack(t *testing.T) {
	if testing.Short() {
		t.Skip("answers of the slow version take a second each")
	}
	one := servertest.Start(t, nil)
	at, err := url.Parse(one.API)
	if err != nil {
		t.Fatal(err)
	}
	behind := func(work func(w http.ResponseWriter) (done bool)) *httptest.Server {
		through := httputil.NewSingleHostReverseProxy(at)
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost || !work(w) {
				through.ServeHTTP(w, r)
			}
		}))
		t.Cleanup(front.Close)
		return front
	}
	slow := behind(func(http.ResponseWriter) bool { time.Sleep(time.Second); return false })
	failing := behind(func(w http.ResponseWriter) bool {
		http.Error(w, `{"error":{"message":"the model is broken"}}`, http.StatusInternalServerError)
		return true
	})
	s := servertest.Start(t, func(c *configs.Config) {
		c.Models = []configs.ServedModel{servertest.ChatVersion("1", one.API, configs.EmbeddedName)}
		for version, front := range map[string]*httptest.Server{"slow": slow, "failing": failing} {
			m := servertest.ChatVersion(version, front.URL, configs.EmbeddedName)
			m.Load = configs.LoadNever
			c.Models = append(c.Models, m)
		}
	})
	for candidate, reason := range map[string]string{"slow": "whole answer", "failing": "fail"} {
		begun := time.Now()
		status, _, text := s.Rollout("", `{"model": "chat", "candidate": "`+candidate+`", "sticky": "request", "unchecked": true,
			"steps": [{"percent": 20, "min_requests": 100000, "min_time": "10m", "max_time": "20m"}]}`)
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
		done := s.AwaitRollout(rollout.RolledBack, func(n int) {
			r := s.Post("/v1/chat/completions", fmt.Sprintf(`{"model":"chat","messages":[{"role":"user","content":"Hello"}],"temperature":0,"max_tokens":20,"user":"%d"}`, n))
			_, _ = io.Copy(io.Discard, r.Body)
			r.Body.Close()
		})
		took, harmed := time.Since(begun), done.Changes[len(done.Changes)-1].Harmed
		t.Logf("%s: taken back within %v, %d answers of the candidate, %d harmed: %s", candidate, took.Round(time.Millisecond), done.Arms[1].Requests, harmed, done.Reason)
		if took > time.Minute || !strings.Contains(done.Reason, reason) {
			t.Errorf("%s: after %v, %q", candidate, took, done.Reason)
		}
	}
}

// A tree model whose answers drift away from what its profile has of them is taken back. How often clients ask does not
// count: the share is judged by windows.
func TestDriftingModelIsRolledBack(t *testing.T) {
	if testing.Short() {
		t.Skip("drift is judged by several windows of a second")
	}
	t.Parallel() // most of it is waiting
	folder := t.TempDir()
	model, _ := defaultmodel.Iris()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("iris.json", model)
	// All petals of the reference are long; those that are asked for are short.
	drifted := write("drifted.profile.json", `{"weir_profile": 1, "rows": 100, "features": [
		{"name": "input.2", "edges": [2, 4], "counts": [1, 9, 90], "missing": 0, "min": 1, "max": 7}]}`)
	steady := write("steady.profile.json", `{"weir_profile": 1, "rows": 100, "features": [
		{"name": "input.2", "edges": [2, 4], "counts": [100, 0, 0], "missing": 0, "min": 1, "max": 7}]}`)
	s := servertest.Start(t, func(c *configs.Config) {
		c.Predict.Drift = configs.Drift{Window: time.Second, MinRows: 10, PSI: 0.2}
		for i, profile := range []string{steady, drifted} {
			m := configs.NewClassic("iris", filepath.Join(folder, "iris.json"))
			m.Version, m.Candidate, m.Profile = fmt.Sprint(i+1), i == 1, profile
			c.Classic = append(c.Classic, m)
		}
	})
	predict := func(int) {
		r := s.Post("/v2/models/iris/infer", `{"inputs":[{"name":"input","datatype":"FP32","shape":[1,4],"data":[5.1,3.5,1.4,0.2]}]}`)
		if r.StatusCode != http.StatusOK {
			t.Errorf("status %d", r.StatusCode)
		}
		r.Body.Close()
	}
	status, _, text := s.Rollout("", `{"model": "iris", "candidate": "2", "sticky": "request", "gates": {"ttft_ratio": -1, "p99_ratio": -1, "compute_ratio": -1},
		"steps": [{"percent": 20, "min_requests": 1000000, "min_time": "10m"}]}`)
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	begun := time.Now()
	done := s.AwaitRollout(rollout.RolledBack, predict)
	t.Logf("taken back within %v after %d answers of the candidate: %s", time.Since(begun).Round(time.Millisecond), done.Arms[1].Requests, done.Reason)
	if !strings.Contains(done.Reason, "drift") {
		t.Errorf("the reason is %q", done.Reason)
	}
}

// Versions of a tree model that other servers compute: one whose replicas' scores drift is taken back, one whose replicas fail
// as above, and a good one is promoted. A version that is named gets what it asks for.
func TestRolloutsOfClassicalFleets(t *testing.T) {
	if testing.Short() {
		t.Skip("drift is judged by several windows of a second")
	}
	t.Parallel() // most of it is waiting
	trees := [2]*servertest.Server{servertest.Start(t, nil), servertest.Start(t, nil)}
	failing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/infer") {
			http.Error(w, `{"error":"the model is broken"}`, http.StatusInternalServerError)
			return
		}
		_, about := trees[0].Get(trees[0].API + r.URL.Path)
		_, _ = io.WriteString(w, about)
	}))
	defer failing.Close()
	_, about := trees[0].Get(trees[0].API + "/v2/models/" + defaultmodel.IrisName)
	input := regexp.MustCompile(`"inputs":\[\{"name":"([^"]*)"`).FindStringSubmatch(about)
	if input == nil {
		t.Fatal(about)
	}
	profile := filepath.Join(t.TempDir(), "profile.json") // all petals of the reference are long
	if err := os.WriteFile(profile, []byte(`{"weir_profile": 1, "rows": 100, "features": [
		{"name": "`+input[1]+`.2", "edges": [2, 4], "counts": [1, 9, 90], "missing": 0, "min": 1, "max": 7}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := servertest.Start(t, func(c *configs.Config) {
		c.Predict.Drift = configs.Drift{Window: time.Second, MinRows: 10, PSI: 0.2}
		for _, v := range []struct{ version, url, profile string }{
			{"1", trees[0].API, ""}, {"2", trees[1].API, ""}, {"failing", failing.URL, ""}, {"drifted", trees[1].API, profile},
		} {
			m := configs.NewClassic("flowers", "")
			m.Version, m.Candidate, m.Profile = v.version, v.version != "1", v.profile
			m.Replicas = []fleet.Source{{URL: v.url, Kind: fleet.Weir, Model: defaultmodel.IrisName}}
			c.Classic = append(c.Classic, m)
		}
	})
	ask := func(version string) (status int, answered string) {
		path := "/v2/models/flowers/infer"
		if version != "" {
			path = "/v2/models/flowers/versions/" + version + "/infer"
		}
		r := s.Post(path, `{"inputs":[{"name":"`+input[1]+`","datatype":"FP32","shape":[1,4],"data":[5.1,3.5,1.4,0.2]}]}`)
		defer r.Body.Close()
		var answer struct {
			Version string `json:"model_version"`
		}
		_ = json.NewDecoder(r.Body).Decode(&answer)
		return r.StatusCode, answer.Version
	}
	for end := time.Now().Add(servertest.Patience); ; time.Sleep(5 * time.Millisecond) {
		ready := true
		for _, version := range []string{"", "2", "drifted"} {
			status, _ := ask(version)
			ready = ready && status == http.StatusOK
		}
		if status, _ := ask("failing"); ready && status != http.StatusNotFound {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the versions are not ready\n%s", s.Errs.String())
		}
	}
	if _, version := ask(""); version != "1" {
		t.Errorf("version %s answers before a rollout", version)
	}
	if status, _ := ask("9"); status != http.StatusNotFound {
		t.Errorf("a version that is not there: %d", status)
	}
	for _, candidate := range []string{"failing", "drifted"} {
		status, _, text := s.Rollout("", `{"model": "flowers", "candidate": "`+candidate+`", "sticky": "request", "unchecked": true, "gates": {"ttft_ratio": -1, "p99_ratio": -1, "compute_ratio": -1},
			"steps": [{"percent": 20, "min_requests": 1000000, "min_time": "10m"}]}`)
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
		begun := time.Now()
		done := s.AwaitRollout(rollout.RolledBack, func(int) { ask("") })
		t.Logf("%s: taken back within %v, %d harmed: %s", candidate, time.Since(begun).Round(time.Millisecond), done.Changes[len(done.Changes)-1].Harmed, done.Reason)
		if _, version := ask(""); version != "1" {
			t.Errorf("version %s answers after the rollback", version)
		}
	}
	status, _, text := s.Rollout("", `{"model": "flowers", "candidate": "2", "sticky": "request", "gates": {"ttft_ratio": -1, "p99_ratio": -1, "compute_ratio": -1},
		"steps": [{"percent": 50, "min_requests": 50, "min_time": "1s"}]}`)
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	if done := s.AwaitRollout(rollout.Promoted, func(int) { ask("") }); done.Arms[0].Requests == 0 || done.Arms[1].Requests < 50 {
		t.Errorf("%+v", done.Arms)
	}
	if _, version := ask(""); version != "2" {
		t.Errorf("version %s answers after the promotion", version)
	}
	if _, version := ask("1"); version != "1" {
		t.Errorf("version %s answers a request for 1", version)
	}
}

// A client that floods the page of deployments starts one rollout of a model at a time, and what is kept of the past has a bound.
func TestFloodOfDeployments(t *testing.T) {
	model, _ := defaultmodel.Iris()
	path := filepath.Join(t.TempDir(), "iris.json")
	if err := os.WriteFile(path, []byte(model), 0o600); err != nil {
		t.Fatal(err)
	}
	s := servertest.Start(t, func(c *configs.Config) {
		for i := range 2 {
			m := configs.NewClassic("iris", path)
			m.Version, m.Candidate = fmt.Sprint(i+1), i == 1
			c.Classic = append(c.Classic, m)
		}
	})
	const body = `{"model": "iris", "candidate": "2", "steps": [{"percent": 1, "min_requests": 5000, "min_time": "1h"}]}`
	var mu sync.Mutex
	statuses := map[int]int{}
	var all sync.WaitGroup
	for range 24 {
		all.Go(func() {
			status, _, _ := s.Rollout("", body)
			mu.Lock()
			defer mu.Unlock()
			statuses[status]++
		})
	}
	all.Wait()
	if statuses[http.StatusOK] != 1 || statuses[http.StatusConflict] != 23 {
		t.Errorf("%v", statuses)
	}
	for _, wrong := range []string{`{"model":"` + strings.Repeat("x", 1<<20) + `"}`, strings.Repeat("[", 1<<16), "", `{"model": "iris", "candidate": "2"} {}`} {
		if status, _, text := s.Rollout("", wrong); status != http.StatusBadRequest {
			t.Errorf("%.40q: %d %.200s", wrong, status, text)
		}
	}
	for range 60 {
		if status, _, text := s.Rollout("/abort", `{"model": "iris"}`); status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
		if status, _, text := s.Rollout("", body); status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
	}
	if list := s.Rollouts(); len(list) > 40 || list[0].State != rollout.Running {
		t.Errorf("%d rollouts are kept, the first is %s", len(list), list[0].State)
	}
}
