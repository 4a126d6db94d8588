package rollouts_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
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
	"weir/scheduler/quota"
)

// A candidate that turns bad once it has users, in whichever way, is taken back, and no user gets an error: the stable version answers what it
// fails, whole answers and streams, and only its answer is billed.
func TestUsersOfABadCandidateAreSpared(t *testing.T) {
	reference.Slow(t)
	t.Parallel() // most of it is waiting
	fine := new(atomic.Bool)
	stable := servertest.Upstream(t, fine, 0)
	for _, status := range []int{http.StatusBadRequest, http.StatusNotFound, http.StatusRequestEntityTooLarge, http.StatusTooManyRequests, http.StatusInternalServerError, servertest.CutOff} {
		bad := new(atomic.Bool)
		candidate := servertest.Upstream(t, bad, status)
		path := filepath.Join(t.TempDir(), "weir.db")
		s := servertest.Start(t, func(c *configs.Config) {
			c.Store.URL = "sqlite:" + path
			c.Models = []configs.ServedModel{servertest.ChatVersion("1", stable.URL, "m"), servertest.ChatVersion("bad", candidate.URL, "m")}
			c.Models[1].Load = configs.LoadNever
		})
		s.AwaitVersion("1")
		if got, _, text := s.Rollout("", `{"model": "chat", "candidate": "bad", "gates": {"ttft_ratio": -1, "itl_ratio": -1, "p99_ratio": -1}, "steps": [{"percent": 50, "min_requests": 100000, "min_time": "10m"}]}`); got != http.StatusOK {
			t.Fatalf("%d: %d %s", status, got, text)
		}
		var asked, harmed atomic.Int64
		asked.Store(1) // answersWith
		ask := func(n int) (arm string) {
			asked.Add(1)
			if n%2 == 0 {
				arm, whole := s.AskStream(n)
				if !whole {
					harmed.Add(1)
				}
				return arm
			}
			arm, got, _ := s.AskChat(n, 8)
			if got != http.StatusOK {
				harmed.Add(1)
			}
			return arm
		}
		for n := range 60 {
			ask(n)
		}
		bad.Store(true)
		begun := time.Now()
		done := s.AwaitRollout(rollout.RolledBack, func(n int) {
			if arm := ask(1000 + n); arm == rollout.Candidate.String() {
				t.Errorf("%d: the candidate is said to answer, and cannot", status)
			}
		})
		t.Logf("%d: taken back within %v, %d requests that the candidate failed, %d of %d users harmed: %s", status, time.Since(begun).Round(time.Millisecond),
			done.Arms[1].Failed+done.Arms[1].Denied+done.Arms[1].Throttled, harmed.Load(), asked.Load(), done.Reason)
		if harmed.Load() > 0 {
			t.Errorf("%d: %d users were harmed", status, harmed.Load())
		}
		if err := s.End(); err != nil {
			t.Fatal(err)
		}
		if in, out := billed(t, path); in != 5*asked.Load() || out != 4*asked.Load() {
			t.Errorf("%d: %d requests are billed with %d and %d tokens", status, asked.Load(), in, out)
		}
	}
}

