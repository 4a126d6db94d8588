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

// eventually asks until an answer has the status.
func eventually(s *servertest.Server, key string, want int) {
	s.T.Helper()
	last := 0
	for end := time.Now().Add(servertest.Patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if last, _, _ = s.As(key, "GET", s.API+"/v1/usage", ""); last == want {
			return
		}
	}
	s.T.Fatalf("the key is answered %d, want %d", last, want)
}

// Tenants and keys are made, changed, rotated, revoked and deleted over HTTP. They count on other servers of the store, and
// after a restart; those of the file are changed in the file.
func TestTenantsAndKeysByAPI(t *testing.T) {
	t.Parallel() // most of it is waiting
	s, acme, operator := servertest.Limited(t, nil)
	second := servertest.Start(t, func(c *configs.Config) {
		c.Store.URL = s.StoreURL
		c.Tenants = []tenant.Tenant{tenant.New("acme"), tenant.New("ops")}
	})
	var made admin.TenantView
	if status := s.Control(operator, "POST", "/admin/tenants", `{"name":"beta","weight":3,"limits":{"requests_per_minute":2,"daily_tokens":500}}`, &made); status != http.StatusCreated ||
		made.Origin != admin.FromAPI || made.Revision == 0 {
		t.Fatalf("%d %+v", status, made)
	}
	var key admin.NewKey
	if status := s.Control(operator, "POST", "/admin/keys", `{"tenant":"beta","label":"app","expires":"90d"}`, &key); status != http.StatusCreated ||
		key.State != "live" || key.Scope != "inference" || key.Expires == nil || key.ID != key.Secret[5:15] {
		t.Fatalf("%d %+v", status, key)
	}
	eventually(s, key.Secret, 200) // at once
	eventually(second, key.Secret, 200)
	const chat = "/v1/chat/completions"
	for i, want := range []int{200, 200, 429} {
		if status, _, text := second.As(key.Secret, "POST", second.API+chat, servertest.Hello+`,"max_tokens":1}`); status != want {
			t.Errorf("request %d: %d %s, want %d", i, status, text, want)
		}
	}
	var own ownUsage
	_, _, text := second.As(key.Secret, "GET", second.API+"/v1/usage", "")
	if err := json.Unmarshal([]byte(text), &own); err != nil || own.Tenant != "beta" || len(own.Limits) != 2 || own.Limits[0].Left != 0 {
		t.Errorf("%s", text)
	}
	// Changes: the patch lies over what was there.
	if status := s.Control(operator, "PATCH", "/admin/tenants/beta", `{"limits":{"requests_per_minute":null},"weight":5}`, &made); status != 200 ||
		made.Spec["weight"] != 5.0 || made.Spec["limits"].(map[string]any)["daily_tokens"] != 500.0 || made.Spec["limits"].(map[string]any)["requests_per_minute"] != nil {
		t.Errorf("%d %+v", status, made)
	}
	if status, _, text := s.As(key.Secret, "POST", s.API+chat, servertest.Hello+`,"max_tokens":1}`); status != 200 {
		t.Errorf("without its limit: %d %s", status, text)
	}
	var all struct{ Tenants []admin.TenantView }
	if s.Control(operator, "GET", "/admin/tenants", "", &all); len(all.Tenants) != 3 || all.Tenants[0].Origin != admin.FromFile || all.Tenants[2].Name != "beta" {
		t.Errorf("%+v", all)
	}
	// A new key takes the place of the old one.
	var next admin.NewKey
	if status := s.Control(operator, "POST", "/admin/keys/"+key.ID+"/rotate", `{"grace":"1h"}`, &next); status != http.StatusCreated || next.OldEnds == nil || next.ID == key.ID {
		t.Errorf("%d %+v", status, next)
	}
	if status := s.Control(operator, "DELETE", "/admin/keys/"+key.ID, "", &key.KeyView); status != 200 || key.State != "revoked" {
		t.Errorf("%d %+v", status, key)
	}
	eventually(s, key.Secret, 401)
	eventually(second, key.Secret, 401)
	eventually(s, next.Secret, 200)
	for _, c := range []struct {
		key, method, path, body string
		status                  int
		code                    string
	}{
		{operator, "POST", "/admin/tenants", `{"name":"acme"}`, 409, "tenant_is_configured"}, {operator, "PATCH", "/admin/tenants/acme", `{"weight":2}`, 409, "tenant_is_configured"},
		{operator, "DELETE", "/admin/tenants/acme", "", 409, "tenant_is_configured"}, {operator, "POST", "/admin/tenants", `{"name":"beta"}`, 409, "tenant_exists"},
		{operator, "PATCH", "/admin/tenants/nosuch", `{}`, 404, "tenant_not_found"}, {operator, "GET", "/admin/tenants/nosuch", "", 404, "tenant_not_found"},
		{operator, "POST", "/admin/tenants", `{"name":"x","limits":{"rpm":1}}`, 400, "invalid_value"}, {operator, "POST", "/admin/tenants", `{"name":"*"}`, 400, "invalid_value"},
		{operator, "PATCH", "/admin/tenants/beta", `{"name":"gamma"}`, 400, "invalid_value"}, {operator, "POST", "/admin/keys", `{"tenant":"nosuch"}`, 400, "invalid_value"},
		{operator, "POST", "/admin/keys", `{"tenant":"beta","scopes":"x"}`, 400, "invalid_value"}, {operator, "GET", "/admin/keys/0000000000", "", 404, "key_not_found"},
		{operator, "DELETE", "/admin/keys/zz", "", 400, "invalid_value"}, {operator, "POST", "/admin/tenants", `{"name":"y","claims":[{"issuer":"i","claim":"c","value":"v"}]}`, 400, "invalid_value"},
		{acme, "GET", "/admin/tenants", "", 403, "insufficient_scope"}, {"", "POST", "/admin/keys", `{"tenant":"beta"}`, 401, "invalid_api_key"},
	} {
		if status, _, text := s.As(c.key, c.method, s.Admin+c.path, c.body); status != c.status || !strings.Contains(text, `"`+c.code+`"`) {
			t.Errorf("%s %s %s: %d %s, want %d %s", c.method, c.path, c.body, status, text, c.status, c.code)
		}
	}
	if err := second.End(); err != nil {
		t.Fatal(err)
	}
	second = servertest.Start(t, func(c *configs.Config) {
		c.Store.URL = s.StoreURL
		c.Tenants = []tenant.Tenant{tenant.New("acme"), tenant.New("ops")}
	})
	eventually(second, next.Secret, 200)
	var deleted struct {
		Revoked int `json:"revoked_keys"`
	}
	if status := s.Control(operator, "DELETE", "/admin/tenants/beta", "", &deleted); status != 200 || deleted.Revoked != 1 {
		t.Errorf("%d %+v", status, deleted)
	}
	eventually(s, next.Secret, 401)
	eventually(second, next.Secret, 401)
	s.End()
	second.End()
	checkControlAudit(t, s.StoreURL)
}

