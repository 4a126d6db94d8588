package server_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"weir/api/admin"
	"weir/api/tenant"
	"weir/configs"
	"weir/internal/reference"
	"weir/internal/server/keychain"
	"weir/internal/server/servertest"
)

// A key has limits of its own beside its tenant's. They are told of in refusals, changed over HTTP, kept over a restart and
// a rotation, and shown with what was used.
func TestLimitsOfKeys(t *testing.T) {
	reference.Slow(t)
	t.Parallel() // most of it is waiting
	url := "sqlite:" + t.TempDir() + "/weir.db"
	operator := servertest.NewKey(t, url, keychain.Request{Tenant: "ops", Scope: "admin"})
	s := servertest.Start(t, func(c *configs.Config) { c.Store.URL = url })
	s.StoreURL = url
	var key, other, next admin.NewKey
	if status := s.Control(operator, "POST", "/admin/keys", `{"tenant":"acme","label":"app","limits":{"requests_per_minute":2,"daily_tokens":500}}`, &key); status != http.StatusCreated ||
		key.Spec["limits"].(map[string]any)["daily_tokens"] != 500.0 || !strings.Contains(strings.Join(key.Warnings, " "), "The tenant acme was not made") {
		t.Fatalf("%d %+v", status, key)
	}
	s.Control(operator, "POST", "/admin/keys", `{"tenant":"acme","label":"other"}`, &other)
	for i, want := range []int{200, 200, 429} {
		if status, code, message := s.PostWithKey(key.Secret, servertest.ChatPath, servertest.OneToken); status != want ||
			want == 429 && (code != "rate_limit_exceeded" || !strings.Contains(message, "requests_per_minute of the key "+key.ID+" is 2") || strings.Contains(message, key.Secret[16:])) {
			t.Errorf("request %d: %d %s %s", i, status, code, message)
		}
	}
	if status, _, message := s.PostWithKey(other.Secret, servertest.ChatPath, servertest.OneToken); status != 200 {
		t.Errorf("the tenant's other key: %d %s", status, message)
	}
	if status := s.Control(operator, "PATCH", "/admin/keys/"+key.ID, `{"limits":{"requests_per_minute":null,"daily_tokens":3}}`, &key.KeyView); status != 200 ||
		len(key.Limits) != 1 || key.Limits[0].Left != 0.0 || key.Limits[0].Key != key.ID {
		t.Errorf("%d %+v", status, key.KeyView)
	}
	if status, code, message := s.PostWithKey(key.Secret, servertest.ChatPath, servertest.OneToken); status != 429 || code != "insufficient_quota" || !strings.Contains(message, "daily_tokens of the key") {
		t.Errorf("a budget that was lowered: %d %s %s", status, code, message)
	}
	// The key that takes its place goes on where it stands, also on a server that starts then.
	s.Control(operator, "POST", "/admin/keys/"+key.ID+"/rotate", `{}`, &next)
	second := servertest.Start(t, func(c *configs.Config) { c.Store.URL = url })
	for _, at := range []*servertest.Server{s, second} {
		if status, code, message := at.PostWithKey(next.Secret, servertest.ChatPath, servertest.OneToken); status != 429 || code != "insufficient_quota" || !strings.Contains(message, next.ID) {
			t.Errorf("the key that takes its place: %d %s %s", status, code, message)
		}
	}
	s.Control(operator, "PATCH", "/admin/keys/"+next.ID, `{"limits":{"daily_tokens":100000},"models":["weir-default"],"expires":"1h"}`, &next.KeyView)
	for end := time.Now().Add(servertest.Patience); ; { // the other server sees it, too
		status, _, message := second.PostWithKey(next.Secret, servertest.ChatPath, servertest.OneToken)
		if status == 200 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("a budget that was raised elsewhere: %s", message)
		}
	}
	var own ownUsage
	if _, _, text := s.As(next.Secret, "GET", s.API+"/v1/usage", ""); json.Unmarshal([]byte(text), &own) != nil || len(own.Limits) != 1 || own.Limits[0].Key != next.ID || own.Limits[0].Used == 0 {
		t.Errorf("%+v", own)
	}
	var shown struct {
		Limits []struct{ Limit, Key string }
		Usage  struct {
			Day   struct{ Requests int }
			Month struct {
				Output int `json:"output_tokens"`
			}
		}
	}
	if s.Control(operator, "GET", "/admin/keys/"+key.ID, "", &shown); shown.Usage.Day.Requests != 2 || shown.Usage.Month.Output != 2 || len(shown.Limits) != 1 {
		t.Errorf("%+v", shown)
	}
	if status, _, text := s.As(next.Secret, "POST", s.API+"/v1/models/weir-iris:predict", `{"instances":[[5.1,3.5,1.4,0.2]]}`); status != 404 {
		t.Errorf("a model that the key may not use: %d %s", status, text)
	}
	if _, _, text := s.As(next.Secret, "GET", s.API+"/v1/models", ""); strings.Contains(text, "iris") || !strings.Contains(text, "weir-default") {
		t.Errorf("%s", text)
	}
	s.AwaitBatch(next.Secret, s.Batch(next.Secret, chatLines(3, 2)), completed)                                                       // lines count for the key that made the batch
	if s.Control(operator, "GET", "/admin/keys/"+next.ID, "", &shown); shown.Usage.Day.Requests < 3 || shown.Usage.Month.Output < 6 { // the other server tells of its own within a second
		t.Errorf("of a batch of three lines %+v counts for its key", shown)
	}
	for _, c := range []struct{ method, path, body, code string }{
		{"PATCH", key.ID, `{"limits":{"rpm":1}}`, "invalid_value"}, {"PATCH", key.ID, `{"label":"x"}`, "invalid_value"},
		{"PATCH", key.ID, `{"expires":7}`, "invalid_value"}, {"PATCH", key.ID, `[]`, "invalid_value"}, {"PATCH", "0000000000", `{}`, "key_not_found"},
	} {
		var answer struct {
			Error struct{ Code, Message string }
		}
		if s.Control(operator, c.method, "/admin/keys/"+c.path, c.body, &answer); answer.Error.Code != c.code {
			t.Errorf("%s %s: %+v", c.path, c.body, answer)
		}
	}
	if list := servertest.AuditLog(t, url); strings.Count(list, "key.change") != 2 || strings.Contains(list, next.Secret) {
		t.Errorf("%s", list)
	}
}

