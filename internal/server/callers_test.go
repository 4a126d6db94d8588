package server_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"weir/api/admin"
	"weir/api/tenant"
	"weir/configs"
	"weir/internal/server/keychain"
	"weir/internal/server/servertest"
)

// ask gets a URL with a key.
func ask(t *testing.T, url, key string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// Keys that other processes make and revoke count within seconds, on both
// listeners, each for its scope.
func TestKeysOfTheStoreOpenBothListeners(t *testing.T) {
	url := "sqlite:" + t.TempDir() + "/weir.db"
	first := servertest.NewKey(t, url, keychain.Request{Tenant: "acme"})
	s := servertest.Start(t, func(c *configs.Config) { c.Store.URL = url })
	models, engine, metrics := s.API+"/v1/models", s.Admin+"/debug/engine", s.Admin+"/metrics"
	inference, operator, scraper := servertest.NewKey(t, url, keychain.Request{Tenant: "acme"}), servertest.NewKey(t, url, keychain.Request{Tenant: "ops", Scope: "admin"}), servertest.NewKey(t, url, keychain.Request{Tenant: "ops", Label: "m", Scope: "metrics"})
	for _, c := range []struct {
		url, key string
		status   int
	}{
		{models, "", 401}, {models, first, 200}, {models, inference, 200}, {models, operator, 403},
		{engine, "", 401}, {engine, inference, 403}, {engine, scraper, 403}, {engine, operator, 200},
		{metrics, "", 401}, {metrics, inference, 403}, {metrics, scraper, 200}, {metrics, operator, 200},
		{s.Admin + "/health", "", 200}, {s.Admin + "//debug/engine", "", 401},
	} {
		if got := ask(t, c.url, c.key); got != c.status {
			t.Errorf("%s with %.16s: %d, want %d", c.url, c.key, got, c.status)
		}
	}
	servertest.RevokeKey(t, url, first[5:15])
	for end := time.Now().Add(servertest.Patience); ask(t, models, first) != 401; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a revoked key stays good")
		}
	}
	if ask(t, models, inference) != 200 {
		t.Error("another key is no longer good")
	}
}

// Tenants, keys of --api-key and issuers change without a restart.
func TestReloadChangesWhoMayCall(t *testing.T) {
	var from servertest.Source
	s := servertest.StartFrom(t, &from, func(c *configs.Config) { c.API.APIKeys = []string{"sk-0123456789"} })
	models := s.API + "/v1/models"
	if ask(t, models, "sk-0123456789") != 200 || ask(t, models, "sk-9876543210") != 401 {
		t.Fatal("the first key is not the one that is good")
	}
	from.Change(func(c *configs.Config) { c.API.APIKeys = []string{"sk-9876543210"} }, nil)
	if status, body := s.Reload(); status != 200 || !strings.Contains(body, "server.api_key") {
		t.Fatalf("%d %s", status, body)
	}
	if ask(t, models, "sk-0123456789") != 401 || ask(t, models, "sk-9876543210") != 200 {
		t.Error("the keys are still the old ones")
	}
	model := models + "/" + s.Find(`weir serves (\S+) on`, &s.Out)
	if got := ask(t, model, "sk-9876543210"); got != 200 {
		t.Fatalf("%s: %d", model, got)
	}
	none := tenant.New(tenant.Rest)
	none.Models = []string{"no-such-model"}
	from.Change(func(c *configs.Config) { c.Tenants = []tenant.Tenant{none} }, nil)
	if status, body := s.Reload(); status != 200 || !strings.Contains(body, "tenants") {
		t.Fatalf("%d %s", status, body)
	}
	if got := ask(t, model, "sk-9876543210"); got != 404 {
		t.Errorf("a model that tenants may not use any more: %d", got)
	}
}

// Endpoint pickers read the metrics of the API's port without a key, where that is set; and an admin listener that other machines reach
// asks for the configuration's keys, which may read metrics and change nothing.
func TestMetricsWithoutAKey(t *testing.T) {
	const key = "0123456789abcdef"
	for _, open := range []bool{false, true} {
		s := servertest.Start(t, func(c *configs.Config) {
			c.API.APIKeys, c.Server.APIMetrics, c.Server.OpenMetrics = []string{key}, true, open
		})
		want := http.StatusUnauthorized
		if open {
			want = http.StatusOK
		}
		if got := ask(t, s.API+"/metrics", ""); got != want {
			t.Errorf("open %v: GET /metrics without a key is answered %d", open, got)
		}
		if got := ask(t, s.API+"/metrics", key); got != http.StatusOK {
			t.Errorf("open %v: GET /metrics with the key is answered %d", open, got)
		}
		if got := ask(t, s.API+"/v1/models", ""); got != http.StatusUnauthorized {
			t.Errorf("open %v: GET /v1/models without a key is answered %d", open, got)
		}
	}
	directory, err := tenant.NewDirectory(nil)
	if err != nil {
		t.Fatal(err)
	}
	authenticator, err := tenant.NewAuthenticator(t.Context(), tenant.Config{Directory: directory})
	if err != nil {
		t.Fatal(err)
	}
	authenticator.Replace(directory, []string{key}, nil)
	for _, exposed := range []bool{false, true} {
		listener := httptest.NewServer(admin.New(admin.Config{Metrics: http.NotFoundHandler(), Callers: authenticator, Exposed: exposed, Version: "1"}))
		defer listener.Close()
		for path, want := range map[string][2]int{ // without a key and with it
			"/metrics": {http.StatusUnauthorized, http.StatusNotFound}, "/debug/pprof/": {http.StatusUnauthorized, http.StatusForbidden}, "/health": {http.StatusOK, http.StatusOK},
		} {
			for i, k := range []string{"", key} {
				if got := ask(t, listener.URL+path, k); exposed && got != want[i] || !exposed && (got == http.StatusUnauthorized || got == http.StatusForbidden) {
					t.Errorf("exposed %v, key %q: GET %s is answered %d", exposed, k, path, got)
				}
			}
		}
	}
}
