package main

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/reference"
)

// What features put writes features get shows.
func TestFeaturesPutGet(t *testing.T) {
	redis := reference.Redis.Get(t)
	path := filepath.Join(t.TempDir(), "users.csv")
	if err := os.WriteFile(path, []byte("user_id,age,city\n7,41,Bonn\n8,,Oslo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	where := []string{"--project", "weir-test-" + rand.Text(), "--entity", "user", "--redis", redis}
	run := func(args ...string) (string, int) {
		var out, errs strings.Builder
		status := execute(append(append([]string{"features"}, args...), where...), &out, &errs)
		return out.String() + errs.String(), status
	}
	if text, status := run("put", path, "--view", "profile", "--key", "user_id", "--ttl", "1m", "--time", "2026-11-22T10:00:00Z"); status != 0 ||
		text != "wrote 2 features of 2 entities\n" {
		t.Fatalf("%d: %s", status, text)
	}
	if text, status := run("get", "7"); status != 0 || text != "_ts:profile  1795341600000\nage          41\ncity         Bonn\n" {
		t.Errorf("%d: %s", status, text)
	}
	if text, _ := run("get", "8"); strings.Contains(text, "age") || !strings.Contains(text, "Oslo") {
		t.Errorf("a value that is missing: %s", text)
	}
	if text, status := run("get", "9"); status != exitFailure || !strings.Contains(text, "the store has no user 9") {
		t.Errorf("%d: %s", status, text)
	}
}
