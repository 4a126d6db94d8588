package server_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"

	"weir/api/tenant"
	"weir/configs"
	"weir/internal/server/keychain"
	"weir/internal/server/servertest"
	"weir/scheduler/quota"
	"weir/telemetry/trace/tracetest"
)

// Who is refused, of which model and why, is in the list of requests, in the log and in the trace, also where the
// request got to no model.
func TestRefusalsNameTheirTenantAndModel(t *testing.T) {
	endpoint, spans := tracetest.Collect(t)
	s, key, operator := servertest.Limited(t, func(c *configs.Config) {
		c.Log.Level, c.Trace.Endpoint, c.Trace.SampleRatio = "debug", endpoint, 1
	})
	const chat, predict = "/v1/chat/completions", "/v1/models/weir-iris:predict"
	row := `{"instances": [[5.1, 3.5, 1.4, 0.2]]}`
	for i, c := range []struct {
		path, body string
		status     int
	}{
		{chat, servertest.Hello + `,"max_tokens":1}`, 200}, {predict, row, 200},
		{chat, servertest.Hello + `,"max_tokens":1}`, 429}, {predict, row, 429},
		{chat, `{"model":"nosuch","messages":[]}`, 404}, {"/v1/models/nosuch:predict", row, 404},
	} {
		if status, _, text := s.As(key, "POST", s.API+c.path, c.body); status != c.status {
			t.Fatalf("request %d: %d %s", i, status, text)
		}
	}
	_, _, page := s.As(operator, "GET", s.Admin+"/admin/requests?tenant=acme&state=refused", "")
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
		chat + " model_not_found": "acme ", "/v1/models/{model}:predict model_not_found": "acme ",
	} {
		if !strings.HasPrefix(seen[what], want) {
			t.Errorf("the list of refused requests has %q of %s, want %s:\n%s", seen[what], what, want, page)
		}
	}
	for _, want := range []string{
		`"code":"rate_limit_exceeded","tenant":"acme","model":"weir-default"`, `"code":"rate_limit_exceeded","tenant":"acme","model":"weir-iris","version":"1"`,
		`"code":"model_not_found","tenant":"acme","model":""`,
	} {
		s.Find(`("request refused"[^\n]*`+want+`)`, &s.Errs)
	}
	if err := s.End(); err != nil {
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
		seen[s.Name+tracetest.Attribute(s, "weir.error.code")] = s.String()
	}
	for span, wants := range map[string][]string{
		"chat weir-default": {"acme", "weir.model.version", "gen_ai.provider.name"}, "predict weir-iris": {"acme", "weir.model.version", "weir.predict.rows"},
		`chat weir-defaultstring_value:"rate_limit_exceeded"`: {"acme"}, `predict weir-irisstring_value:"rate_limit_exceeded"`: {"acme", "weir.model.version"},
		`chatstring_value:"model_not_found"`: {"acme"}, `predictstring_value:"model_not_found"`: {"acme"},
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

// The metrics say what each configured tenant asked, was refused, used, paid and has left; others are one.
func TestMetricsByTenant(t *testing.T) {
	s, key, operator := servertest.Limited(t, func(c *configs.Config) {
		c.Tenants[0].Limits.DailyTokens = 1000
		c.Tenants[0].Limits.MonthlyCost = 2 * quota.Money(1_000_000)
		c.Tenants[0].ModelLimits = map[string]quota.Limits{"weir-default": {MaxStreams: 3}}
		c.Tenants = append(c.Tenants, tenant.New(tenant.Rest))
		c.Prices = map[string]quota.Price{"weir-default": {Input: 1_000_000, Output: 1_000_000}}
	})
	stranger := servertest.NewKey(t, s.StoreURL, keychain.Request{Tenant: "stranger"})
	const chat = "/v1/chat/completions"
	for i, c := range []struct {
		key    string
		path   string
		body   string
		status int
	}{
		{key, chat, servertest.Hello + `,"max_tokens":4,"ignore_eos":true}`, 200}, {key, chat, servertest.Hello + `,"max_tokens":4}`, 200}, {key, chat, servertest.Hello + `}`, 429},
		{key, chat, `{"model":"nosuch","messages":[]}`, 404}, {stranger, "/v1/models/weir-iris:predict", `{"instances": [[5.1, 3.5, 1.4, 0.2]]}`, 200},
		{"weir_wrong", chat, servertest.Hello + `}`, 401}, {"", chat, servertest.Hello + `}`, 401},
	} {
		if status, _, text := s.As(c.key, "POST", s.API+c.path, c.body); status != c.status {
			t.Fatalf("request %d: %d %s", i, status, text)
		}
	}
	if status, _, _ := s.As("weir_wrong", "GET", s.Admin+"/admin/requests", ""); status != 401 {
		t.Fatalf("the admin listener answers a wrong key with %d", status)
	}
	_, _, scrape := s.As(operator, "GET", s.Admin+"/metrics", "")
	for _, want := range []string{
		`weir_tenant_requests_total{outcome="complete",tenant="acme"} 2`, `weir_tenant_requests_total{outcome="refused",tenant="acme"} 2`,
		`weir_tenant_requests_total{outcome="complete",tenant="other"} 1`, `weir_tenant_tokens_total{kind="rows",model_name="weir-iris",tenant="other"} 1`,
		`weir_tenant_refusals_total{code="rate_limit_exceeded",status="429",tenant="acme"} 1`,
		`weir_tenant_refusals_total{code="model_not_found",status="404",tenant="acme"} 1`,
		`weir_tenant_refusals_total{code="invalid_api_key",status="401",tenant=""} 2`,
		`weir_tenant_time_to_first_token_seconds_count{tenant="acme"} 2`,
		`weir_tenant_limit{limit="daily_tokens",model_name="",tenant="acme"} 1000`, `weir_tenant_limit{limit="monthly_cost",model_name="",tenant="acme"} 2`,
		`weir_tenant_limit_used{limit="max_streams",model_name="weir-default",tenant="acme"} 0`,
		`weir_sign_ins_denied_total{listener="api",reason="unknown_key"} 1`, `weir_sign_ins_denied_total{listener="api",reason="nothing_shown"} 1`,
		`weir_sign_ins_denied_total{listener="admin",reason="unknown_key"} 1`,
		`weir_version_requests_total{arm="",code="",model_name="weir-iris",outcome="complete",version="1"} 1`,
	} {
		if !strings.Contains(scrape, want) {
			t.Errorf("the scrape lacks %s", want)
		}
	}
	value := func(series string) float64 {
		_, text, _ := strings.Cut(scrape, series+" ")
		number, _, _ := strings.Cut(text, "\n")
		v, err := strconv.ParseFloat(number, 64)
		if err != nil {
			t.Errorf("%s: %v", series, err)
		}
		return v
	}
	labels := `{kind="%s",model_name="weir-default",tenant="acme"}`
	tokens := value("weir_tenant_tokens_total"+fmt.Sprintf(labels, "prompt")) + value("weir_tenant_tokens_total"+fmt.Sprintf(labels, "output"))
	used, left := value(`weir_tenant_limit_used{limit="daily_tokens",model_name="",tenant="acme"}`), value(`weir_tenant_limit_left{limit="daily_tokens",model_name="",tenant="acme"}`)
	if tokens < 10 || used != tokens || used+left != 1000 {
		t.Errorf("%v tokens, %v of the day's are used and %v left", tokens, used, left)
	}
	if cost := value(`weir_tenant_cost_total{model_name="weir-default",tenant="acme"}`); cost <= 0 ||
		math.Abs(cost-value(`weir_tenant_limit_used{limit="monthly_cost",model_name="",tenant="acme"}`)) > 1e-9 {
		t.Errorf("the requests cost %v", cost)
	}
}

// The log has a line at level info for each request and each refusal, up to a rate, and those who showed a wrong key are
// in the audit log.
func TestAccessLogAndDeniedCallers(t *testing.T) {
	s, key, _ := servertest.Limited(t, nil)
	const chat = "/v1/chat/completions"
	s.As(key, "POST", s.API+chat, servertest.Hello+`,"max_tokens":4,"ignore_eos":true}`)
	s.As(key, "POST", s.API+chat, `{"model":"nosuch","messages":[]}`)
	s.As("weir_wrong", "POST", s.API+chat, servertest.Hello+`}`)
	s.As("weir_wrong", "GET", s.Admin+"/admin/requests", "")
	for _, want := range []string{
		`"method":"POST","path":"/v1/chat/completions","status":200,"tenant":"acme","model":"weir-default"[^\n]*"output_tokens":4,"ttft_ms":[0-9.]+,"duration_ms":[0-9.]+`,
		`"status":404,"tenant":"acme","model":""[^\n]*"code":"model_not_found"`, `"status":401,"tenant":""[^\n]*"code":"invalid_api_key","reason":"the key is unknown"`,
	} {
		s.Find(`("level":"info"[^\n]*"message":"request"[^\n]*`+want+`)`, &s.Errs)
	}
	if strings.Contains(s.Errs.String(), "Hello") {
		t.Error("a prompt is in the log")
	}
	if err := s.End(); err != nil {
		t.Fatal(err)
	}
	list := servertest.AuditLog(t, s.StoreURL)
	if n := strings.Count(list, "signin.denied"); n != 1 || !strings.Contains(list, `"reasons":{"unknown_key":2}`) ||
		!strings.Contains(list, `"127.0.0.1":2`) {
		t.Errorf("%d entries:\n%s", n, list)
	}
}
