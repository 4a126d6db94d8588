package openai

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"weir/api/edge"
	"weir/api/tenant"
)

// keys is a store of keys that are there from the beginning.
type keys struct {
	tenant.Keys
	list map[string]tenant.Key
}

func (k keys) List(context.Context, string) ([]tenant.Key, error) {
	return make([]tenant.Key, len(k.list)), nil
}

func (k keys) Find(_ context.Context, id string) (tenant.Key, error) {
	found, ok := k.list[id]
	if !ok {
		return found, tenant.ErrNoKey
	}
	return found, nil
}

// callers is a configuration with tenants, and a function that issues a key.
func callers(t *testing.T, tenants ...tenant.Tenant) (c Config, issue func(name string, change func(*tenant.Key)) string) {
	t.Helper()
	pepper, err := tenant.NewPepper([]byte(strings.Repeat("p", tenant.MinPepperBytes)))
	if err != nil {
		t.Fatal(err)
	}
	directory, err := tenant.NewDirectory(tenants)
	if err != nil {
		t.Fatal(err)
	}
	store := keys{list: make(map[string]tenant.Key)}
	issue = func(name string, change func(*tenant.Key)) string {
		k := pepper.Issue()
		record := tenant.Key{ID: k.ID, Tenant: name, Scope: tenant.ScopeInference, Hash: k.Hash}
		if change != nil {
			change(&record)
		}
		store.list[k.ID] = record
		return k.Text
	}
	c = DefaultConfig()
	issue("nobody", nil)
	if c.Callers, err = tenant.NewAuthenticator(t.Context(), tenant.Config{Directory: directory, Pepper: pepper, Keys: store}); err != nil {
		t.Fatal(err)
	}
	return c, issue
}

func bearer(key string) string { return "Authorization: Bearer " + key + "\r\n" }

// What a denied caller is told does not depend on what is wrong with the key; the
// log is told.
func TestDeniedCallersLearnNothing(t *testing.T) {
	c, issue := callers(t, tenant.New("acme"))
	var reasons []string
	c.Hooks.OnRefused = func(r edge.Refusal) { reasons = append(reasons, r.Reason) }
	good := issue("acme", nil)
	proofs := []string{
		"", bearer("sk-unknown"), bearer(good[:len(good)-1]), bearer(good + "0"),
		bearer(issue("acme", func(k *tenant.Key) { k.Expires = time.Now() })),
		bearer(issue("acme", func(k *tenant.Key) { k.Revoked = time.Now() })),
		bearer(issue("acme", func(k *tenant.Key) { k.Hash[3]++ })),
		bearer(issue("elsewhere", nil)),
	}
	r := newRig(t, c, &fakeBackend{})
	defer r.close()
	first := ""
	for i, proof := range proofs {
		res, body := r.do("POST", routeChat, proof, chatWith(`"n":1`))
		if first == "" {
			first = body
		}
		if i == len(proofs)-1 { // a good key
			if res.StatusCode != 403 || !strings.Contains(body, `"code":"tenant_not_configured"`) {
				t.Errorf("a tenant that is not configured: %d %s", res.StatusCode, body)
			}
			continue
		}
		if res.StatusCode != 401 || body != first || res.Header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("proof %d: %d %s", i, res.StatusCode, body)
		}
	}
	want := []string{
		"no key, token or certificate was shown", "the key is unknown", "the key is unknown", "the key is unknown",
		"the key has expired", "the key is revoked", "the key is unknown", "the tenant is not configured",
	}
	if strings.Join(reasons, "|") != strings.Join(want, "|") {
		t.Errorf("reasons %q", reasons)
	}
	if res, body := r.do("POST", routeChat, bearer(good), chatWith(`"n":1`)); res.StatusCode != 200 {
		t.Errorf("a good key: %d %s", res.StatusCode, body)
	}
}

func TestRequestsCarryTheirTenant(t *testing.T) {
	one, two := tenant.New("one"), tenant.New("two")
	one.Weight, one.CacheGroup = 7, "family"
	c, issue := callers(t, one, two)
	b := &fakeBackend{}
	r := newRig(t, c, b)
	defer r.close()
	for _, name := range []string{"one", "two"} {
		if res, body := r.do("POST", routeChat, bearer(issue(name, nil)), chatWith(`"n":1`)); res.StatusCode != 200 {
			t.Fatalf("%d %s", res.StatusCode, body)
		}
	}
	q, p := b.run(t, 0).req, b.run(t, 1).req
	if q.Tenant != "one" || q.Weight != 7 || q.CacheDomain != "group family" {
		t.Errorf("tenant %q, weight %d, domain %q", q.Tenant, q.Weight, q.CacheDomain)
	}
	if p.Tenant != "two" || p.Weight != 1 || p.CacheDomain != "two" {
		t.Errorf("tenant %q, weight %d, domain %q", p.Tenant, p.Weight, p.CacheDomain)
	}
}

