package server_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/configs"
	"weir/internal/defaultmodel"
	"weir/internal/reference"
	"weir/internal/server/servertest"
	"weir/router/fleet"
)

// routed is a configuration that sends a model's requests to servers.
func routedTo(policy string, urls ...string) func(*configs.Config) {
	return func(c *configs.Config) {
		m := configs.NewServedModel("front", "")
		m.Policy, m.Aliases = policy, []string{"gpt-4o"}
		for _, u := range urls {
			m.Replicas = append(m.Replicas, fleet.Source{URL: u + "/v1", Kind: fleet.Weir, Model: configs.EmbeddedName})
		}
		c.Models = []configs.ServedModel{m}
	}
}

// volatile is what two answers to the same question differ in.
var volatile = regexp.MustCompile(`"(id|created|model)":("[^"]*"|\d+)|"(cached_tokens)":\d+`)

// A router gives the answers that its replicas give, streamed and whole, and replicas come
// and go with a reload.
func TestRoute(t *testing.T) {
	a, b := servertest.Start(t, nil), servertest.Start(t, nil)
	var from servertest.Source
	r := servertest.StartFrom(t, &from, routedTo("round_robin", a.API, b.API))
	const question = `"messages":[{"role":"user","content":"What is weir?"}],"temperature":0,"max_tokens":16`
	seen := map[string]int{}
	for _, fields := range []string{question, question + `,"stream":true`} {
		direct := volatile.ReplaceAllString(servertest.Body(t, a.Post("/v1/chat/completions", `{"model":"`+configs.EmbeddedName+`",`+fields+`}`)), "")
		for range 4 {
			got := r.Post("/v1/chat/completions", `{"model":"gpt-4o",`+fields+`}`)
			text := volatile.ReplaceAllString(servertest.Body(t, got), "")
			if got.StatusCode != http.StatusOK || text != direct {
				t.Errorf("%d\nrouted %s\ndirect %s", got.StatusCode, text, direct)
			}
			seen[got.Header.Get("X-Weir-Replica")]++
			if got.Header.Get("X-Weir-Route-Reason") != "round_robin" {
				t.Errorf("%v", got.Header)
			}
		}
	}
	if len(seen) != 2 {
		t.Errorf("the answers are from %v", seen)
	}
	counted := regexp.MustCompile(`vllm:request_generation_tokens_count\{engine="0",model_name="front"\} 8\n`)
	last := time.Now().Add(time.Minute)
	for _, series := r.Get(r.Admin + "/metrics"); !counted.MatchString(series); _, series = r.Get(r.Admin + "/metrics") {
		if time.Now().After(last) || !strings.Contains(series, `vllm:time_to_first_token_seconds_count{engine="0",model_name="front"}`) {
			t.Fatalf("what was said here is not counted here:\n%s", series)
		}
		time.Sleep(time.Millisecond) // a stream's end is counted after its client has it
	}
	from.Change(func(c *configs.Config) { routedTo("round_robin", b.API)(c) }, nil)
	if status, text := r.Reload(); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	for range 3 {
		got := r.Post("/v1/completions", `{"model":"front","prompt":"a b","max_tokens":1}`)
		if got.Header.Get("X-Weir-Replica") != strings.TrimPrefix(b.API, "http://") {
			t.Errorf("after the reload: %v", got.Header)
		}
	}
	if err := b.End(); err != nil {
		t.Error(err)
	}
	got := r.Post("/v1/completions", `{"model":"front","prompt":"a b","max_tokens":1}`)
	if text := servertest.Body(t, got); got.StatusCode < 500 || !strings.Contains(text, "upstream_unavailable") && !strings.Contains(text, "no_replica") {
		t.Errorf("without replicas: %d %s", got.StatusCode, text)
	}
}

