package main

import (
	"database/sql"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"weir/configs"
	"weir/internal/server/servertest"
)

// weir runs a command line and returns its exit status and what it printed.
func weir(args ...string) (status int, stdout, stderr string) {
	var out, errs strings.Builder
	status = execute(args, &out, &errs)
	return status, out.String(), errs.String()
}

// tamper executes statements on a SQLite file as somebody would who owns it.
func tamper(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path) // internal/store has registered the driver
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// refuseEntries and takeEntries make the audit log fail and work again.
const (
	refuseEntries = `CREATE TRIGGER full BEFORE INSERT ON weir_audit BEGIN SELECT RAISE(ABORT, 'no room'); END`
	takeEntries   = `DROP TRIGGER full`
)

func TestAuditVerbs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.db")
	url := "sqlite:" + path
	if status, _, errs := weir("audit", "head", "--store", "sqlite:"+filepath.Join(t.TempDir(), "no", "weir.db")); status != exitFailure {
		t.Errorf("a store in no folder: %d %s", status, errs)
	}
	key := makeKey(t, url, "acme", "--expires", "1h")
	id := key[5:15]
	_, first, _ := weir("audit", "head", "--store", url)
	if status, _, errs := weir("keys", "rotate", id, "--store", url); status != exitOK {
		t.Fatal(errs)
	}
	if status, _, errs := weir("keys", "revoke", id, "--store", url); status != exitOK {
		t.Fatal(errs)
	}
	status, list, _ := weir("audit", "list", "--store", url)
	for _, want := range []string{
		`(?m)^1 .* command line, user ".+" +key\.create +` + id + ` .*"label":"default","scope":"inference","tenant":"acme"`,
		`(?m)^2 .* key\.rotate .*"replaces":"` + id + `"`,
		`(?m)^3 .* key\.revoke +` + id,
	} {
		if status != exitOK || !regexp.MustCompile(want).MatchString(list) {
			t.Errorf("no %s in\n%s", want, list)
		}
	}
	if strings.Contains(list, key[15:]) {
		t.Error("the log shows a key")
	}
	if _, list, _ := weir("audit", "list", "--store", url, "--after", "2"); strings.Contains(list, "create") || !strings.Contains(list, "revoke") {
		t.Errorf("after 2: %s", list)
	}
	_, head, _ := weir("audit", "head", "--store", url)
	status, out, errs := weir("audit", "verify", "--store", url, strings.TrimSpace(first), strings.TrimSpace(head))
	if status != exitOK || !strings.Contains(out, "whole: 3 entries") || !strings.HasSuffix(out, "\n"+head) {
		t.Errorf("verify: %d %s%s", status, out, errs)
	}
	if status, _, errs := weir("audit", "verify", "--store", url, "17"); status != exitUsage || !strings.Contains(errs, "SEQUENCE:HASH") {
		t.Errorf("a head that is none: %d %s", status, errs)
	}

	const unlock = `DROP TRIGGER weir_audit_no_update`
	tamper(t, path, unlock, `UPDATE weir_audit SET object = 'other' WHERE sequence = 2`)
	status, _, errs = weir("audit", "verify", "--store", url)
	if status != exitFailure || !strings.Contains(errs, "entry 2 was altered, or is keyed with another secret; it is whole up to entry 1") {
		t.Errorf("an entry that was altered: %d %s", status, errs)
	}
	tamper(t, path, `DROP TRIGGER weir_audit_no_delete`, `DELETE FROM weir_audit WHERE sequence >= 2`)
	for _, noted := range [][]string{{}, {strings.TrimSpace(head)}} { // the file beside the store says it, too
		status, _, errs = weir(append([]string{"audit", "verify", "--store", url}, noted...)...)
		if status != exitFailure || !strings.Contains(errs, "ends with entry 1, but entry 3 was noted") || !strings.Contains(errs, "weir audit accept") {
			t.Errorf("an end that was cut off: %d %s", status, errs)
		}
	}
}

// Without the file of the noted head an end that was cut off does not show: the check says so, and fails unless a head
// is given, or it is told to go without.
func TestVerifyWithoutANotedHeadIsNoCleanBill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.db")
	url := "sqlite:" + path
	makeKey(t, url, "acme")
	makeKey(t, url, "other")
	_, head, _ := weir("audit", "head", "--store", url)
	if err := os.Remove(path + ".audit-head"); err != nil {
		t.Fatal(err)
	}
	status, out, errs := weir("audit", "verify", "--store", url)
	if status != exitFailure || out != "" || !strings.Contains(errs, "no head of the audit log is noted here ("+path+".audit-head)") || !strings.Contains(errs, "--without-head") {
		t.Errorf("%d %s%s", status, out, errs)
	}
	for _, arg := range []string{"--without-head", strings.TrimSpace(head)} {
		if status, out, errs := weir("audit", "verify", "--store", url, arg); status != exitOK || !strings.Contains(out, "whole: 2 entries") || !strings.Contains(errs, "would not show") {
			t.Errorf("%s: %d %s%s", arg, status, out, errs)
		}
	}
}