// A model that a tenant may not use does not exist for it: neither by name nor by
// alias, nor in a list, nor in an error's words.
func TestModelsOfOthersDoNotExist(t *testing.T) {
	some, none := tenant.New("some"), tenant.New("none")
	some.Models, none.Models = []string{"alias"}, []string{"another"}
	c, issue := callers(t, some, none)
	r := newRig(t, c, &fakeBackend{})
	defer r.close()
	may, mayNot := bearer(issue("some", nil)), bearer(issue("none", nil))
	for _, ask := range []struct{ method, path, body string }{
		{"POST", routeChat, chatWith(`"n":1`)},
		{"POST", routeChat, chatWith(`"model":"alias"`)},
		{"POST", routeCompletions, `{"model":"test-model","prompt":"Hello"}`},
		{"POST", routeTokenize, `{"model":"test-model","prompt":"Hello"}`},
		{"GET", "/v1/models/test-model", ""},
		{"GET", "/v1/models/alias", ""},
		{"GET", routeTokenizer + "?model=alias", ""},
	} {
		unknown := strings.NewReplacer("test-model", "no-such-model", "alias", "no-such-model")
		res, body := r.do(ask.method, ask.path, mayNot, ask.body)
		other, otherBody := r.do(ask.method, unknown.Replace(ask.path), mayNot, unknown.Replace(ask.body))
		same := unknown.Replace(body) == otherBody && res.StatusCode == other.StatusCode
		if !same && strings.Contains(ask.body+ask.path, "model") || res.StatusCode < 400 || strings.Contains(body, "served: test-model") {
			t.Errorf("%s %s: %d %s, and a model that does not exist: %s", ask.path, ask.body, res.StatusCode, body, otherBody)
		}
		if res, body := r.do(ask.method, ask.path, may, ask.body); res.StatusCode == 404 {
			t.Errorf("%s: who may use the model gets %d %s", ask.path, res.StatusCode, body)
		}
	}
	if _, body := r.do("GET", routeModels, mayNot, ""); strings.Contains(body, "test-model") {
		t.Errorf("the list shows the model: %s", body)
	}
	if _, body := r.do("GET", routeModels, may, ""); !strings.Contains(body, "test-model") {
		t.Errorf("the list hides the model: %s", body)
	}
}

func TestScopesOfRoutes(t *testing.T) {
	c, issue := callers(t, tenant.New("acme"))
	c.Metrics = http.NotFoundHandler() // any status but those of a refusal
	r := newRig(t, c, &fakeBackend{})
	defer r.close()
	scoped := func(s tenant.Scope) string {
		return bearer(issue("acme", func(k *tenant.Key) { k.Scope = s }))
	}
	for _, tc := range []struct {
		scope           tenant.Scope
		models, metrics int
	}{
		{tenant.ScopeInference, 200, 403}, {tenant.ScopeMetrics, 403, 404}, {tenant.ScopeAdmin, 403, 403},
		{tenant.ScopeInference | tenant.ScopeMetrics, 200, 404},
	} {
		key := scoped(tc.scope)
		if res, body := r.do("GET", routeModels, key, ""); res.StatusCode != tc.models {
			t.Errorf("%s for models: %d %s", tc.scope, res.StatusCode, body)
		}
		if res, body := r.do("GET", routeMetrics, key, ""); res.StatusCode != tc.metrics || tc.metrics == 403 && !strings.Contains(body, "insufficient_scope") {
			t.Errorf("%s for metrics: %d %s", tc.scope, res.StatusCode, body)
		}
	}
}

// A head that is denied costs no memory of a body and no question to the store.
func TestAnOldKeyIsRefusedWithoutItsBody(t *testing.T) {
	c, issue := callers(t, tenant.New("acme"))
	old := issue("acme", func(k *tenant.Key) { k.Expires = time.Now() })
	r := newRig(t, c, &fakeBackend{})
	defer r.close()
	conn, err := r.ln.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	head := "POST " + routeChat + " HTTP/1.1\r\nHost: x\r\n" + bearer(old) + "Content-Length: 1000000\r\n\r\n"
	if res, body := exchange(t, conn, "POST", head); res.StatusCode != 401 || r.api.Stats().BodyBytes != 0 {
		t.Errorf("%d %s, %d bytes of bodies", res.StatusCode, body, r.api.Stats().BodyBytes)
	}
}
