package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/api/tenant"
	"weir/configs"
	"weir/internal/defaultmodel"
	"weir/internal/reference"
	"weir/internal/server/keychain"
	"weir/internal/server/servertest"
	"weir/router/fleet"
)

// secretWord is in everything that the tenant with a residency sends.
const secretWord = "secret of acme"

// abroad is a replica in another region, and how many requests with the secret came there.
func abroad(t *testing.T, behind string) (address string, strayed, got *atomic.Int64) {
	t.Helper()
	strayed, got = new(atomic.Int64), new(atomic.Int64)
	at, err := url.Parse(behind)
	if err != nil {
		t.Fatal(err)
	}
	through := httputil.NewSingleHostReverseProxy(at)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if bytes.Contains(body, []byte(secretWord)) || bytes.Contains(body, []byte("6.125")) {
			strayed.Add(1)
		}
		if r.Method == http.MethodPost {
			got.Add(1)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		through.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, strayed, got
}

func inRegion(url, region string) fleet.Source {
	return fleet.Source{URL: url, Kind: fleet.Weir, Model: configs.EmbeddedName, Region: region}
}

// residents has the tenant acme, whose data stays in regions, beside others.
func residents(c *configs.Config, region string, regions ...string) {
	acme := tenant.New("acme")
	acme.Residency = regions
	c.Server.Region, c.Tenants = region, []tenant.Tenant{acme, tenant.New(tenant.Rest)}
}

// A tenant's data stays in its regions: whatever it asks for, by whichever API, in a batch, as a copy for a rollout or where a model
// falls back, no replica elsewhere gets a byte of it, and the tenant is told why.
func TestDataStaysInItsRegions(t *testing.T) {
	reference.Slow(t)
	t.Parallel() // most of it is waiting
	home := servertest.Start(t, nil)
	far, strayed, got := abroad(t, home.API)
	store := "sqlite:" + t.TempDir() + "/weir.db"
	acme, other, operator := servertest.NewKey(t, store, keychain.Request{Tenant: "acme"}), servertest.NewKey(t, store, keychain.Request{Tenant: "other"}), servertest.NewKey(t, store, keychain.Request{Tenant: "ops", Scope: "admin"})
	s := servertest.Start(t, func(c *configs.Config) {
		residents(c, "eu", "eu")
		c.Store.URL = store
		model := func(name string, fallback []string, replicas ...fleet.Source) configs.ServedModel {
			m := configs.NewServedModel(name, "")
			m.Policy, m.Fallback, m.Replicas = "round_robin", fallback, replicas
			return m
		}
		c.Models = []configs.ServedModel{
			model("far", nil, inRegion(far, "us"), fleet.Source{URL: far + "/v1/", Kind: fleet.Weir, Model: configs.EmbeddedName}),
			model("both", nil, inRegion(far, "us"), inRegion(home.API, "eu")),
			model("falls", []string{"far", "both"}, inRegion(far, "us")),
			model("rolls", nil, inRegion(home.API, "eu")), model("rolls", nil, inRegion(far, "us")),
		}
		c.Models[3].Version, c.Models[4].Version, c.Models[4].Load = "1", "2", configs.LoadNever
		trees := configs.NewClassic("flowers", "")
		trees.Replicas = []fleet.Source{{URL: far, Kind: fleet.Weir, Model: defaultmodel.IrisName, Region: "us"}}
		c.Classic = append(c.Classic, trees)
	})
	said := `[{"role":"user","content":"` + secretWord + `"}]`
	requests := map[string]string{
		"/v1/chat/completions": `{"model":"MODEL","max_tokens":2,"messages":` + said + `}`, "/v1/chat/completions?stream": `{"model":"MODEL","max_tokens":2,"stream":true,"messages":` + said + `}`,
		"/v1/completions": `{"model":"MODEL","max_tokens":2,"prompt":"` + secretWord + `"}`, "/v1/responses": `{"model":"MODEL","max_output_tokens":2,"input":"` + secretWord + `"}`,
		"/v1/messages": `{"model":"MODEL","max_tokens":2,"messages":` + said + `}`, "/v1/messages/count_tokens": `{"model":"MODEL","messages":` + said + `}`,
	}
	asked := func(key, path, body string) (status int, h http.Header) {
		t.Helper()
		status, h, text := s.As(key, http.MethodPost, s.API+path, body)
		if status >= 400 && !strings.Contains(text, "residency") {
			t.Errorf("%s: %d %s", path, status, text)
		}
		return status, h
	}
	var refused string
	for path, body := range requests {
		for model, want := range map[string]int{"far": http.StatusServiceUnavailable, "both": http.StatusOK, "falls": http.StatusOK} {
			if model == "falls" && strings.HasSuffix(path, "count_tokens") {
				continue // only what generates falls back
			}
			for range 4 {
				status, h := asked(acme, path, strings.Replace(body, "MODEL", model, 1))
				if status != want || want != http.StatusOK && h.Get("X-Weir-Reason") != "no_replica_in_region" || model == "falls" && h.Get("X-Weir-Fallback") != "both" {
					t.Errorf("%s of %s: %d %v", path, model, status, h)
				}
				if model == "far" && path == "/v1/chat/completions" {
					refused = h.Get("X-Request-Id")
				}
			}
		}
	}
	if status, h := asked(acme, "/v1/embeddings", `{"model":"far","input":"`+secretWord+`"}`); status != http.StatusServiceUnavailable || h.Get("X-Weir-Reason") != "no_replica_in_region" {
		t.Errorf("embeddings: %d %v", status, h)
	}
	for path, body := range map[string]string{
		"/v1/models/flowers:predict": `{"instances": [[6.125, 3, 5, 2]]}`,
		"/v2/models/flowers/infer":   `{"inputs":[{"name":"input","datatype":"FP32","shape":[1,4],"data":[6.125,3,5,2]}]}`,
	} {
		if status, h := asked(acme, path, body); status != http.StatusServiceUnavailable || h.Get("X-Weir-Reason") != "no_replica_in_region" {
			t.Errorf("%s: %d %v", path, status, h)
		}
	}
	if status, h := asked(acme, "/v1/messages", strings.Replace(requests["/v1/messages"], "MODEL", "both", 1)); status != http.StatusOK {
		t.Errorf("%d %v", status, h)
	}

	lines := strings.ReplaceAll(strings.ReplaceAll(chatLines(12, 2), "Number", secretWord), `"body":{`, `"body":{"model":"both",`)
	s.AwaitBatch(acme, s.Batch(acme, lines), func(b map[string]any) bool { return completed(b) && lineCount(b, "completed") == 12 })

	status, _, text := s.As(operator, http.MethodPost, s.Admin+"/v1/deployments", `{"model": "rolls", "candidate": "2", "unchecked": true, "steps": [{"shadow": 100, "percent": 0, "min_requests": 1000, "min_time": "1h"}]}`)
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	// Another tenant's copies go there: those of acme, which went before them, would have been sent by then.
	for end, before := time.Now().Add(4*servertest.Patience), got.Load(); got.Load() < before+3; {
		if status, h := asked(acme, "/v1/chat/completions", strings.Replace(requests["/v1/chat/completions"], "MODEL", "rolls", 1)); status != http.StatusOK {
			t.Fatalf("%d %v", status, h)
		}
		if status, _, text := s.As(other, http.MethodPost, s.API+"/v1/chat/completions", `{"model":"rolls","max_tokens":2,"messages":[{"role":"user","content":"Hello"}]}`); status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
		if time.Now().After(end) {
			t.Fatal("no copy comes to the candidate")
		}
	}
	if n := strayed.Load(); n > 0 {
		t.Errorf("%d requests of acme left its region", n)
	}
	if status, _, text := s.As(other, http.MethodPost, s.API+"/v1/chat/completions", `{"model":"far","max_tokens":2,"messages":[{"role":"user","content":"Hello"}]}`); status != http.StatusOK {
		t.Errorf("a tenant without a residency: %d %s", status, text)
	}
	if _, _, text := s.As(operator, http.MethodGet, s.Admin+"/admin/explain?request="+refused, ""); !strings.Contains(text, `"excluded": "residency: its region is us"`) {
		t.Errorf("explained as %s", text)
	}
	if _, _, text := s.As(operator, http.MethodGet, s.Admin+"/metrics", ""); !strings.Contains(text, `weir_route_no_replica_in_region_total{model_name="far"} `) || strings.Contains(text, `weir_route_no_replica_in_region_total{model_name="far"} 0`) {
		t.Error("the metrics count no request that found no replica in its region")
	}
}

// A server outside a tenant's residency refuses its keys before it reads a request, on both listeners; a tenant that the API made has a
// residency, too, and a change of it counts for requests that come after.
func TestServersElsewhereRefuseATenant(t *testing.T) {
	t.Parallel() // most of it is waiting
	store := "sqlite:" + t.TempDir() + "/weir.db"
	acme, admin := servertest.NewKey(t, store, keychain.Request{Tenant: "acme"}), servertest.NewKey(t, store, keychain.Request{Tenant: "acme", Label: "admin", Scope: "admin"})
	made, operator := servertest.NewKey(t, store, keychain.Request{Tenant: "made"}), servertest.NewKey(t, store, keychain.Request{Tenant: "ops", Scope: "admin"})
	s := servertest.Start(t, func(c *configs.Config) {
		residents(c, "us", "eu")
		c.Tenants = c.Tenants[:1]
		c.Tenants = append(c.Tenants, tenant.New("ops"))
		c.Store.URL = store
	})
	for url, key := range map[string]string{s.API + "/v1/models": acme, s.API + "/v1/usage": acme, s.Admin + "/admin/usage": admin} {
		status, _, text := s.As(key, http.MethodGet, url, "")
		if status != http.StatusForbidden || !strings.Contains(text, `"region_not_allowed"`) || !strings.Contains(text, "stays in eu, and this server is in us") {
			t.Errorf("%s: %d %s", url, status, text)
		}
	}
	for residency, want := range map[string]int{`["us","ap"]`: http.StatusOK, `["ap"]`: http.StatusForbidden} {
		method, path := http.MethodPost, "/admin/tenants"
		if status, _, _ := s.As(operator, http.MethodGet, s.Admin+"/admin/tenants/made", ""); status == http.StatusOK {
			method, path = http.MethodPatch, "/admin/tenants/made"
		}
		body := fmt.Sprintf(`{"name": "made", "residency": %s}`, residency)
		if method == http.MethodPatch {
			body = fmt.Sprintf(`{"residency": %s}`, residency)
		}
		if status, _, text := s.As(operator, method, s.Admin+path, body); status >= 300 {
			t.Fatalf("%s %s: %d %s", method, body, status, text)
		}
		status, _, text := s.As(made, http.MethodGet, s.API+"/v1/models", "")
		if status != want {
			t.Errorf("%s: %d %s", residency, status, text)
		}
		var shown struct{ Spec struct{ Residency []string } }
		_, _, text = s.As(operator, http.MethodGet, s.Admin+"/admin/tenants/made", "")
		if err := json.Unmarshal([]byte(text), &shown); err != nil || !strings.Contains(residency, `"`+strings.Join(shown.Spec.Residency, `","`)+`"`) {
			t.Errorf("%v %s", err, text)
		}
	}
}