// Users of a model that gives vectors get the stable version's vector where the candidate fails, and only that one is billed.
func TestUsersOfBadVectorsAreSpared(t *testing.T) {
	reference.Slow(t)
	t.Parallel() // most of it is waiting
	stable := servertest.EmbeddingUpstream(t, bagOfWords(1))
	for _, status := range []int{http.StatusBadRequest, http.StatusTooManyRequests, http.StatusInternalServerError, servertest.CutOff, http.StatusOK} {
		bad := new(atomic.Bool)
		candidate := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case !bad.Load() || r.Method != http.MethodPost:
				stable.Config.Handler.ServeHTTP(w, r)
			case status == servertest.CutOff:
				panic(http.ErrAbortHandler)
			case status == http.StatusOK:
				_, _ = io.WriteString(w, `{"object":"list","model":"m"}`) // and no vectors
			default:
				w.WriteHeader(status)
				_, _ = io.WriteString(w, `{"error":{"message":"no room","code":"wrong"}}`)
			}
		}))
		t.Cleanup(candidate.Close)
		path := filepath.Join(t.TempDir(), "weir.db")
		s := servertest.Start(t, func(c *configs.Config) {
			c.Store.URL = "sqlite:" + path
			c.Models = []configs.ServedModel{servertest.ChatVersion("1", stable.URL, "m"), servertest.ChatVersion("bad", candidate.URL, "m")}
			c.Models[1].Load = configs.LoadNever
		})
		var asked atomic.Int64
		ask := func(n int) (arm string) {
			asked.Add(1)
			r := s.Post("/v1/embeddings", fmt.Sprintf(`{"model":"chat","input":["hello world"],"prompt_cache_key":"conversation %d"}`, n))
			defer r.Body.Close()
			var got struct {
				Data []struct{ Embedding []float64 }
			}
			if err := json.NewDecoder(r.Body).Decode(&got); err != nil || r.StatusCode != http.StatusOK || len(got.Data) != 1 || len(got.Data[0].Embedding) != vectorWidth {
				t.Errorf("%d: a user gets status %d, %v, %d vectors", status, r.StatusCode, err, len(got.Data))
			}
			return r.Header.Get("X-Weir-Arm")
		}
		if got, _, text := s.Rollout("", `{"model": "chat", "candidate": "bad", "sticky": "request", "gates": {"ttft_ratio": -1, "itl_ratio": -1, "p99_ratio": -1}, "steps": [{"percent": 50, "min_requests": 100000, "min_time": "10m"}]}`); got != http.StatusOK {
			t.Fatalf("%d: %d %s", status, got, text)
		}
		asked.Store(0)
		for n := range 60 {
			ask(n)
		}
		bad.Store(true)
		done := s.AwaitRollout(rollout.RolledBack, func(n int) {
			if arm := ask(1000 + n); arm == rollout.Candidate.String() {
				t.Errorf("%d: the candidate is said to answer, and cannot", status)
			}
		})
		t.Logf("%d: %d requests that the candidate failed, of %d, none harmed: %s", status, done.Arms[1].Failed+done.Arms[1].Denied+done.Arms[1].Throttled, asked.Load(), done.Reason)
		if err := s.End(); err != nil {
			t.Fatal(err)
		}
		if in, _ := billed(t, path); in != 9*asked.Load()+checkedTokens(t, path) {
			t.Errorf("%d: %d requests are billed with %d tokens", status, asked.Load(), in)
		}
	}
}

// checkedTokens is what the check of a candidate has read.
func checkedTokens(t *testing.T, path string) (input int64) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRowContext(t.Context(), `SELECT COALESCE(sum(input), 0) FROM weir_usage WHERE tenant = 'weir-check'`).Scan(&input); err != nil {
		t.Fatal(err)
	}
	return input
}

// billed is what a store's ledger has.
func billed(t *testing.T, path string) (input, output int64) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRowContext(t.Context(), `SELECT sum(input), sum(output) FROM weir_usage`).Scan(&input, &output); err != nil {
		t.Fatal(err)
	}
	return input, output
}

