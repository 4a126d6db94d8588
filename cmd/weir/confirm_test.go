package main

import (
	"strings"
	"testing"

	"weir/internal/server/state"
)

// What cannot be undone is done by a script that says so, or by a person who types the name again.
func TestForgettingATenantIsConfirmed(t *testing.T) {
	url := "sqlite:" + t.TempDir() + "/weir.db"
	makeKey(t, url, "acme")
	if status, out, errs := weir("tenants", "forget", "acme", "--store", url); status != exitUsage || out != "" || !strings.Contains(errs, "--yes") {
		t.Errorf("no one was asked: %d %s%s", status, out, errs)
	}
	if _, log, _ := weir("audit", "list", "--store", url); strings.Contains(log, state.ActionTenantForget) {
		t.Errorf("it was done: %s", log)
	}
	if status, out, errs := weir("tenants", "forget", "acme", "--yes", "--store", url); status != exitOK || !strings.Contains(out, "deleted of acme") {
		t.Errorf("%d %s%s", status, out, errs)
	}
	for typed, good := range map[string]bool{"acme\n": true, " acme \n": true, "yes\n": false, "acm\n": false, "acme": false, "": false} {
		var shown strings.Builder
		if err := typedAgain(strings.NewReader(typed), &shown, "All of it.", "acme"); (err == nil) != good || shown.String() != "All of it. Type acme to go on: " {
			t.Errorf("%q: %v, %q", typed, err, shown.String())
		}
	}
}
