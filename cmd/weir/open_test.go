package main

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/api/tenant"
	"weir/configs"
	"weir/internal/server/servertest"
)

// A reload that drops all tenants has to be told so: a file that was cut off looks the same.
func TestReloadKeepsTenants(t *testing.T) {
	var from source
	s := startFrom(t, &from, func(c *configs.Config) { c.Tenants = []tenant.Tenant{tenant.New("acme")} })
	s.find(`(nothing says who calls)`, &s.errs)
	from.change(func(c *configs.Config) { c.Tenants = nil }, nil)
	status, body := reload(t, s)
	if status != http.StatusUnprocessableEntity || !strings.Contains(body, "drop_tenants=true") {
		t.Fatalf("%d %s", status, body)
	}
	if !s.callersDirectoryLists("acme") {
		t.Error("the tenants are gone all the same")
	}
	for query, want := range map[string]int{"drop_tenants=maybe": 400, "drop_tenants=true": 200} {
		res, err := http.Post(s.metrics+"/admin/reload?"+query, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s: %d %s", query, res.StatusCode, text)
		}
	}
	if s.callersDirectoryLists("acme") {
		t.Error("a reload that says so keeps the tenants")
	}
}

// callersDirectoryLists reports whether a tenant is in force, by what forgetting it says.
func (s *started) callersDirectoryLists(name string) bool {
	return s.do(http.MethodPost, "/admin/tenants/"+name+"/forget", "") == http.StatusOK
}

// A server that was started before there was a store asks for the keys that are made later.
func TestKeysMadeAfterTheStartAreAsked(t *testing.T) {
	t.Setenv("STATE_DIRECTORY", "")
	t.Setenv("XDG_STATE_HOME", filepath.Join(t.TempDir(), "state"))
	s := start(t, nil)
	models := s.api + "/v1/models"
	if got := ask(t, models, ""); got != http.StatusOK {
		t.Fatalf("before there is a key: %d", got)
	}
	var key, told strings.Builder
	if code := execute([]string{"keys", "create", "acme"}, &key, &told); code != exitOK {
		t.Fatal(told.String())
	}
	for end := time.Now().Add(servertest.Patience); ask(t, models, "") != http.StatusUnauthorized; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("callers without a key are still let in")
		}
	}
	if got := ask(t, models, strings.TrimSpace(key.String())); got != http.StatusOK {
		t.Errorf("the new key: %d", got)
	}
}
