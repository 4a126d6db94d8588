package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"weir/configs"
	"weir/internal/reference"
	"weir/internal/server/servertest"
)

// weir runs a command line and returns its exit status and what it printed.
func weir(args ...string) (status int, stdout, stderr string) {
	var out, errs strings.Builder
	status = execute(args, &out, &errs)
	return status, out.String(), errs.String()
}

func TestAuditVerbs(t *testing.T) {
	reference.Slow(t)
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
	servertest.Tamper(t, path, unlock, `UPDATE weir_audit SET object = 'other' WHERE sequence = 2`)
	status, _, errs = weir("audit", "verify", "--store", url)
	if status != exitFailure || !strings.Contains(errs, "entry 2 was altered, or is keyed with another secret; it is whole up to entry 1") {
		t.Errorf("an entry that was altered: %d %s", status, errs)
	}
	servertest.Tamper(t, path, `DROP TRIGGER weir_audit_no_delete`, `DELETE FROM weir_audit WHERE sequence >= 2`)
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

// A log that was tampered with is accepted with a reason, and servers start on it again.
func TestAuditAccept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.db")
	url := "sqlite:" + path
	makeKey(t, url, "acme")
	makeKey(t, url, "other")
	servertest.Tamper(t, path, servertest.DeleteEntries...)
	if status, _, errs := weir("audit", "accept", "--store", url); status != exitUsage || !strings.Contains(errs, "--reason") {
		t.Errorf("without a reason: %d %s", status, errs)
	}
	status, accepted, errs := weir("audit", "accept", "--store", url, "--reason", "a test")
	if status != exitOK || !strings.Contains(accepted, "entry 2 was noted") {
		t.Errorf("accept: %d %s%s", status, accepted, errs)
	}
	s := servertest.Start(t, func(c *configs.Config) { c.Store.URL = url })
	if err := s.End(); err != nil {
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
	servertest.Tamper(t, path, servertest.RefuseEntries)
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
