package main

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"

	"weir/api/tenant"
	"weir/configs"
)

// as sends a request with a key, and reads all of the answer.
func (s *started) as(key, method, url, body string) (int, http.Header, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(text)
}

// limited is a server with a tenant acme of two requests a minute, its key, and that of an operator.
func limited(t *testing.T, change func(*configs.Config)) (s *started, key, operator string) {
	t.Helper()
	url := "sqlite:" + t.TempDir() + "/weir.db"
	key, operator = makeKey(t, url, "acme"), makeKey(t, url, "ops", "--scope", "admin,metrics")
	s = start(t, func(c *configs.Config) {
		c.Store.URL = url
		acme := tenant.New("acme")
		acme.Limits.RequestsPerMinute = 2
		c.Tenants = []tenant.Tenant{acme, tenant.New("ops")}
		if change != nil {
			change(c)
		}
	})
	return s, key, operator
}

// Who is refused, of which model and why, is in the list of requests, in the log and in the trace, also where the
// request got to no model.
func TestRefusalsNameTheirTenantAndModel(t *testing.T) {
	endpoint, spans := collect(t)
	s, key, operator := limited(t, func(c *configs.Config) {
		c.Log.Level, c.Trace.Endpoint, c.Trace.SampleRatio = "debug", endpoint, 1
	})
	const chat, predict = "/v1/chat/completions", "/v1/models/weir-iris:predict"
	row := `{"instances": [[5.1, 3.5, 1.4, 0.2]]}`
	for i, c := range []struct {
		path, body string
		status     int
	}{
		{chat, hello + `,"max_tokens":1}`, 200}, {predict, row, 200},
		{chat, hello + `,"max_tokens":1}`, 429}, {predict, row, 429},
		{chat, `{"model":"nosuch","messages":[]}`, 404}, {"/v1/models/nosuch:predict", row, 404},
	} {
		if status, _, text := s.as(key, "POST", s.api+c.path, c.body); status != c.status {
			t.Fatalf("request %d: %d %s", i, status, text)
		}
	}
	_, _, page := s.as(operator, "GET", s.metrics+"/admin/requests?tenant=acme&state=refused", "")
	var list struct {
		Requests []struct{ Model, Version, Tenant, Code, Route string }
	}
	if err := json.Unmarshal([]byte(page), &list); err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]string)
	for _, r := range list.Requests {
		seen[r.Route+" "+r.Code] = r.Tenant + " " + r.Model + " " + r.Version
	}
	for what, want := range map[string]string{
		chat + " rate_limit_exceeded": "acme weir-default", "/v1/models/{model}:predict rate_limit_exceeded": "acme weir-iris 1",
		chat + " model_not_found": "acme nosuch", "/v1/models/{model}:predict model_not_found": "acme nosuch",
	} {
		if !strings.HasPrefix(seen[what], want) {
			t.Errorf("the list of refused requests has %q of %s, want %s:\n%s", seen[what], what, want, page)
		}
	}
	for _, want := range []string{
		`"code":"rate_limit_exceeded","tenant":"acme","model":"weir-default"`, `"code":"rate_limit_exceeded","tenant":"acme","model":"weir-iris","version":"1"`,
		`"code":"model_not_found","tenant":"acme","model":"nosuch"`,
	} {
		s.find(`("request refused"[^\n]*`+want+`)`, &s.errs)
	}
	if err := s.end(); err != nil {
		t.Fatal(err)
	}
	checkSpans(t, spans())
}

// checkSpans: the spans of the requests above say whose they are, of which version, and how they failed.
func checkSpans(t *testing.T, spans []*otlp.Span) {
	t.Helper()
	seen := make(map[string]string)
	for _, s := range spans {
		if strings.TrimSpace(s.Name) != s.Name || s.Name == "" {
			t.Errorf("a span is named %q", s.Name)
		}
		seen[s.Name+attribute(s, "weir.error.code")] = s.String()
	}
	for span, wants := range map[string][]string{
		"chat weir-default": {"acme", "weir.model.version", "gen_ai.provider.name"}, "predict weir-iris": {"acme", "weir.model.version", "weir.predict.rows"},
		`chat weir-defaultstring_value:"rate_limit_exceeded"`: {"acme"}, `predict weir-irisstring_value:"rate_limit_exceeded"`: {"acme", "weir.model.version"},
		`chat nosuchstring_value:"model_not_found"`: {"acme"}, `predict nosuchstring_value:"model_not_found"`: {"acme"},
		"compute": nil,
	} {
		for _, want := range append(wants, "") {
			if text, ok := seen[span]; !ok || !strings.Contains(text, want) {
				t.Errorf("the span %s lacks %q: %q", span, want, text)
			}
		}
	}
	if strings.Contains(seen["predict weir-iris"], "gen_ai") {
		t.Errorf("a tree generates: %s", seen["predict weir-iris"])
	}
}
