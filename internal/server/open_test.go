package server_test

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/api/tenant"
	"weir/configs"
	"weir/internal/reference"
	"weir/internal/server/keychain"
	"weir/internal/server/servertest"
)

// A reload that drops all tenants has to be told so: a file that was cut off looks the same.
func TestReloadKeepsTenants(t *testing.T) {
	var from servertest.Source
	s := servertest.StartFrom(t, &from, func(c *configs.Config) { c.Tenants = []tenant.Tenant{tenant.New("acme")} })
	s.Find(`(nothing says who calls)`, &s.Errs)
	from.Change(func(c *configs.Config) { c.Tenants = nil }, nil)
	status, body := s.Reload()
	if status != http.StatusUnprocessableEntity || !strings.Contains(body, "drop_tenants=true") {
		t.Fatalf("%d %s", status, body)
	}
	if !callersDirectoryLists(s, "acme") {
		t.Error("the tenants are gone all the same")
	}
	for query, want := range map[string]int{"drop_tenants=maybe": 400, "drop_tenants=true": 200} {
		res, err := http.Post(s.Admin+"/admin/reload?"+query, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s: %d %s", query, res.StatusCode, text)
		}
	}
	if callersDirectoryLists(s, "acme") {
		t.Error("a reload that says so keeps the tenants")
	}
}

// callersDirectoryLists reports whether a tenant is in force, by what forgetting it says.
func callersDirectoryLists(s *servertest.Server, name string) bool {
	return s.AdminStatus(http.MethodPost, "/admin/tenants/"+name+"/forget", "") == http.StatusOK
}

// A server that was started before there was a store asks for the keys that are made later.
func TestKeysMadeAfterTheStartAreAsked(t *testing.T) {
	reference.Slow(t)
	t.Setenv("STATE_DIRECTORY", "")
	t.Setenv("XDG_STATE_HOME", filepath.Join(t.TempDir(), "state"))
	s := servertest.Start(t, nil)
	models := s.API + "/v1/models"
	if got := ask(t, models, ""); got != http.StatusOK {
		t.Fatalf("before there is a key: %d", got)
	}
	key := servertest.NewKey(t, "", keychain.Request{Tenant: "acme"})
	for end := time.Now().Add(servertest.Patience); ask(t, models, "") != http.StatusUnauthorized; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("callers without a key are still let in")
		}
	}
	if got := ask(t, models, key); got != http.StatusOK {
		t.Errorf("the new key: %d", got)
	}
}
