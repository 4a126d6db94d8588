package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/configs"
	"weir/internal/defaultmodel"
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

func bodyOf(t *testing.T, r *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// volatile is what two answers to the same question differ in.
var volatile = regexp.MustCompile(`"(id|created|model)":("[^"]*"|\d+)|"(cached_tokens)":\d+`)

// A router gives the answers that its replicas give, streamed and whole, and replicas come
// and go with a reload.
func TestRoute(t *testing.T) {
	a, b := start(t, nil), start(t, nil)
	var from source
	r := startFrom(t, &from, routedTo("round_robin", a.api, b.api))
	const question = `"messages":[{"role":"user","content":"What is weir?"}],"temperature":0,"max_tokens":16`
	seen := map[string]int{}
	for _, fields := range []string{question, question + `,"stream":true`} {
		direct := volatile.ReplaceAllString(bodyOf(t, a.post("/v1/chat/completions", `{"model":"`+configs.EmbeddedName+`",`+fields+`}`)), "")
		for range 4 {
			got := r.post("/v1/chat/completions", `{"model":"gpt-4o",`+fields+`}`)
			text := volatile.ReplaceAllString(bodyOf(t, got), "")
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
	for _, series := r.get(r.metrics + "/metrics"); !counted.MatchString(series); _, series = r.get(r.metrics + "/metrics") {
		if time.Now().After(last) || !strings.Contains(series, `vllm:time_to_first_token_seconds_count{engine="0",model_name="front"}`) {
			t.Fatalf("what was said here is not counted here:\n%s", series)
		}
		time.Sleep(time.Millisecond) // a stream's end is counted after its client has it
	}
	from.change(func(c *configs.Config) { routedTo("round_robin", b.api)(c) }, nil)
	if status, text := reload(t, r); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	for range 3 {
		got := r.post("/v1/completions", `{"model":"front","prompt":"a b","max_tokens":1}`)
		if got.Header.Get("X-Weir-Replica") != strings.TrimPrefix(b.api, "http://") {
			t.Errorf("after the reload: %v", got.Header)
		}
	}
	if err := b.end(); err != nil {
		t.Error(err)
	}
	got := r.post("/v1/completions", `{"model":"front","prompt":"a b","max_tokens":1}`)
	if text := bodyOf(t, got); got.StatusCode < 500 || !strings.Contains(text, "upstream_unavailable") && !strings.Contains(text, "no_replica") {
		t.Errorf("without replicas: %d %s", got.StatusCode, text)
	}
}

// A replica that drains gets no new requests, and ends its streams.
func TestRouteAroundADrainingReplica(t *testing.T) {
	a, b := start(t, nil), start(t, nil)
	r := start(t, routedTo("round_robin", a.api, b.api))
	var open *http.Response
	for open == nil {
		got := r.post("/v1/completions", `{"prompt":"Once upon a time","max_tokens":400,"ignore_eos":true,"stream":true}`)
		if got.Header.Get("X-Weir-Replica") == strings.TrimPrefix(a.api, "http://") {
			open = got
		} else {
			_ = got.Body.Close()
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- a.end() }()
	text := bodyOf(t, open)
	if !strings.HasSuffix(text, "data: [DONE]\n\n") {
		t.Errorf("the stream of the draining replica ended with %q", text[max(0, len(text)-200):])
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for range 10 {
		got := r.post("/v1/completions", `{"prompt":"a b","max_tokens":1}`)
		if text := bodyOf(t, got); got.StatusCode != http.StatusOK {
			t.Errorf("%d %s", got.StatusCode, text)
		}
	}
}

func TestRouteNeedsReplicas(t *testing.T) {
	for _, args := range [][]string{{"route"}, {"route", "--model", "x.gguf"}} {
		var out, errs bytes.Buffer
		if code := execute(args, &out, &errs); code != exitUsage || !strings.Contains(errs.String(), "no model has replicas") {
			t.Errorf("%v: %d %s", args, code, errs.String())
		}
	}
}

// A router takes classical models alone and beside language models, and none that it would have to compute.
func TestRouteTakesClassicalModels(t *testing.T) {
	trees := configs.NewClassic(defaultmodel.IrisName, "")
	trees.Replicas = []fleet.Source{{URL: "http://127.0.0.1:1", Kind: fleet.Weir}}
	computed := configs.NewClassic("churn", "churn.ubj")
	var both configs.Config
	routedTo("prefix", "http://127.0.0.1:1")(&both)
	language := both.Models
	for name, c := range map[string]struct {
		models  []configs.ServedModel
		classic []configs.Classic
		want    string
	}{
		"classical":       {nil, []configs.Classic{trees}, ""},
		"both":            {language, []configs.Classic{trees}, ""},
		"language":        {language, nil, ""},
		"none":            {nil, nil, "no model has replicas"},
		"computed":        {nil, []configs.Classic{computed}, "no model has replicas"},
		"computed beside": {language, []configs.Classic{trees, computed}, "computes no model"},
	} {
		err := checkRoutes(configs.Config{Models: c.models, Classic: c.classic})
		if (err == nil) != (c.want == "") || (err != nil && !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A process of nothing but routed classical models answers predictions.
func TestRouteOfPredictions(t *testing.T) {
	a := start(t, nil)
	r := start(t, func(c *configs.Config) {
		m := configs.NewClassic("iris", "")
		m.Replicas = []fleet.Source{{URL: a.api, Kind: fleet.Weir, Model: defaultmodel.IrisName}}
		c.Classic = []configs.Classic{m}
	})
	const rows = `{"instances":[[5.1,3.5,1.4,0.2]]}`
	want := bodyOf(t, a.post("/v1/models/"+defaultmodel.IrisName+":predict", rows))
	if got := r.post("/v1/models/iris:predict", rows); got.StatusCode != http.StatusOK || bodyOf(t, got) != want {
		t.Errorf("%d, want %s", got.StatusCode, want)
	}
	if got := r.post("/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}]}`); got.StatusCode != http.StatusNotFound {
		t.Errorf("a chat: %d %s", got.StatusCode, bodyOf(t, got))
	}
}

// What operators ask of a router: where its replicas are and what they did, and why a request
// went where it went.
func TestRoutesAreExplained(t *testing.T) {
	a := start(t, nil)
	r := start(t, routedTo("prefix", a.api))
	got := r.post("/v1/completions", `{"prompt":"a b","max_tokens":1}`)
	var said struct{ ID string }
	if err := json.Unmarshal([]byte(bodyOf(t, got)), &said); err != nil {
		t.Fatal(err)
	}
	id := got.Header.Get("X-Request-Id")
	replica := strings.TrimPrefix(a.api, "http://")
	if status, text := r.get(r.metrics + "/admin/replicas"); status != http.StatusOK || !strings.Contains(text, replica) || !strings.Contains(text, `"requests": 1`) {
		t.Errorf("%d %s", status, text)
	}
	status, text := r.get(r.metrics + "/admin/explain?request=" + id)
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
	_, text = r.get(r.metrics + "/metrics")
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
	a := start(t, func(c *configs.Config) {
		c.API.APIKeys, c.Server.PeerKeys = []string{"sk-of-the-router"}, []string{shared}
	})
	r := start(t, func(c *configs.Config) {
		routedTo("prefix", a.api)(c)
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
		return res.StatusCode, res.Header, bodyOf(t, res)
	}
	status, _, text := ask(r.api, "sk-of-a-client")
	if status != http.StatusOK {
		t.Fatalf("%d %s\nrouter: %s\nreplica: %s", status, text, r.errs.String(), a.errs.String())
	}
	_, listed := r.get(r.metrics + "/admin/requests")
	tenant := regexp.MustCompile(`"tenant": "(key-[^"]+)"`).FindStringSubmatch(listed)
	if tenant == nil {
		t.Fatal(listed)
	}
	if _, text := a.get(a.metrics + "/admin/requests"); !strings.Contains(text, tenant[1]) {
		t.Errorf("the replica does not know the router's tenant %s: %s", tenant[1], text)
	}
	if _, text := r.get(r.metrics + "/admin/replicas"); !strings.Contains(text, `"report": "running=`) {
		t.Errorf("the replica told no load: %s", text)
	}
	if _, h, _ := ask(a.api, "sk-of-the-router"); h.Get("X-Weir-Load") != "" {
		t.Errorf("a caller that is no peer is told the load: %v", h)
	}
}

// Replicas see the router's tenants in predictions, too.
func TestPeersSeeTheTenantsOfPredictions(t *testing.T) {
	const shared = "0123456789abcdef0123456789abcdef"
	a := start(t, func(c *configs.Config) {
		c.API.APIKeys, c.Server.PeerKeys = []string{"sk-of-the-router"}, []string{shared}
	})
	r := start(t, func(c *configs.Config) {
		c.Server.PeerKeys, c.API.APIKeys = []string{shared}, []string{"sk-of-a-client"}
		m := configs.NewClassic("flowers", "")
		m.Replicas = []fleet.Source{{URL: a.api, Kind: fleet.Weir, Model: defaultmodel.IrisName, APIKey: "sk-of-the-router"}}
		c.Classic = []configs.Classic{m}
	})
	predict := func() int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.api+"/v1/models/flowers:predict", strings.NewReader(`{"instances":[[5.1,3.5,1.4,0.2]]}`))
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
			t.Fatalf("no prediction\n%s", r.errs.String())
		}
	}
	_, listed := r.get(r.metrics + "/admin/requests")
	tenant := regexp.MustCompile(`"tenant": "(key-[^"]+)"`).FindStringSubmatch(listed)
	if tenant == nil {
		t.Fatal(listed)
	}
	if _, text := a.get(a.metrics + "/admin/requests"); !strings.Contains(text, tenant[1]) {
		t.Errorf("the replica does not know the router's tenant %s: %s", tenant[1], text)
	}
}

// A router that has the model's tokenizer, and the replicas' key of block hashes, knows what replicas have
// cached that it has never sent them.
func TestRouteFollowsCaches(t *testing.T) {
	key := func(c *configs.Config) { c.Engine.PrefixCacheKey = "a secret of all replicas" }
	a, b := start(t, key), start(t, key)
	question := `"messages":[{"role":"user","content":"` + strings.Repeat("What is weir? ", 20) + `"}],"temperature":0,"max_tokens":2`
	if got := b.post("/v1/chat/completions", "{"+question+"}"); got.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", got.StatusCode, bodyOf(t, got))
	}
	r := start(t, func(c *configs.Config) {
		key(c)
		routedTo("prefix", a.api, b.api)(c)
		c.Models[0].Tokenizer = configs.BuiltinPath
		c.Models[0].Replicas[0].AdminURL, c.Models[0].Replicas[1].AdminURL = a.metrics, b.metrics
	})
	var replicas struct {
		Models []struct{ Replicas []shownReplica }
	}
	for known := false; !known; time.Sleep(5 * time.Millisecond) {
		_, text := r.get(r.metrics + "/admin/replicas")
		if err := json.Unmarshal([]byte(text), &replicas); err != nil {
			t.Fatal(err)
		}
		known = slices.ContainsFunc(replicas.Models[0].Replicas, func(v shownReplica) bool { return v.Keys > 0 })
	}
	got := r.post("/v1/chat/completions", `{"model":"front",`+question+`}`)
	if got.StatusCode != http.StatusOK || got.Header.Get("X-Weir-Replica") != strings.TrimPrefix(b.api, "http://") ||
		!strings.HasPrefix(got.Header.Get("X-Weir-Route-Reason"), "prefix ") {
		t.Errorf("%d, %v: %s has the prompt", got.StatusCode, got.Header, b.api)
	}
}

// A classical model that other servers compute answers in every protocol as theirs do, also when one of
// them is gone; what they refuse is refused here.
func TestRoutePredictions(t *testing.T) {
	a, b := start(t, nil), start(t, nil)
	var from source
	r := startFrom(t, &from, func(c *configs.Config) {
		m := configs.NewClassic("flowers", "")
		m.Routing.ProbeEvery = 50 * time.Millisecond
		for _, s := range []*started{a, b} {
			m.Replicas = append(m.Replicas, fleet.Source{URL: s.api, Kind: fleet.Weir, Model: defaultmodel.IrisName})
		}
		c.Classic = []configs.Classic{m}
	})
	if status, body := r.get(r.api + "/v2/models/flowers/ready"); status != http.StatusOK {
		t.Fatalf("the model is not ready: %d %s", status, body)
	}
	versions := regexp.MustCompile(`"(id|model_name|model_version)":"[^"]*",?|"parameters":\{[^{}]*\},?`)
	v2 := `{"inputs":[{"name":"input","datatype":"FP32","shape":[2,4],"data":[5.1,3.5,1.4,0.2,6.7,3.0,5.2,2.3]}]}`
	_, about := a.get(a.api + "/v2/models/" + defaultmodel.IrisName)
	name := regexp.MustCompile(`"inputs":\[\{"name":"([^"]*)"`).FindStringSubmatch(about)
	if name == nil {
		t.Fatal(about)
	}
	v2 = strings.Replace(v2, `"input"`, `"`+name[1]+`"`, 1)
	same := func() {
		t.Helper()
		for path, body := range map[string]string{"/v2/models/NAME/infer": v2, "/v1/models/NAME:predict": `{"instances":[[5.1,3.5,1.4,0.2]]}`} {
			direct := versions.ReplaceAllString(bodyOf(t, a.post(strings.Replace(path, "NAME", defaultmodel.IrisName, 1), body)), "")
			got := r.post(strings.Replace(path, "NAME", "flowers", 1), body)
			if text := versions.ReplaceAllString(bodyOf(t, got), ""); got.StatusCode != http.StatusOK || text != direct {
				t.Errorf("%s: %d\nrouted %s\ndirect %s", path, got.StatusCode, text, direct)
			}
		}
	}
	for range 4 {
		same()
	}
	got := r.post("/v2/models/flowers/infer", strings.Replace(v2, "[2,4]", "[4,2]", 1))
	if text := bodyOf(t, got); got.StatusCode != http.StatusBadRequest {
		t.Errorf("a wrong shape: %d %s", got.StatusCode, text)
	}
	if got := r.post("/v2/repository/models/flowers/unload", "{}"); got.StatusCode == http.StatusOK {
		t.Error("a model of other servers is unloaded here")
	}
	if err := b.end(); err != nil {
		t.Error(err)
	}
	for range 4 {
		same()
	}
	from.change(func(c *configs.Config) { c.Classic = nil }, nil)
	if status, text := reload(t, r); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	if got := r.post("/v2/models/flowers/infer", v2); got.StatusCode != http.StatusNotFound {
		t.Errorf("a model that a reload took away: %d", got.StatusCode)
	}
}

// shownReplicas are those of a model in GET /admin/replicas, as far as tests read them.
type shownReplicas struct {
	Answers  bool           `json:"answers"`
	Replicas []shownReplica `json:"replicas"`
}

type shownReplica struct {
	Replica string `json:"replica"`
	State   string `json:"state"`
	Keys    int    `json:"index_keys"`
}
