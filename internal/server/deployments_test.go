package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/store/storetest"

	"weir/api/admin"
	"weir/configs"
	"weir/internal/defaultmodel"
	"weir/internal/reference"
	"weir/internal/server/servertest"
	"weir/router/deployment"
)

// readyOn says that servers answer as a deployment wants it. What is left of one that was killed ends with its lease.
func readyOn(servers ...*servertest.Process) func(v *admin.DeploymentView) bool {
	return func(v *admin.DeploymentView) bool {
		for _, p := range servers {
			if !slices.ContainsFunc(v.Instances, func(o deployment.Observation) bool {
				return "http://"+o.Instance == p.API && o.State == deployment.Serving && o.Generation == v.Generation && o.Answers == v.Label && o.Why == ""
			}) {
				return false
			}
		}
		return true
	}
}

// slowHub serves the model in the binary; after half of it every transfer waits for release.
type slowHub struct {
	*httptest.Server
	gate    chan struct{}
	release func()
}

func newSlowHub(t *testing.T) *slowHub {
	h := &slowHub{gate: make(chan struct{})}
	h.release = sync.OnceFunc(func() { close(h.gate) })
	model := defaultmodel.GGUF()
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.Header.Get("Range") == "bytes=0-0" {
			http.ServeContent(w, r, "model.gguf", time.Unix(1, 0), bytes.NewReader(model))
			return
		}
		http.ServeContent(&halfway{ResponseWriter: w, left: len(model) / 2, hub: h, r: r}, r, "model.gguf", time.Unix(1, 0), bytes.NewReader(model))
	}))
	t.Cleanup(func() { h.release(); h.Close() })
	return h
}

type halfway struct {
	http.ResponseWriter
	left int
	hub  *slowHub
	r    *http.Request
}

func (w *halfway) Write(b []byte) (int, error) {
	if w.left -= len(b); w.left <= 0 {
		_ = http.NewResponseController(w.ResponseWriter).Flush() // what is written so far is on its way
		select {
		case <-w.hub.gate:
		case <-w.r.Context().Done():
		}
	}
	return w.ResponseWriter.Write(b)
}

// A version comes to three servers by one call. Two of them are killed while they pull it, and one before: after their start
// all three answer with the same version, which one call more takes back.
func TestADeploymentOutlivesServers(t *testing.T) {
	if testing.Short() {
		t.Skip("starts several processes")
	}
	t.Parallel()
	url := storetest.Postgres(t)
	hub := newSlowHub(t)
	folders := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	start := func(i int) *servertest.Process {
		return servertest.StartProcess(t, 1024, servertest.Peppered, "--store", url, "--models-dir", folders[i])
	}
	servers := []*servertest.Process{start(0), start(1), start(2)}

	first := servers[0].ApplyDeployment(`{"modelId": "chat", "version": "builtin", "resources": {"kvCacheBytes": "8MiB", "maxSequences": 4}, "warm": 1}`).Label
	servers[1].AwaitDeployment("chat", readyOn(servers...))
	pulled := fmt.Sprintf(`{"modelId": "chat", "version": "%s/model.gguf", "resources": {"kvCacheBytes": "8MiB"}, "warm": 1}`, hub.URL)
	servers[1].ApplyDeployment(pulled)
	v := servers[2].AwaitDeployment("chat", func(v *admin.DeploymentView) bool {
		pulling := slices.DeleteFunc(slices.Clone(v.Instances), func(o deployment.Observation) bool { return o.State != deployment.Pulling || o.DoneBytes == 0 })
		return len(pulling) == 3
	})
	if v.State != deployment.Progressing || len(v.Why) != 3 || !strings.Contains(v.Why[0], "pulling") || !strings.Contains(v.Why[0], "%") || v.Answers != first {
		t.Errorf("amid the pull: %+v", v)
	}
	servers[0].Kill()
	servers[1].Kill()
	if status, text, version := servers[2].Said("chat"); status != http.StatusOK {
		t.Errorf("amid the pull: %d %s %s", status, text, version)
	}
	hub.release()
	servers[0], servers[1] = start(0), start(1)
	v = servers[0].AwaitDeployment("chat", readyOn(servers...))
	if !strings.HasPrefix(v.Digest, "sha256:") || v.Generation != 2 || len(v.History) != 1 || v.History[0].Label != first {
		t.Errorf("%+v", v)
	}
	for i, p := range servers {
		m := p.Models()
		if got := m["chat@"+v.Label]; !got.Answers || got.State != "loaded" {
			t.Errorf("server %d: %+v", i, m)
		}
	}
	servers[2].Kill()
	servers[2] = start(2)
	servers[2].AwaitDeployment("chat", readyOn(servers...))

	servers[0].AwaitDeployment("chat", func(v *admin.DeploymentView) bool {
		v.Instances = slices.DeleteFunc(v.Instances, func(o deployment.Observation) bool { return !slices.Equal(o.Warm, []string{first}) })
		return readyOn(servers...)(v)
	})
	begun := time.Now()
	servers[0].ApplyDeployment(`{"modelId": "chat", "version": "builtin", "resources": {"kvCacheBytes": "8MiB", "maxSequences": 4}, "warm": 1}`)
	servers[1].AwaitDeployment("chat", readyOn(servers...))
	t.Logf("a warm version answers on three servers after %v", time.Since(begun))

	if status, text := servers[1].ChangeDeployment(http.MethodDelete, "/chat", ""); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	for _, p := range servers {
		for end := time.Now().Add(servertest.Patience); ; time.Sleep(20 * time.Millisecond) {
			if _, there := p.Models()["chat@"+first]; !there {
				break
			} else if time.Now().After(end) {
				t.Fatalf("after its end: %+v", p.Models())
			}
		}
	}
}