// Over two servers of one Redis a key's limit is one limit.
func TestLimitsOfKeysOverTwoWeirs(t *testing.T) {
	reference.Slow(t)
	url := "sqlite:" + t.TempDir() + "/weir.db"
	key := servertest.NewKey(t, url, keychain.Request{Tenant: "acme", Terms: []byte(`{"limits":{"requests_per_minute":3}}`)})
	redis := reference.Redis.Get(t)
	shared := func(c *configs.Config) { c.Store.URL, c.Quota.Redis, c.Quota.Timeout = url, redis, servertest.Patience }
	weirs := []*servertest.Server{servertest.Start(t, shared), servertest.Start(t, shared)}
	for i, want := range []int{200, 200, 200, 429, 429} {
		if status, code, message := weirs[i%2].PostWithKey(key, servertest.ChatPath, servertest.OneToken); status != want {
			t.Errorf("request %d: %d %s %s", i, status, code, message)
		}
	}
}

// An answer that a key's strict budget ends says whose limit it was.
func TestAnAnswerEndsAtTheKeysLimit(t *testing.T) {
	url := "sqlite:" + t.TempDir() + "/weir.db"
	key := servertest.NewKey(t, url, keychain.Request{Tenant: "acme", Terms: []byte(`{"limits":{"daily_tokens":40,"enforcement":"strict"}}`)})
	s := servertest.Start(t, func(c *configs.Config) { c.Store.URL = url })
	status, head, text := s.As(key, "POST", s.API+servertest.ChatPath, servertest.Hello+`,"max_tokens":200,"ignore_eos":true}`)
	if status != 200 || !strings.Contains(head.Get("X-Weir-Warnings"), "the answer ended at the key "+key[5:15]+"'s limit daily_tokens") ||
		!strings.Contains(text, `"finish_reason":"length"`) || !strings.Contains(text, `"total_tokens":40`) {
		t.Errorf("%d %v %s", status, head, text)
	}
}