// A server does not start on an audit log that was tampered with, until somebody has seen it.
func TestServeRefusesATamperedAuditLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.db")
	url := "sqlite:" + path
	makeKey(t, url, "acme")
	makeKey(t, url, "other")
	tamper(t, path, `DROP TRIGGER weir_audit_no_delete`, `DELETE FROM weir_audit`,
		`CREATE TRIGGER weir_audit_no_delete BEFORE DELETE ON weir_audit
BEGIN
	SELECT RAISE(ABORT, 'entries of the audit log are never removed');
END`)
	c := configs.Default()
	c.Server.Port, c.Server.AdminAddress, c.Store.URL = 0, "off", url
	var out servertest.Buffer
	err := serve(t.Context(), fixed(c), &out, &out)
	if err == nil || !strings.Contains(err.Error(), "it ends with entry 0, but entry 2 was noted") || !strings.Contains(err.Error(), "weir audit accept") {
		t.Fatalf("it started: %v", err)
	}
	if status, _, errs := weir("audit", "accept", "--store", url); status != exitUsage || !strings.Contains(errs, "--reason") {
		t.Errorf("without a reason: %d %s", status, errs)
	}
	status, accepted, errs := weir("audit", "accept", "--store", url, "--reason", "a test")
	if status != exitOK || !strings.Contains(accepted, "entry 2 was noted") {
		t.Errorf("accept: %d %s%s", status, accepted, errs)
	}
	s := start(t, func(c *configs.Config) { c.Store.URL = url })
	if err := s.end(); err != nil {
		t.Fatal(err)
	}
	if status, out, errs := weir("audit", "verify", "--store", url); status != exitOK {
		t.Errorf("afterwards: %s%s", out, errs)
	}
}

func TestKeysWithoutAnAuditLogAreNotMade(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.db")
	url := "sqlite:" + path
	id := makeKey(t, url, "acme")[5:15]
	tamper(t, path, refuseEntries)
	for _, args := range [][]string{{"create", "acme"}, {"rotate", id}, {"revoke", id}} {
		status, out, errs := weir(append([]string{"keys"}, append(args, "--store", url)...)...)
		if status != exitFailure || out != "" || !strings.Contains(errs, "the change cannot be written into the audit log, so it is not made") {
			t.Errorf("%v: %d %s%s", args, status, out, errs)
		}
	}
	_, list, _ := weir("keys", "list", "--store", url)
	if strings.Count(list, " live ") != 1 || strings.Count(list, "\n") != 2 {
		t.Errorf("the keys have changed:\n%s", list)
	}
}

// do sends a request to the admin listener.
func (s *started) do(method, path, key string) int {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.metrics+path, http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

func TestChangesOfAServerAreAudited(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.db")
	url := "sqlite:" + path
	key := makeKey(t, url, "ops", "--scope", "admin")
	from := &source{}
	s := startFrom(t, from, func(c *configs.Config) { c.Store.URL = url })
	const secret = "a-key-that-nobody-may-see"
	from.change(func(c *configs.Config) { c.Log.Level, c.API.APIKeys = "warn", []string{secret} }, nil)
	for path, want := range map[string]int{"/admin/reload": 200, "/admin/tenants/acme/forget": 404, "/admin/tenants/a%20b/forget": 400} {
		if got := s.do(http.MethodPost, path, key); got != want {
			t.Errorf("%s: %d", path, got)
		}
	}
	if got := s.do(http.MethodPost, "/reset_prefix_cache", key); got != 200 {
		t.Errorf("reset: %d", got)
	}

	// What the log does not take is not done.
	tamper(t, path, refuseEntries)
	from.change(func(c *configs.Config) { c.Log.Level = "error" }, nil)
	for path, want := range map[string]int{"/admin/reload": 422, "/admin/tenants/acme/forget": 503, "/reset_prefix_cache": 503} {
		if got := s.do(http.MethodPost, path, key); got != want {
			t.Errorf("%s without a log: %d, want %d", path, got, want)
		}
	}
	tamper(t, path, takeEntries)
	from.change(func(c *configs.Config) { c.Log.Level = "warn" }, nil)
	if got := s.do(http.MethodPost, "/admin/reload", key); got != 200 {
		t.Errorf("reload: %d", got)
	}
	if err := s.end(); err != nil {
		t.Fatal(err)
	}

	status, list, errs := weir("audit", "list", "--store", url)
	caller := `key ` + key[5:15] + ` from 127\.0\.0\.1:\d+`
	for _, want := range []string{
		`weir serve +process\.start +127\.0\.0\.1:\d+ .*"config":"[0-9a-f]{64}".*"version"`,
		caller + ` +config\.reload .*"applied":\["server\.api_key","log\.level"\]`,
		caller + ` +config\.reload .*"applied":\[\]`, // the one before changed nothing
		caller + ` +prefix_cache\.reset`,
		caller + ` +tenant\.forget +acme`,
		`weir serve +process\.stop`,
	} {
		if status != exitOK || !regexp.MustCompile(want).MatchString(list) {
			t.Errorf("no %s in\n%s%s", want, list, errs)
		}
	}
	if strings.Contains(list, secret) {
		t.Error("the log shows a secret")
	}
	_, head, _ := weir("audit", "head", "--store", url)
	if status, _, errs := weir("audit", "verify", "--store", url, strings.TrimSpace(head)); status != exitOK {
		t.Error(errs)
	}
}

// A process whose start cannot be noted does not start; the head is in the log.
func TestStartNeedsTheAuditLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.db")
	url := "sqlite:" + path
	makeKey(t, url, "acme")
	s := start(t, func(c *configs.Config) { c.Store.URL = url })
	if err := s.end(); err != nil {
		t.Fatal(err)
	}
	_, head, _ := weir("audit", "head", "--store", url)
	if log := s.errs.String(); !strings.Contains(log, `"head":"`+strings.TrimSpace(head)+`"`) {
		t.Errorf("%s is not in the log:\n%s", head, log)
	}
	tamper(t, path, refuseEntries)
	c := configs.Default()
	c.Server.Port, c.Server.AdminAddress, c.Store.URL = 0, "off", url
	var errs servertest.Buffer
	if err := serve(t.Context(), fixed(c), &errs, &errs); err == nil || !strings.Contains(err.Error(), "cannot be written into the audit log") {
		t.Errorf("it started: %v", err)
	}
}