// Many deployments at once, of names of their own and of one name, over two servers on PostgreSQL and on one with SQLite: each call is
// taken, the calls for one name come one after another, and the servers end with the same.
func TestManyDeploymentsAtOnce(t *testing.T) {
	reference.Slow(t)
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		manyDeployments(t, servertest.StartProcess(t, 1024, servertest.Peppered, "--store", "sqlite:"+t.TempDir()+"/weir.db", "--models-dir", t.TempDir()))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url := storetest.Postgres(t)
		manyDeployments(t, servertest.StartProcess(t, 1024, servertest.Peppered, "--store", url, "--models-dir", t.TempDir()), servertest.StartProcess(t, 1024, servertest.Peppered, "--store", url, "--models-dir", t.TempDir()))
	})
}

func manyDeployments(t *testing.T, servers ...*servertest.Process) {
	t.Helper()
	names, same := 30, 100
	if testing.Short() {
		names, same = 12, 12
	}
	body := func(name string, sequences int) string {
		return fmt.Sprintf(`{"modelId": %q, "version": "builtin", "resources": {"kvCacheBytes": "1MiB", "maxModelLen": 64, "maxSequences": %d}}`, name, sequences)
	}
	var all sync.WaitGroup
	generations := make([]int64, same)
	begun := time.Now()
	for i := range names {
		all.Go(func() { servers[i%len(servers)].ApplyDeployment(body(fmt.Sprint("model-", i), 1)) })
	}
	for i := range same {
		all.Go(func() { generations[i] = servers[i%len(servers)].ApplyDeployment(body("same", i+1)).Generation })
	}
	all.Wait()
	t.Logf("%d calls took %v", names+same, time.Since(begun))
	if t.Failed() {
		t.FailNow()
	}
	last := servers[0].AwaitDeployment("same", readyOn(servers...))
	slices.Sort(generations)
	if len(slices.Compact(generations)) == 0 || last.Generation != int64(same) {
		t.Errorf("generation %d after %d calls with bodies of their own", last.Generation, same)
	}
	for i := range names {
		servers[i%len(servers)].AwaitDeployment(fmt.Sprint("model-", i), readyOn(servers...))
	}
	t.Logf("all answer on %d servers after %v", len(servers), time.Since(begun))
	if again := servers[len(servers)-1].ApplyDeployment(body("model-3", 1)); again.Generation != 1 {
		t.Errorf("the same again is generation %d", again.Generation)
	}
}

