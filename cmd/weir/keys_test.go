package main

import (
	"os"
	"strings"
	"testing"
)

// makeKey runs weir keys create on a store and returns the key.
func makeKey(t *testing.T, storeURL string, args ...string) string {
	t.Helper()
	var out, errs strings.Builder
	if code := execute(append([]string{"keys", "create", "--store", storeURL}, args...), &out, &errs); code != exitOK {
		t.Fatalf("weir keys create %v: %s", args, errs.String())
	}
	return strings.TrimSpace(out.String())
}

// What a key is given on the command line that cannot be meant is refused, or told of.
func TestTermsOfKeysOnTheCommandLine(t *testing.T) {
	url := "sqlite:" + t.TempDir() + "/weir.db"
	config := t.TempDir() + "/weir.yml"
	if err := os.WriteFile(config, []byte("models:\n- name: chat\n  path: builtin\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   []string
		status int
		errs   string
	}{
		{[]string{"--limit", "requests_per_minute=0"}, exitFailure, "the key's limit requests_per_minute is 0, which would be no limit at all"},
		{[]string{"--limit", "daily_cost=1", "--limit", "daily_cost=2"}, exitUsage, "--limit daily_cost is given twice, as 1 and 2"},
		{[]string{"--label", "a1", "--label", "a2"}, exitOK, "warning: --label is given more than once; the last one counts\n"},
		{[]string{"--label", "b", "--model", "nosuch", "--config", config}, exitOK, "There is no model called nosuch among chat; weir keys change "},
		{[]string{"--label", "c", "--model", "chat", "--config", config}, exitOK, "Tenant acme, label c"},
		{[]string{"--label", "d", "--model", "nosuch"}, exitOK, "whether there is one called nosuch was not checked"},
		{[]string{"--label", "e", "--model", "all"}, exitOK, "Tenant acme, label e"},
	} {
		status, _, errs := weir(append([]string{"keys", "create", "acme", "--store", url}, c.args...)...)
		if status != c.status || !strings.Contains(errs, c.errs) || c.args[1] == "c" && strings.Contains(errs, "no model") {
			t.Errorf("%q: %d %s", c.args, status, errs)
		}
	}
}

// weir keys change takes limits away, adds others, and leaves the rest.
func TestKeysChange(t *testing.T) {
	url := "sqlite:" + t.TempDir() + "/weir.db"
	key := makeKey(t, url, "acme", "--limit", "daily_tokens=500", "--model", "weir-default", "--expires", "1h")
	id := key[5:15]
	if status, out, errs := weir("keys", "change", id, "--store", url, "--limit", "daily_tokens=none", "--limit", "daily_cost=5", "--model", "all", "--expires", "never"); status != exitOK ||
		out != "changed "+id+": daily_cost=5, without an end\n" {
		t.Errorf("%d %s%s", status, out, errs)
	}
	if status, out, _ := weir("audit", "list", "--store", url); status != exitOK || strings.Count(out, "key.change") != 1 || strings.Contains(out, key[15:]) {
		t.Errorf("%s", out)
	}
}