// With the gates and steps that a plan has by itself, a candidate that answers 400 or 429, or garbage of the usual length at 8 tokens
// and at 40, has no user, in this process and elsewhere; and where the check is left out or the candidate turns bad behind it, few.
func TestBadCandidatesHarmNoUsers(t *testing.T) {
	reference.Slow(t)
	t.Parallel() // most of it is waiting
	fine := new(atomic.Bool)
	stable := servertest.Upstream(t, fine, 0)
	garbage := servertest.Start(t, servertest.Records(servertest.Record("garbled", garbledModel(t), nil)))
	local := servertest.Start(t, servertest.Records(
		servertest.Record("chat", configs.BuiltinPath, func(m *configs.ServedModel) { m.Version = "1" }),
		servertest.Record("chat", garbledModel(t), func(m *configs.ServedModel) { m.Version, m.Load = "garbled", configs.LoadNever }),
	))
	for _, c := range []struct{ name, code string }{{"garbled", "candidate_failed_check"}} {
		begun := time.Now()
		status, _, text := local.Rollout("", `{"model": "chat", "candidate": "`+c.name+`"}`)
		t.Logf("%s, in this process: refused within %v, no user: %.160s", c.name, time.Since(begun).Round(time.Millisecond), text)
		if status != http.StatusConflict || !strings.Contains(text, c.code) {
			t.Errorf("%s: %d %s", c.name, status, text)
		}
	}
	for status, name := range map[int]string{http.StatusBadRequest: "400", http.StatusTooManyRequests: "429"} {
		bad := new(atomic.Bool)
		bad.Store(true)
		candidate := servertest.Upstream(t, bad, status)
		s := servertest.Start(t, func(c *configs.Config) {
			c.Models = []configs.ServedModel{
				servertest.ChatVersion("1", stable.URL, "m"), servertest.ChatVersion("bad", candidate.URL, "m"), servertest.ChatVersion("garbled", garbage.API, "garbled"),
			}
			c.Models[1].Load, c.Models[2].Load = configs.LoadNever, configs.LoadNever
		})
		s.AwaitVersion("1")
		for candidate := range map[string]bool{"bad": true, "garbled": true} {
			begun := time.Now()
			got, _, text := s.Rollout("", `{"model": "chat", "candidate": "`+candidate+`"}`)
			t.Logf("%s of %s, a fleet: refused within %v, no user: %.160s", candidate, name, time.Since(begun).Round(time.Millisecond), text)
			if got != http.StatusConflict || !strings.Contains(text, "candidate_failed_check") {
				t.Errorf("%s, checked: %d %s", name, got, text)
			}
		}
		bad.Store(false) // good while it is checked, and bad with users
		got, _, text := s.Rollout("", `{"model": "chat", "candidate": "bad", "gates": {"ttft_ratio": -1, "itl_ratio": -1, "p99_ratio": -1}, "steps": [{"percent": 20, "min_requests": 100000, "min_time": "10m"}]}`)
		if got != http.StatusOK {
			t.Fatalf("%s: %d %s", name, got, text)
		}
		for n := range 100 {
			s.AskChat(n, 8)
		}
		bad.Store(true)
		begun := time.Now()
		var wrong atomic.Int64
		done := s.AwaitRollout(rollout.RolledBack, func(n int) {
			if _, got, _ := s.AskChat(1000+n, 8); got != http.StatusOK {
				wrong.Add(1)
			}
		})
		t.Logf("%s behind its check: taken back within %v, %d users harmed: %s", name, time.Since(begun).Round(time.Millisecond), wrong.Load(), done.Reason)
		if wrong.Load() > 0 { // the stable version answers what the candidate fails
			t.Errorf("%s: %d users were harmed", name, wrong.Load())
		}
	}
}

// A candidate whose tokens cost twice as much by its own price is taken back, though it answers the same.
func TestPriceOfAVersion(t *testing.T) {
	s := servertest.Start(t, func(c *configs.Config) {
		c.Models = []configs.ServedModel{
			servertest.Record("chat", configs.BuiltinPath, func(m *configs.ServedModel) { m.Version = "1" }),
			servertest.Record("chat", configs.BuiltinPath, func(m *configs.ServedModel) { m.Version, m.Load = "2", configs.LoadNever }),
		}
		c.Prices = map[string]quota.Price{"chat": {Input: 1e6, Output: 2e6}, "chat@2": {Input: 2e6, Output: 4e6}}
	})
	status, _, text := s.Rollout("", `{"model": "chat", "candidate": "2", "gates": {"ttft_ratio": -1, "itl_ratio": -1, "p99_ratio": -1, "compute_ratio": -1},
		"steps": [{"percent": 50, "min_requests": 1000000, "min_time": "10m"}]}`)
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	begun := time.Now()
	done := s.AwaitRollout(rollout.RolledBack, func(n int) { s.AskChat(n, 20) })
	t.Logf("taken back within %v, %d answers of the candidate: %s", time.Since(begun).Round(time.Millisecond), done.Arms[1].Requests, done.Reason)
	if !strings.Contains(done.Reason, "mean cost") || done.Arms[1].Cost < 1.5*done.Arms[0].Cost {
		t.Errorf("%s: %+v", done.Reason, done.Arms)
	}
}