func TestDeploymentsAreChanged(t *testing.T) {
	t.Parallel()
	p := servertest.StartProcess(t, 1024, servertest.Peppered, "--store", "sqlite:"+t.TempDir()+"/weir.db", "--models-dir", t.TempDir())
	const one = `{"modelId": "chat", "version": "builtin", "resources": {"kvCacheBytes": "1MiB", "maxModelLen": 64}}`
	for _, c := range []struct {
		body   string
		header []string
		status int
		want   string
	}{
		{one, []string{"If-Match: 3"}, http.StatusConflict, "there is no deployment"},
		{one, []string{"If-None-Match: *", "Idempotency-Key: first"}, http.StatusCreated, `"generation": 1`},
		{one, []string{"If-None-Match: *", "Idempotency-Key: first"}, http.StatusCreated, `"generation": 1`},
		{`{"modelId": "chat", "version": "2"}`, []string{"Idempotency-Key: first"}, http.StatusUnprocessableEntity, "idempotency_key_reused"},
		{one, []string{"If-None-Match: *"}, http.StatusConflict, "deployment_conflict"},
		{one, nil, http.StatusOK, `"generation": 1`},
		{`{"modelId": "chat", "version": "builtin"}`, []string{`If-Match: "2"`}, http.StatusConflict, "is at generation 1"},
		{`{"modelId": "chat", "version": "builtin"}`, []string{"If-Match: x"}, http.StatusBadRequest, "If-Match"},
		{`{"modelId": "chat", "version": "builtin", "resources": {"gpu": 1}}`, nil, http.StatusBadRequest, "deployment.resources.gpu"},
		{`{"modelId": "weir-iris", "version": "1", "resources": {"maxSequences": 8}}`, nil, http.StatusBadRequest, "resources (max_num_seqs)"},
		{`{"model": "chat", "candidate": "2"}`, nil, http.StatusConflict, "a deployment decides"},
		{`{"modelId": "unserved", "version": "v9"}`, nil, http.StatusCreated, `"unserved"`},
	} {
		if status, text := p.ChangeDeployment(http.MethodPost, "", c.body, c.header...); status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s %q: %d %s; want %d %s", c.body, c.header, status, text, c.status, c.want)
		}
	}
	p.AwaitDeployment("chat", readyOn(p))
	p.AwaitDeployment("unserved", func(v *admin.DeploymentView) bool {
		return v.State == deployment.Unserved && len(v.Why) == 1 && strings.Contains(v.Why[0], "weir models import FILE unserved:v9")
	})
	if status, _, text := p.ChangeModel("alias", "chat", "builtin"); status != http.StatusConflict {
		t.Errorf("an operator moves a name that a deployment decides: %d %s", status, text)
	}
	huge := `{"modelId": "big", "version": "builtin", "resources": {"kvCacheBytes": "1TiB"}}`
	p.ApplyDeployment(huge)
	p.AwaitDeployment("big", func(v *admin.DeploymentView) bool {
		return v.State == deployment.Degraded && strings.Contains(v.Why[0], "failed")
	})
	before := p.AwaitDeployment("chat", readyOn(p)).Generation
	for path, want := range map[string]int{"/chat": http.StatusOK, "/none": http.StatusNotFound} {
		if status, text := p.ChangeDeployment(http.MethodDelete, path, ""); status != want {
			t.Errorf("DELETE %s: %d %s", path, status, text)
		}
	}
	again := p.ApplyDeployment(one) // what the server said of the one before, and an If-Match for it, are of another generation
	if again.Generation <= before || again.State == deployment.Ready && again.Instances[0].Generation != again.Generation {
		t.Errorf("made again after generation %d: %+v", before, again)
	}
	if status, text := p.ChangeDeployment(http.MethodPost, "", `{"modelId": "chat", "version": "builtin"}`, fmt.Sprintf(`If-Match: "%d"`, before)); status != http.StatusConflict {
		t.Errorf("If-Match of the one before: %d %s", status, text)
	}
	p.AwaitDeployment("chat", readyOn(p))
}

// A version that the configuration has is served with the resources of a deployment, again and again, and as the configuration
// has it without any.
func TestResourcesOfAConfiguredVersion(t *testing.T) {
	reference.Slow(t)
	t.Parallel() // most of it is waiting
	config := filepath.Join(t.TempDir(), "weir.yml")
	const text = "models:\n  - {name: chat, version: \"1\", path: builtin, kv_cache_memory_bytes: 4MiB}\n  - {name: chat, version: \"2\", path: builtin, load: never, kv_cache_memory_bytes: 4MiB}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := servertest.StartProcess(t, 1024, "--config", config, "--store", "sqlite:"+t.TempDir()+"/weir.db")
	length := func() int {
		_, text := p.Get(p.API + "/v1/models")
		var list struct {
			Data []struct {
				ID     string `json:"id"`
				Length int    `json:"max_model_len"`
			}
		}
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(list.Data, func(m struct {
			ID     string `json:"id"`
			Length int    `json:"max_model_len"`
		}) bool {
			return m.ID == "chat"
		})
		if i < 0 {
			t.Fatal(text)
		}
		return list.Data[i].Length
	}
	usual := length()
	bytes := make(map[string]int64)
	for _, c := range []struct {
		version, resources string
		length             int
	}{
		{"2", `{"kvCacheBytes": "2MiB"}`, usual},
		{"2", `{"kvCacheBytes": "6MiB", "maxModelLen": 128}`, 128},
		{"1", `null`, usual},
		{"1", `{"maxModelLen": 128}`, 128},
		{"2", `null`, usual},
		{"2", `{"kvCacheBytes": "2MiB"}`, usual},
	} {
		v := p.ApplyDeployment(fmt.Sprintf(`{"modelId": "chat", "version": %q, "resources": %s}`, c.version, c.resources))
		p.AwaitDeployment("chat", readyOn(p))
		m := p.Models()["chat@"+v.Label]
		if bytes[c.version+c.resources] = m.Bytes; !m.Answers || length() != c.length || (v.Label == c.version) != (c.resources == "null") {
			t.Errorf("%+v: %+v, length %d", c, m, length())
		}
	}
	if least, most := bytes[`2{"kvCacheBytes": "2MiB"}`], bytes[`2{"kvCacheBytes": "6MiB", "maxModelLen": 128}`]; most-least < 3<<20 {
		t.Errorf("with 2 and 6 MiB it takes %d and %d bytes", least, most)
	}
}

