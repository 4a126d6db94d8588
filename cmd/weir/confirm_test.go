package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/configs"
	"weir/internal/server/servertest"
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

// Forgetting a tenant deletes its responses, files and keys, and says how many.
func TestForgettingATenantDeletesFiles(t *testing.T) {
	folder := t.TempDir()
	url := "sqlite:" + filepath.Join(folder, "weir.db")
	key := makeKey(t, url, "open")
	s := servertest.Start(t, func(c *configs.Config) { servertest.TwoTenants(c, url) })
	if status, answer := s.Call(http.MethodPost, "/v1/responses", key, `{"input":"hello","max_output_tokens":4}`); status != 200 {
		t.Errorf("%d %s", status, answer)
	}
	if status, answer := s.Upload(key, "some text\n", "purpose", "user_data"); status != 200 {
		t.Errorf("%d %v", status, answer)
	}
	if err := s.End(); err != nil {
		t.Fatal(err)
	}
	if status, out, errs := weir("tenants", "forget", "open", "--yes", "--store", url); status != exitOK || !strings.Contains(out, "1 responses, 1 files, and the keys") {
		t.Errorf("forget: %d %s%s", status, out, errs)
	}
	if left, _ := os.ReadDir(filepath.Join(folder, "weir.db.files", "files")); len(left) != 0 {
		t.Errorf("files are left: %v", left)
	}
}

// The prompts that are kept of a tenant are printed, a line of JSON each, and gone once the tenant is forgotten.
func TestTenantsPrompts(t *testing.T) {
	url := "sqlite:" + filepath.Join(t.TempDir(), "weir.db")
	key := makeKey(t, url, "open")
	s := servertest.Start(t, func(c *configs.Config) { servertest.TwoTenants(c, url) })
	if status, answer := s.Call(http.MethodPost, "/v1/chat/completions", key, `{"messages":[{"role":"user","content":"zephyr ann@example.com"}],"max_tokens":4}`); status != 200 {
		t.Fatal(status, answer)
	}
	if err := s.End(); err != nil {
		t.Fatal(err)
	}
	if status, kept, errs := weir("tenants", "prompts", "open", "--store", url); status != exitOK || strings.Count(kept, "\n") != 1 || !strings.Contains(kept, "zephyr [email]") {
		t.Errorf("%d %s\n%s", status, errs, kept)
	}
	if status, out, errs := weir("tenants", "forget", "open", "--yes", "--store", url); status != exitOK || !strings.Contains(out, "1 prompts") {
		t.Errorf("%d %s%s", status, out, errs)
	}
	if _, kept, _ := weir("tenants", "prompts", "open", "--store", url); kept != "" {
		t.Errorf("left: %s", kept)
	}
}