// checkControlAudit: each change has its entry, by the key that made it, and no secret is in any.
func checkControlAudit(t *testing.T, url string) {
	t.Helper()
	list := servertest.AuditLog(t, url)
	for action, want := range map[string]int{"tenant.create": 1, "tenant.change": 1, "tenant.delete": 1, "key.create": 3, "key.rotate": 1, "key.revoke": 2} {
		if got := strings.Count(list, action); got != want {
			t.Errorf("%d entries of %s, want %d:\n%s", got, action, want, list)
		}
	}
	if strings.Contains(list, "weir_") {
		t.Errorf("a key is in the audit log:\n%s", list)
	}
}

// Where the configuration lists no tenant, a tenant that is made by the API does not lock out the others; the command line
// makes keys for it.
func TestTenantsByAPIDoNotCloseAServer(t *testing.T) {
	reference.Slow(t)
	t.Parallel() // most of it is waiting
	url := "sqlite:" + t.TempDir() + "/weir.db"
	s := servertest.Start(t, func(c *configs.Config) { c.Store.URL = url })
	if status := s.Control("", "POST", "/admin/tenants", `{"name":"beta","limits":{"max_streams":1}}`, nil); status != http.StatusCreated {
		t.Fatalf("%d", status)
	}
	var first admin.NewKey
	if status := s.Control("", "POST", "/admin/keys", `{"tenant":"somebody"}`, &first); status != http.StatusCreated || len(first.Warnings) != 3 || !strings.Contains(first.Warnings[0], "The tenant somebody was not made") {
		t.Fatalf("%d %+v", status, first)
	}
	eventually(s, "", 401) // the first key closes it
	eventually(s, first.Secret, 200)
	eventually(s, servertest.NewKey(t, url, keychain.Request{Tenant: "beta"}), 200)
}