// A router moves its name between two versions that others compute; a server that follows the same store has no part in it.
func TestARouterFollowsDeployments(t *testing.T) {
	reference.Slow(t)
	t.Parallel()
	url := storetest.Postgres(t)
	one, two := servertest.StartProcess(t, 1024, servertest.Peppered, "--store", url), servertest.StartProcess(t, 1024)
	config := filepath.Join(t.TempDir(), "weir.yml")
	text := fmt.Sprintf("models:\n  - {name: chat, version: \"1\", replicas: [{url: %q, model: weir-default}]}\n  - {name: chat, version: \"2\", load: never, replicas: [{url: %q, model: weir-default}]}\n", one.API, two.API)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	routers := []*servertest.Process{servertest.StartProcess(t, 1024, servertest.Peppered, "--config", config, "--store", url), servertest.StartProcess(t, 1024, servertest.Peppered, "--config", config, "--store", url)}
	if status, text := routers[0].ChangeDeployment(http.MethodPost, "", `{"modelId": "chat", "version": "2", "resources": {"kvCacheBytes": "8MiB"}}`); status != http.StatusBadRequest ||
		!strings.Contains(text, "kv_cache_memory_bytes") {
		t.Errorf("resources of a routed model: %d %s", status, text)
	}
	routers[0].ApplyDeployment(`{"modelId": "chat", "version": "2"}`)
	ready := readyOn(routers...)
	routers[1].AwaitDeployment("chat", func(v *admin.DeploymentView) bool { // a server without the model says so in its own time
		return ready(v) && v.State == deployment.Ready && len(v.Instances) == 3
	})
	if status, text := routers[0].ChangeDeployment(http.MethodDelete, "/chat", ""); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	for end := time.Now().Add(servertest.Patience); ; time.Sleep(20 * time.Millisecond) {
		_, text := routers[1].Get(routers[1].Admin + "/admin/replicas")
		var list struct{ Models []shownReplicas }
		if json.Unmarshal([]byte(text), &list) == nil && len(list.Models) == 2 && list.Models[0].Answers {
			break
		} else if time.Now().After(end) {
			t.Fatal(text)
		}
	}
}

// Two of three routers are killed while they follow a deployment: after their start all end with the same version.
func TestTwoOfThreeRoutersAreKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("takes the leases of killed processes")
	}
	t.Parallel()
	url := storetest.Postgres(t)
	replica := servertest.StartProcess(t, 1024)
	config := filepath.Join(t.TempDir(), "weir.yml")
	text := "models:\n"
	for version := range 3 {
		text += fmt.Sprintf("  - {name: chat, version: \"%d\", load: %s, replicas: [{url: %q, model: weir-default}]}\n", version, []string{"startup", "never", "never"}[version], replica.API)
	}
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	start := func() *servertest.Process {
		return servertest.StartProcess(t, 1024, servertest.Peppered, "--config", config, "--store", url)
	}
	routers := []*servertest.Process{start(), start(), start()}
	for i, version := range []string{"1", "2", "1"} {
		routers[i].ApplyDeployment(fmt.Sprintf(`{"modelId": "chat", "version": %q}`, version))
		routers[(i+1)%3].Kill()
		routers[i].Kill()
		routers[i], routers[(i+1)%3] = start(), start()
		v := routers[i].AwaitDeployment("chat", readyOn(routers...))
		if v.Generation != int64(i+1) || v.Version != version {
			t.Errorf("%+v", v)
		}
		for n, p := range routers {
			if status, _, label := p.Said("chat"); status != http.StatusOK || label != version {
				t.Errorf("router %d answers %d with version %q, want %q", n, status, label, version)
			}
		}
	}
}