// What is told of answers counts for the arm that gave them, by the id in the body or in the header; a candidate whose users are
// unhappy is taken back.
func TestOutcomesOverHTTP(t *testing.T) {
	s := servertest.Start(t, servertest.Records(
		servertest.Record("chat", configs.BuiltinPath, func(m *configs.ServedModel) { m.Version = "1" }),
		servertest.Record("chat", configs.BuiltinPath, func(m *configs.ServedModel) { m.Version, m.Load = "2", configs.LoadNever }),
	))
	status, _, text := s.Rollout("", `{"model": "chat", "candidate": "2", "gates": {"ttft_ratio": -1, "itl_ratio": -1, "p99_ratio": -1, "compute_ratio": -1},
		"steps": [{"percent": 50, "min_requests": 1000000, "min_time": "10m"}]}`)
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	tell := func(at, body string) int {
		r, err := http.Post(at+"/v1/outcomes", "application/json", strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return 0
		}
		r.Body.Close()
		return r.StatusCode
	}
	for body, want := range map[string]int{`{"id": "chatcmpl-unknown", "thumbs": "up"}`: http.StatusNotFound, `{"id": "x", "thumbs": 7}`: http.StatusBadRequest, `nothing`: http.StatusBadRequest} {
		for _, at := range []string{s.API, s.Admin} {
			if got := tell(at, body); got != want {
				t.Errorf("%s: %d", body, got)
			}
		}
	}
	var told sync.Map
	done := s.AwaitRollout(rollout.RolledBack, func(n int) {
		arm, _, id := s.AskChat(n, 3)
		if arm == "" {
			return
		}
		thumbs := "up"
		if arm == rollout.Candidate.String() {
			thumbs = "down"
		}
		body := `{"id": "` + id + `", "thumbs": "` + thumbs + `"}`
		for _, at := range []string{s.API, s.Admin} { // the second one changes nothing
			if got := tell(at, body); got != http.StatusOK && got != http.StatusNotFound {
				t.Errorf("%s: %d", body, got)
			} else if got == http.StatusOK {
				told.Store(id, true)
			}
		}
	})
	n := 0
	told.Range(func(any, any) bool { n++; return true })
	got := done.Arms[0].Signals["thumbs"].Answers + done.Arms[1].Signals["thumbs"].Answers
	t.Logf("taken back after %d words: %s", got, done.Reason)
	if !strings.Contains(done.Reason, "thumbs") || got > n || got == 0 {
		t.Errorf("%d of %d words count: %s", got, n, done.Reason)
	}
}

