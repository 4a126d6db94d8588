package server_test

import (
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"weir/configs"
	"weir/internal/server/keychain"
	"weir/internal/server/servertest"
)

// A server does not start on an audit log that was tampered with, until somebody has seen it.
func TestServeRefusesATamperedAuditLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.db")
	url := "sqlite:" + path
	servertest.NewKey(t, url, keychain.Request{Tenant: "acme"})
	servertest.NewKey(t, url, keychain.Request{Tenant: "other"})
	servertest.Tamper(t, path, servertest.DeleteEntries...)
	c := configs.Default()
	c.Server.Port, c.Server.AdminAddress, c.Store.URL = 0, "off", url
	var out servertest.Buffer
	err := servertest.Run(t.Context(), c, &out)
	if err == nil || !strings.Contains(err.Error(), "it ends with entry 0, but entry 2 was noted") || !strings.Contains(err.Error(), "weir audit accept") {
		t.Fatalf("it started: %v", err)
	}
}

func TestChangesOfAServerAreAudited(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.db")
	url := "sqlite:" + path
	key := servertest.NewKey(t, url, keychain.Request{Tenant: "ops", Scope: "admin"})
	from := &servertest.Source{}
	s := servertest.StartFrom(t, from, func(c *configs.Config) { c.Store.URL = url })
	const secret = "a-key-that-none-may-see"
	from.Change(func(c *configs.Config) { c.Log.Level, c.API.APIKeys = "warn", []string{secret} }, nil)
	for path, want := range map[string]int{"/admin/reload": 200, "/admin/tenants/acme/forget": 404, "/admin/tenants/a%20b/forget": 400} {
		if got := s.AdminStatus(http.MethodPost, path, key); got != want {
			t.Errorf("%s: %d", path, got)
		}
	}
	if got := s.AdminStatus(http.MethodPost, "/reset_prefix_cache", key); got != 200 {
		t.Errorf("reset: %d", got)
	}

	// What the log does not take is not done.
	servertest.Tamper(t, path, servertest.RefuseEntries)
	from.Change(func(c *configs.Config) { c.Log.Level = "error" }, nil)
	for path, want := range map[string]int{"/admin/reload": 422, "/admin/tenants/acme/forget": 503, "/reset_prefix_cache": 503} {
		if got := s.AdminStatus(http.MethodPost, path, key); got != want {
			t.Errorf("%s without a log: %d, want %d", path, got, want)
		}
	}
	servertest.Tamper(t, path, servertest.TakeEntries)
	from.Change(func(c *configs.Config) { c.Log.Level = "warn" }, nil)
	if got := s.AdminStatus(http.MethodPost, "/admin/reload", key); got != 200 {
		t.Errorf("reload: %d", got)
	}
	if err := s.End(); err != nil {
		t.Fatal(err)
	}

	list := servertest.AuditLog(t, url)
	caller := `key ` + key[5:15] + ` from 127\.0\.0\.1:\d+`
	for _, want := range []string{
		`weir serve +process\.start +127\.0\.0\.1:\d+ .*"config":"[0-9a-f]{64}".*"version"`,
		caller + ` +config\.reload .*"applied":\["server\.api_key","log\.level"\]`,
		caller + ` +config\.reload .*"applied":\[\]`, // the one before changed nothing
		caller + ` +prefix_cache\.reset`,
		caller + ` +tenant\.forget +acme`,
		`weir serve +process\.stop`,
	} {
		if !regexp.MustCompile(want).MatchString(list) {
			t.Errorf("no %s in\n%s", want, list)
		}
	}
	if strings.Contains(list, secret) {
		t.Error("the log shows a secret")
	}
	servertest.AuditHead(t, url) // the chain is whole
}

// A process whose start cannot be noted does not start; the head is in the log.
func TestStartNeedsTheAuditLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.db")
	url := "sqlite:" + path
	servertest.NewKey(t, url, keychain.Request{Tenant: "acme"})
	s := servertest.Start(t, func(c *configs.Config) { c.Store.URL = url })
	if err := s.End(); err != nil {
		t.Fatal(err)
	}
	head := servertest.AuditHead(t, url)
	if log := s.Errs.String(); !strings.Contains(log, `"head":"`+head+`"`) {
		t.Errorf("%s is not in the log:\n%s", head, log)
	}
	servertest.Tamper(t, path, servertest.RefuseEntries)
	c := configs.Default()
	c.Server.Port, c.Server.AdminAddress, c.Store.URL = 0, "off", url
	var errs servertest.Buffer
	if err := servertest.Run(t.Context(), c, &errs); err == nil || !strings.Contains(err.Error(), "cannot be written into the audit log") {
		t.Errorf("it started: %v", err)
	}
}