// What a tenant has tokenised is compute time of its, and no request, in usage and metrics.
func TestTokenisingIsComputeTimeOfTheTenant(t *testing.T) {
	s, key, operator := servertest.Limited(t, func(c *configs.Config) { c.Tenants[0].Limits.RequestsPerMinute = 0 })
	if status, _, text := s.As(key, "POST", s.API+"/tokenize", `{"prompt":"`+strings.Repeat("some words of a long text ", 500)+`"}`); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	var report struct {
		Rows []struct {
			Tenant, Model string
			Requests      int
			Compute       float64 `json:"compute_seconds"`
		}
	}
	if s.Control(operator, "GET", "/admin/usage?tenant=acme", "", &report); len(report.Rows) != 1 || report.Rows[0].Requests != 0 || report.Rows[0].Compute <= 0 || report.Rows[0].Model != "weir-default" {
		t.Errorf("%+v", report)
	}
	if _, _, text := s.As(operator, "GET", s.Admin+"/metrics", ""); !strings.Contains(text, `weir_tenant_compute_seconds_total{model_name="weir-default",tenant="acme"}`) {
		t.Error("the metrics have no compute time of the tenant")
	}
}

// What a key is given that cannot be meant is refused, or told of: limits of 0, which would be none, a limit twice, models that
// are not there.
func TestTermsOfKeysThatCannotBeMeant(t *testing.T) {
	t.Parallel() // most of it is waiting
	url := "sqlite:" + t.TempDir() + "/weir.db"
	operator := servertest.NewKey(t, url, keychain.Request{Tenant: "ops", Scope: "admin"})
	s := servertest.Start(t, func(c *configs.Config) {
		c.Store.URL = url
		acme := tenant.New("acme")
		acme.Models = []string{"weir-default"}
		c.Tenants = []tenant.Tenant{tenant.New("ops"), acme}
	})
	for _, limits := range []string{`{"requests_per_minute":0}`, `{"daily_cost":"0.00"}`, `{"daily_cost":0}`} {
		var answer struct {
			Error struct{ Code, Message string }
		}
		if status := s.Control(operator, "POST", "/admin/keys", `{"tenant":"acme","limits":`+limits+`}`, &answer); status != http.StatusBadRequest ||
			!strings.Contains(answer.Error.Message, "which would be no limit at all") {
			t.Errorf("%s: %d %+v", limits, status, answer)
		}
	}
	var key admin.NewKey
	if status := s.Control(operator, "POST", "/admin/keys", `{"tenant":"acme","models":["weir-default","weir-iris","nosuch"]}`, &key); status != http.StatusCreated {
		t.Fatal(status)
	}
	told := strings.Join(key.Warnings, "\n")
	for _, want := range []string{"There is no model called nosuch among ", "Tenant acme may not use weir-iris", "weir keys change " + key.ID} {
		if !strings.Contains(told, want) {
			t.Errorf("the answer does not say %q: %s", want, told)
		}
	}
	var view admin.KeyView
	if s.Control(operator, "PATCH", "/admin/keys/"+key.ID, `{"models":["nosuch"]}`, &view); len(view.Warnings) != 1 || !strings.Contains(view.Warnings[0], "nosuch") {
		t.Errorf("%q", view.Warnings)
	}
	view = admin.KeyView{}
	if s.Control(operator, "PATCH", "/admin/keys/"+key.ID, `{"models":["weir-default"]}`, &view); len(view.Warnings) != 0 {
		t.Errorf("%q", view.Warnings)
	}
}