// A process that is killed in a step, the last one included, goes on in it with what was seen of both arms, and the rollout comes to
// its end.
func TestRolloutSurvivesKillsInEveryStep(t *testing.T) {
	if testing.Short() {
		t.Skip("takes the leases of killed processes")
	}
	t.Parallel()
	folder := t.TempDir()
	file := filepath.Join(folder, "weir.yml")
	if err := os.WriteFile(file, []byte(`store: {url: "sqlite:`+filepath.Join(folder, "weir.db")+`"}
models:
  - {name: chat, version: "1", path: builtin}
  - {name: chat, version: "2", path: builtin, load: never}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func() *servertest.Process {
		return servertest.StartProcessWith(t, servertest.BriefLease, 512, "--config", file)
	}
	p := run()
	p.AwaitVersion("1")
	status, _, text := p.Rollout("", `{"model": "chat", "candidate": "2", "copy_share": 1, "gates": {"ttft_ratio": -1, "itl_ratio": -1, "p99_ratio": -1, "compute_ratio": -1}, "steps": [
		{"shadow": 100, "min_requests": 20, "min_time": "2s"}, {"percent": 30, "min_requests": 30, "min_time": "2s"}, {"percent": 100, "min_requests": 30, "min_time": "2s"}]}`)
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	asked := 0
	turn := time.NewTicker(servertest.ClientPace) // a step lasts two seconds, however often it is asked
	defer turn.Stop()
	for step := 1; step <= 3; step++ {
		var before rollout.Status
		for end := time.Now().Add(servertest.Patience); ; {
			for range 5 {
				<-turn.C
				p.AskChat(asked, 4)
				asked++
			}
			if before = p.Rollouts()[0]; before.Step == step && (before.Compared != nil && before.Compared.Compared > 3 || before.Arms[1].InStep > 5) {
				break
			}
			if before.Step > step || before.State != rollout.Running || time.Now().After(end) {
				t.Fatalf("waiting for step %d: %+v", step, before)
			}
		}
		awaitKept(t, filepath.Join(folder, "weir.db"), step)
		p.Kill()
		p = run() // on another port: it cannot know that it takes the dead one's place, and waits for its lease
		p.AwaitLastRollout(rollout.Running)
		after := p.Rollouts()[0]
		seen := func(st rollout.Status) int { return st.Arms[0].Requests + st.Arms[1].Requests + st.Copies }
		t.Logf("killed in step %d of %d: %d seen before, %d after", step, len(before.Plan.Steps), seen(before), seen(after))
		if after.State != rollout.Running || after.Step < step || seen(after) == 0 || step > 1 && after.Arms[0].Requests == 0 {
			t.Errorf("killed in step %d: before %+v, after %+v", step, before, after)
		}
	}
	for end := time.Now().Add(servertest.Patience); ; {
		<-turn.C
		p.AskChat(asked, 4)
		asked++
		if st := p.Rollouts()[0]; st.State == rollout.Promoted {
			break
		} else if st.State != rollout.Running || time.Now().After(end) {
			t.Fatalf("%+v", st)
		}
	}
}

// awaitKept waits until the store has something of a step.
func awaitKept(t *testing.T, path string, step int) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for end := time.Now().Add(servertest.Patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		var record []byte
		if err := db.QueryRowContext(t.Context(), `SELECT record FROM weir_rollouts`).Scan(&record); err != nil {
			continue // it is being written
		}
		run, err := rollout.Restore(record, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if st := run.Status(time.Now()); st.Step >= step && (st.Compared != nil || st.Arms[1].InStep > 0) {
			return
		}
	}
	t.Error("nothing of the step is kept")
}

// An operator's rollback during a rollout ends it; what fails is audited as failed.
func TestRollbackEndsARollout(t *testing.T) {
	folder := t.TempDir()
	s := servertest.Start(t, func(c *configs.Config) {
		c.Store.URL = "sqlite:" + filepath.Join(folder, "weir.db")
		c.Models = []configs.ServedModel{
			servertest.Record("chat", configs.BuiltinPath, func(m *configs.ServedModel) { m.Version = "1" }),
			servertest.Record("chat", configs.BuiltinPath, func(m *configs.ServedModel) { m.Version, m.Load = "2", configs.LoadNever }),
		}
	})
	if status, _, text := s.Rollout("", `{"model": "chat", "candidate": "2", "unchecked": true, "steps": [{"percent": 50, "min_requests": 1000000, "min_time": "10m"}]}`); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	if status, _, body := s.ChangeModel("rollback", "chat", ""); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	if st := s.Rollouts()[0]; st.State != rollout.Aborted {
		t.Errorf("the rollout is %s", st.State)
	}
	for n := range 20 {
		if arm, status, _ := s.AskChat(n, 2); arm != "" || status != http.StatusOK {
			t.Errorf("after the rollback: arm %q, status %d", arm, status)
		}
	}
	if status, _, _ := s.ChangeModel("rollback", "chat", ""); status == http.StatusOK {
		t.Error("a rollback without a version to go back to is done")
	}
	if err := s.End(); err != nil {
		t.Fatal(err)
	}
	list := servertest.AuditLog(t, "sqlite:"+filepath.Join(folder, "weir.db"))
	if !strings.Contains(list, "model.rollback") || strings.Count(list, `failed`) != 1 {
		t.Errorf("the audit log:\n%s", list)
	}
}