// A replica that drains gets no new requests, and ends its streams.
func TestRouteAroundADrainingReplica(t *testing.T) {
	reference.Slow(t)
	a, b := servertest.Start(t, nil), servertest.Start(t, nil)
	r := servertest.Start(t, routedTo("round_robin", a.API, b.API))
	var open *http.Response
	for open == nil {
		got := r.Post("/v1/completions", `{"prompt":"Once upon a time","max_tokens":400,"ignore_eos":true,"stream":true}`)
		if got.Header.Get("X-Weir-Replica") == strings.TrimPrefix(a.API, "http://") {
			open = got
		} else {
			_ = got.Body.Close()
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- a.End() }()
	text := servertest.Body(t, open)
	if !strings.HasSuffix(text, "data: [DONE]\n\n") {
		t.Errorf("the stream of the draining replica ended with %q", text[max(0, len(text)-200):])
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for range 10 {
		got := r.Post("/v1/completions", `{"prompt":"a b","max_tokens":1}`)
		if text := servertest.Body(t, got); got.StatusCode != http.StatusOK {
			t.Errorf("%d %s", got.StatusCode, text)
		}
	}
}

// A process of nothing but routed classical models answers predictions.
func TestRouteOfPredictions(t *testing.T) {
	a := servertest.Start(t, nil)
	r := servertest.Start(t, func(c *configs.Config) {
		m := configs.NewClassic("iris", "")
		m.Replicas = []fleet.Source{{URL: a.API, Kind: fleet.Weir, Model: defaultmodel.IrisName}}
		c.Classic = []configs.Classic{m}
	})
	const rows = `{"instances":[[5.1,3.5,1.4,0.2]]}`
	want := servertest.Body(t, a.Post("/v1/models/"+defaultmodel.IrisName+":predict", rows))
	if got := r.Post("/v1/models/iris:predict", rows); got.StatusCode != http.StatusOK || servertest.Body(t, got) != want {
		t.Errorf("%d, want %s", got.StatusCode, want)
	}
	if got := r.Post("/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}]}`); got.StatusCode != http.StatusNotFound {
		t.Errorf("a chat: %d %s", got.StatusCode, servertest.Body(t, got))
	}
}

// What operators ask of a router: where its replicas are and what they did, and why a request
// went where it went.
func TestRoutesAreExplained(t *testing.T) {
	a := servertest.Start(t, nil)
	r := servertest.Start(t, routedTo("prefix", a.API))
	got := r.Post("/v1/completions", `{"prompt":"a b","max_tokens":1}`)
	var said struct{ ID string }
	if err := json.Unmarshal([]byte(servertest.Body(t, got)), &said); err != nil {
		t.Fatal(err)
	}
	id := got.Header.Get("X-Request-Id")
	replica := strings.TrimPrefix(a.API, "http://")
	if status, text := r.Get(r.Admin + "/admin/replicas"); status != http.StatusOK || !strings.Contains(text, replica) || !strings.Contains(text, `"requests": 1`) {
		t.Errorf("%d %s", status, text)
	}
	status, text := r.Get(r.Admin + "/admin/explain?request=" + id)
	if status != http.StatusOK || !strings.Contains(text, replica) || !strings.Contains(text, `"route_reason": "only"`) {
		t.Errorf("%d %s", status, text)
	}
	var told struct {
		Tried []struct {
			Replica    string
			Status     int
			Considered []struct {
				Replica string
				Picked  bool
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &told); err != nil || len(told.Tried) != 1 || told.Tried[0].Replica != replica || told.Tried[0].Status != http.StatusOK ||
		len(told.Tried[0].Considered) != 1 || !told.Tried[0].Considered[0].Picked {
		t.Errorf("%v %s", err, text)
	}
	_, text = r.Get(r.Admin + "/metrics")
	for _, want := range []string{
		`weir_route_requests_total{model_name="front",replica="` + replica + `"} 1`, `weir_route_picks_total{model_name="front",reason="only"} 1`,
		`weir_route_replica_ready{model_name="front",replica="` + replica + `"} 1`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
}

// A replica sees the router's tenants, where both share a key, and tells its load.
func TestPeersSeeTheTenants(t *testing.T) {
	const shared = "0123456789abcdef0123456789abcdef"
	a := servertest.Start(t, func(c *configs.Config) {
		c.API.APIKeys, c.Server.PeerKeys = []string{"sk-of-the-router"}, []string{shared}
	})
	r := servertest.Start(t, func(c *configs.Config) {
		routedTo("prefix", a.API)(c)
		c.Models[0].Replicas[0].APIKey = "sk-of-the-router"
		c.Server.PeerKeys, c.API.APIKeys = []string{shared}, []string{"sk-of-a-client"}
	})
	ask := func(url, key string) (int, http.Header, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/completions", strings.NewReader(`{"prompt":"a b","max_tokens":1}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return res.StatusCode, res.Header, servertest.Body(t, res)
	}
	status, _, text := ask(r.API, "sk-of-a-client")
	if status != http.StatusOK {
		t.Fatalf("%d %s\nrouter: %s\nreplica: %s", status, text, r.Errs.String(), a.Errs.String())
	}
	_, listed := r.Get(r.Admin + "/admin/requests")
	tenant := regexp.MustCompile(`"tenant": "(key-[^"]+)"`).FindStringSubmatch(listed)
	if tenant == nil {
		t.Fatal(listed)
	}
	if _, text := a.Get(a.Admin + "/admin/requests"); !strings.Contains(text, tenant[1]) {
		t.Errorf("the replica does not know the router's tenant %s: %s", tenant[1], text)
	}
	if _, text := r.Get(r.Admin + "/admin/replicas"); !strings.Contains(text, `"report": "running=`) {
		t.Errorf("the replica told no load: %s", text)
	}
	if _, h, _ := ask(a.API, "sk-of-the-router"); h.Get("X-Weir-Load") != "" {
		t.Errorf("a caller that is no peer is told the load: %v", h)
	}
}

// Replicas see the router's tenants in predictions, too.
func TestPeersSeeTheTenantsOfPredictions(t *testing.T) {
	const shared = "0123456789abcdef0123456789abcdef"
	a := servertest.Start(t, func(c *configs.Config) {
		c.API.APIKeys, c.Server.PeerKeys = []string{"sk-of-the-router"}, []string{shared}
	})
	r := servertest.Start(t, func(c *configs.Config) {
		c.Server.PeerKeys, c.API.APIKeys = []string{shared}, []string{"sk-of-a-client"}
		m := configs.NewClassic("flowers", "")
		m.Replicas = []fleet.Source{{URL: a.API, Kind: fleet.Weir, Model: defaultmodel.IrisName, APIKey: "sk-of-the-router"}}
		c.Classic = []configs.Classic{m}
	})
	predict := func() int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.API+"/v1/models/flowers:predict", strings.NewReader(`{"instances":[[5.1,3.5,1.4,0.2]]}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer sk-of-a-client")
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return res.StatusCode
	}
	for end := time.Now().Add(servertest.Patience); predict() != http.StatusOK; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no prediction\n%s", r.Errs.String())
		}
	}
	_, listed := r.Get(r.Admin + "/admin/requests")
	tenant := regexp.MustCompile(`"tenant": "(key-[^"]+)"`).FindStringSubmatch(listed)
	if tenant == nil {
		t.Fatal(listed)
	}
	if _, text := a.Get(a.Admin + "/admin/requests"); !strings.Contains(text, tenant[1]) {
		t.Errorf("the replica does not know the router's tenant %s: %s", tenant[1], text)
	}
}

// A router that has the model's tokenizer, and the replicas' key of block hashes, knows what replicas have
// cached that it has never sent them.
func TestRouteFollowsCaches(t *testing.T) {
	key := func(c *configs.Config) { c.Engine.PrefixCacheKey = "a secret of all replicas" }
	a, b := servertest.Start(t, key), servertest.Start(t, key)
	question := `"messages":[{"role":"user","content":"` + strings.Repeat("What is weir? ", 20) + `"}],"temperature":0,"max_tokens":2`
	if got := b.Post("/v1/chat/completions", "{"+question+"}"); got.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", got.StatusCode, servertest.Body(t, got))
	}
	r := servertest.Start(t, func(c *configs.Config) {
		key(c)
		routedTo("prefix", a.API, b.API)(c)
		c.Models[0].Tokenizer = configs.BuiltinPath
		c.Models[0].Replicas[0].AdminURL, c.Models[0].Replicas[1].AdminURL = a.Admin, b.Admin
	})
	var replicas struct {
		Models []struct{ Replicas []shownReplica }
	}
	for known := false; !known; time.Sleep(5 * time.Millisecond) {
		_, text := r.Get(r.Admin + "/admin/replicas")
		if err := json.Unmarshal([]byte(text), &replicas); err != nil {
			t.Fatal(err)
		}
		known = slices.ContainsFunc(replicas.Models[0].Replicas, func(v shownReplica) bool { return v.Keys > 0 })
	}
	got := r.Post("/v1/chat/completions", `{"model":"front",`+question+`}`)
	if got.StatusCode != http.StatusOK || got.Header.Get("X-Weir-Replica") != strings.TrimPrefix(b.API, "http://") ||
		!strings.HasPrefix(got.Header.Get("X-Weir-Route-Reason"), "prefix ") {
		t.Errorf("%d, %v: %s has the prompt", got.StatusCode, got.Header, b.API)
	}
}

// A classical model that other servers compute answers in every protocol as theirs do, also when one of
// them is gone; what they refuse is refused here.
func TestRoutePredictions(t *testing.T) {
	a, b := servertest.Start(t, nil), servertest.Start(t, nil)
	var from servertest.Source
	r := servertest.StartFrom(t, &from, func(c *configs.Config) {
		m := configs.NewClassic("flowers", "")
		m.Routing.ProbeEvery = 50 * time.Millisecond
		for _, s := range []*servertest.Server{a, b} {
			m.Replicas = append(m.Replicas, fleet.Source{URL: s.API, Kind: fleet.Weir, Model: defaultmodel.IrisName})
		}
		c.Classic = []configs.Classic{m}
	})
	if status, body := r.Get(r.API + "/v2/models/flowers/ready"); status != http.StatusOK {
		t.Fatalf("the model is not ready: %d %s", status, body)
	}
	versions := regexp.MustCompile(`"(id|model_name|model_version)":"[^"]*",?|"parameters":\{[^{}]*\},?`)
	v2 := `{"inputs":[{"name":"input","datatype":"FP32","shape":[2,4],"data":[5.1,3.5,1.4,0.2,6.7,3.0,5.2,2.3]}]}`
	_, about := a.Get(a.API + "/v2/models/" + defaultmodel.IrisName)
	name := regexp.MustCompile(`"inputs":\[\{"name":"([^"]*)"`).FindStringSubmatch(about)
	if name == nil {
		t.Fatal(about)
	}
	v2 = strings.Replace(v2, `"input"`, `"`+name[1]+`"`, 1)
	same := func() {
		t.Helper()
		for path, body := range map[string]string{"/v2/models/NAME/infer": v2, "/v1/models/NAME:predict": `{"instances":[[5.1,3.5,1.4,0.2]]}`} {
			direct := versions.ReplaceAllString(servertest.Body(t, a.Post(strings.Replace(path, "NAME", defaultmodel.IrisName, 1), body)), "")
			got := r.Post(strings.Replace(path, "NAME", "flowers", 1), body)
			if text := versions.ReplaceAllString(servertest.Body(t, got), ""); got.StatusCode != http.StatusOK || text != direct {
				t.Errorf("%s: %d\nrouted %s\ndirect %s", path, got.StatusCode, text, direct)
			}
		}
	}
	for range 4 {
		same()
	}
	got := r.Post("/v2/models/flowers/infer", strings.Replace(v2, "[2,4]", "[4,2]", 1))
	if text := servertest.Body(t, got); got.StatusCode != http.StatusBadRequest {
		t.Errorf("a wrong shape: %d %s", got.StatusCode, text)
	}
	if got := r.Post("/v2/repository/models/flowers/unload", "{}"); got.StatusCode == http.StatusOK {
		t.Error("a model of other servers is unloaded here")
	}
	if err := b.End(); err != nil {
		t.Error(err)
	}
	for range 4 {
		same()
	}
	from.Change(func(c *configs.Config) { c.Classic = nil }, nil)
	if status, text := r.Reload(); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	if got := r.Post("/v2/models/flowers/infer", v2); got.StatusCode != http.StatusNotFound {
		t.Errorf("a model that a reload took away: %d", got.StatusCode)
	}
}

// shownReplicas are those of a model in GET /admin/replicas, as far as tests read them.
type shownReplicas struct {
	Model    string         `json:"model"`
	Answers  bool           `json:"answers"`
	Replicas []shownReplica `json:"replicas"`
}

type shownReplica struct {
	Replica string `json:"replica"`
	State   string `json:"state"`
	Keys    int    `json:"index_keys"`
}