// A fleet that answers nothing does not take over at once, and the deployment says why; without the check it does.
func TestARouterChecksBeforeItMoves(t *testing.T) {
	bad, fine := new(atomic.Bool), new(atomic.Bool)
	bad.Store(true)
	stable, wrong := servertest.Upstream(t, fine, 0), servertest.Upstream(t, bad, http.StatusBadRequest)
	s := servertest.Start(t, func(c *configs.Config) {
		c.Store.URL = "sqlite:" + t.TempDir() + "/weir.db"
		c.Models = []configs.ServedModel{servertest.ChatVersion("1", stable.URL, "m"), servertest.ChatVersion("2", wrong.URL, "m")}
		c.Models[1].Load = configs.LoadNever
	})
	s.AwaitVersion("1")
	s.ApplyDeployment(`{"modelId": "chat", "version": "2"}`)
	s.AwaitDeployment("chat", func(v *admin.DeploymentView) bool {
		return v.State == deployment.Degraded && len(v.Why) == 1 && strings.Contains(v.Why[0], "none of 3 requests") && strings.Contains(v.Why[0], `"rolloutPolicy": "unchecked"`) && v.Instances[0].Answers == "1"
	})
	if v := s.ApplyDeployment(`{"modelId": "chat", "version": "2", "rolloutPolicy": "unchecked"}`); v.RolloutPolicy != "unchecked" || v.Generation != 2 {
		t.Errorf("%+v", v)
	}
	s.AwaitDeployment("chat", func(v *admin.DeploymentView) bool {
		return v.State == deployment.Ready && v.Instances[0].Answers == "2"
	})
}

// A rollout runs on all servers: the one that gets the requests takes the others with it, a killed one goes on where they are,
// and all end with the candidate.
func TestARolloutOverServers(t *testing.T) {
	if testing.Short() {
		t.Skip("starts several processes")
	}
	t.Parallel()
	url := storetest.Postgres(t)
	folders := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	start := func(i int) *servertest.Process {
		return servertest.StartProcess(t, 1024, servertest.Peppered, "--store", url, "--models-dir", folders[i])
	}
	servers := []*servertest.Process{start(0), start(1), start(2)}
	body := func(sequences int, policy string) string {
		return fmt.Sprintf(`{"modelId": "chat", "version": "builtin", "resources": {"kvCacheBytes": "4MiB", "maxSequences": %d}, "rolloutPolicy": %s}`, sequences, policy)
	}
	servers[0].ApplyDeployment(body(2, `"immediate"`))
	servers[0].AwaitDeployment("chat", readyOn(servers...))
	const plan = `{"steps": [{"percent": 50, "min_requests": 10, "min_time": "1ms"}, {"percent": 90, "min_requests": 10, "min_time": "1ms"}],
		"gates": {"error_rate": -1, "denied_rate": -1, "throttled_rate": -1, "empty_rate": -1, "length_rate": -1, "refusal_rate": -1, "ttft_ratio": -1, "p99_ratio": -1, "signal_drop": -1, "itl_ratio": -1, "output_ratio": -1, "cost_ratio": -1, "compute_ratio": -1, "burn_rate": -1}}`
	servers[1].ApplyDeployment(body(3, plan))
	servers[2].AwaitDeployment("chat", func(v *admin.DeploymentView) bool {
		rolling := slices.DeleteFunc(slices.Clone(v.Instances), func(o deployment.Observation) bool { return o.State != deployment.RollingOut })
		return len(rolling) == 3
	})
	servers[0].Kill()
	ask := func(p *servertest.Process, until func(v *admin.DeploymentView) bool) {
		n := 0
		servers[2].AwaitDeployment("chat", func(v *admin.DeploymentView) bool {
			for range 5 {
				n++
				res := p.Post(servertest.ChatPath, fmt.Sprintf(`{"model":"chat","messages":[{"role":"user","content":"Hello"}],"max_tokens":2,"prompt_cache_key":"%d"}`, n))
				_, _ = io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
			return until(v)
		})
	}
	ask(servers[1], func(v *admin.DeploymentView) bool {
		return v.Progress != nil && (v.Progress.Step == 2 || v.Progress.State.Over())
	})
	servers[0] = start(0)
	ask(servers[1], readyOn(servers...))
	v := servers[0].AwaitDeployment("chat", readyOn(servers...))
	if v.Answers != v.Label || v.Progress.State != "promoted" {
		t.Errorf("%+v", v)
	}
	t.Logf("%+v", *v.Progress)
}
