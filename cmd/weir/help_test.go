package main

import (
	"bytes"
	"strings"
	"testing"

	"weir/configs"
)

// Each setting stands in the help under the title of its section, once.
func TestHelpHasGroups(t *testing.T) {
	var out, errs bytes.Buffer
	if status := execute([]string{"serve", "--help"}, &out, &errs); status != exitOK {
		t.Fatalf("status %d: %s", status, errs.String())
	}
	_, flags, _ := strings.Cut(out.String(), "\nFlags:\n")
	title, under := "", map[string]string{}
	for line := range strings.Lines(flags) {
		if name, ok := strings.CutSuffix(strings.TrimSpace(line), ":"); ok && !strings.HasPrefix(line, " ") {
			title = name
		}
		if _, rest, ok := strings.Cut(line, "--"); ok && strings.HasPrefix(line, "  ") {
			name, _, _ := strings.Cut(rest, " ")
			under[strings.TrimSpace(name)] = title
		}
	}
	for setting := range configs.New().All() {
		section, _, _ := strings.Cut(setting.Key, ".")
		if want := groupOf(section); want == "" || under[setting.Flag] != want {
			t.Errorf("--%s of %s stands under %q, want %q", setting.Flag, setting.Key, under[setting.Flag], want)
		}
	}
}

// A word that is a letter or two off a verb or a flag gets a hint.
func TestTyposGetHints(t *testing.T) {
	for _, c := range []struct {
		line, hint string
	}{
		{"servce", "did you mean serve?"},
		{"keys creat", "did you mean create?"},
		{"serve --max-num-seq 3", "did you mean --max-num-seqs?"},
		{"serve --kv-cache-dtyp f16", "did you mean --kv-cache-dtype?"},
		{"bench serv", "did you mean serve?"},
		{"serve --xyzzy", "run weir serve --help for the flags"},
		{"xyzzy", "run weir --help for the commands"},
	} {
		var out, errs bytes.Buffer
		if status := execute(strings.Fields(c.line), &out, &errs); status != exitUsage || !strings.Contains(errs.String(), c.hint) {
			t.Errorf("weir %s: status %d, %q, want %q", c.line, status, errs.String(), c.hint)
		}
	}
}
