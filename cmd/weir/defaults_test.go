package main

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/configs"
	"weir/internal/unit"
)

// namedDefault is how the documents tell a flag's default: `--file-ttl` (30 days).
var namedDefault = regexp.MustCompile("`--([a-z][a-z0-9-]*)` \\(([0-9][0-9.e-]*(?: ?(?:[KMGT]iB|ms|s|min|h|days))?)[;:,)]")

// flagDefaults are the values of all settings, and of the other flags of all verbs before any is set, by their names.
func flagDefaults() map[string][]string {
	all := make(map[string][]string)
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) { all[f.Name] = append(all[f.Name], f.DefValue) })
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRoot())
	for s := range configs.New().All() {
		all[s.Flag] = []string{s.Value()}
	}
	return all
}

// sameValue tells whether a text of the documents is a flag's value: the same text, number, bytes or time.
func sameValue(text, value string) bool {
	if number, found := strings.CutSuffix(text, " days"); found {
		days, err := strconv.Atoi(number)
		return err == nil && sameValue(strconv.Itoa(24*days)+" h", value)
	}
	text = strings.Replace(text, " min", "m", 1)
	x, err := strconv.ParseFloat(text, 64)
	if y, wrong := strconv.ParseFloat(value, 64); err == nil && wrong == nil {
		return x == y
	}
	if a, err := unit.ParseBytes(text); err == nil {
		b, err := unit.ParseBytes(value)
		return err == nil && a == b
	}
	a, err := unit.ParseDuration(strings.Replace(text, " ", "", 1))
	b, wrong := unit.ParseDuration(value)
	return err == nil && wrong == nil && a == b
}

// A default that the documents name behind a flag is the flag's.
func TestDocumentsNameTheDefaults(t *testing.T) {
	defaults, found := flagDefaults(), 0
	for _, file := range documentPages(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range namedDefault.FindAllStringSubmatch(string(text), -1) {
			found++
			values := defaults[m[1]]
			if !slices.ContainsFunc(values, func(v string) bool { return sameValue(strings.TrimSpace(m[2]), v) }) {
				t.Errorf("%s says that --%s is %q by default; it is %q", file, m[1], m[2], values)
			}
		}
	}
	if found < 15 {
		t.Errorf("%d defaults were found", found)
	}
	for _, wrong := range [][2]string{{"30 days", "24h"}, {"4 MiB", "4096"}, {"8", "9"}, {"10 min", "10ms"}} {
		if sameValue(wrong[0], wrong[1]) {
			t.Errorf("%s passes for %s", wrong[0], wrong[1])
		}
	}
}
