package main

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"

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
		{"xyzzy --help", "run weir --help for the commands"},
		{"help servce", "did you mean serve?"},
		{"keys -h creat", "did you mean create?"},
		{"keys creat --help", "did you mean create?"},
		{"serve --address :8000", "did you mean --host or --port?"},
		{"serve --ctx-size 4096", "did you mean --max-model-len?"},
	} {
		var out, errs bytes.Buffer
		if status := execute(strings.Fields(c.line), &out, &errs); status != exitUsage || !strings.Contains(errs.String(), c.hint) {
			t.Errorf("weir %s: status %d, %q, want %q", c.line, status, errs.String(), c.hint)
		}
	}
	for _, line := range []string{"--help", "help", "help keys", "keys create --help", "serve chat.gguf --help", "completion --help", "completion bash --help", "-h"} {
		var out, errs bytes.Buffer
		if status := execute(strings.Fields(line), &out, &errs); status != exitOK || !strings.Contains(out.String(), "Usage:") {
			t.Errorf("weir %s: status %d, %q %q", line, status, out.String(), errs.String())
		}
	}
}

// A secret of the environment stands in no help text.
func TestHelpShowsNoSecret(t *testing.T) {
	t.Setenv("WEIR_ADMIN_KEY", "weir_secret")
	t.Setenv("WEIR_API_KEY", "weir_secret")
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if usage := c.UsageString(); strings.Contains(usage, "weir_secret") {
			t.Errorf("%s --help shows a key:\n%s", c.CommandPath(), usage)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRoot())
}

// Flags that take several values are given several times without a warning; of others the last one counts, and the warning says so.
func TestRepeatedFlagsAreTold(t *testing.T) {
	for line, want := range map[string]bool{
		"config print --label a=1 --label b=2":                         false,
		"config print --api-key long-secret-1 --api-key long-secret-2": false,
		"config print --port 1 --port 2":                               true,
	} {
		var out, errs bytes.Buffer
		if status := execute(strings.Fields(line), &out, &errs); status != exitOK || strings.Contains(errs.String(), "more than once") != want {
			t.Errorf("weir %s: status %d, %q", line, status, errs.String())
		}
	}
}

// Commands of one process may be made at the same time, as tests of servers do; the race detector sees what they share.
func TestCommandsAreMadeBesideEachOther(t *testing.T) {
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			if usage := newRoot().UsageString(); !strings.Contains(usage, "serve") {
				t.Errorf("the usage is %q", usage)
			}
		})
	}
	wait.Wait()
}
