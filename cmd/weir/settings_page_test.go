package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"weir/configs"
)

const settingsPage = "../../docs/settings-reference.md"

// settingsReference is the page of all settings, as the code has them.
func settingsReference() string {
	var b strings.Builder
	b.WriteString("# All settings\n\n" +
		"Written by `go test ./cmd/weir -run TestSettingsReference -rewrite` from the table in `configs`; a test fails where it is not current.\n" +
		"[settings.md](settings.md) explains the ones that most servers need. A flag overrides the environment variable, the variable\n" +
		"overrides the file. In a file a key is written by its sections: `scheduler.max_num_seqs` is\n\n" +
		"```yaml\nscheduler:\n  max_num_seqs: 64\n```\n")
	for _, group := range flagGroups {
		fmt.Fprintf(&b, "\n## %s\n\n| flag | variable | key | takes | default | |\n|---|---|---|---|---|---|\n", group.title)
		var long []string
		for s := range configs.New().All() {
			section, _, _ := strings.Cut(s.Key, ".")
			if groupOf(section) != group.title {
				continue
			}
			fmt.Fprintf(&b, "| `--%s` | `%s` | `%s` | %s | %s | %s |\n", s.Flag, s.Env(), s.Key, cell(s.Accepts()), codeCell(s.Value()), cell(short(s.Usage)))
			if short(s.Usage) != s.Usage {
				long = append(long, fmt.Sprintf("- `--%s`: %s\n", s.Flag, s.Usage))
			}
		}
		if len(long) > 0 {
			b.WriteString("\n" + strings.Join(long, ""))
		}
	}
	return b.String()
}

// short is what fits into a cell: all, or what is before a semicolon or another mark. The whole text of longer ones stands below the table.
func short(usage string) string {
	for _, mark := range []string{"; ", " (", ", "} {
		for len(strings.Fields(usage)) > mostCellWords {
			i := strings.LastIndex(usage, mark)
			if i < 0 {
				break
			}
			usage = usage[:i]
		}
	}
	return usage
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

func codeCell(value string) string {
	if value == "" {
		return ""
	}
	return "`" + cell(value) + "`"
}

func TestSettingsReferenceIsCurrent(t *testing.T) {
	want := settingsReference()
	if *rewrite {
		if err := os.WriteFile(settingsPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(settingsPage)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/settings-reference.md is not what the code has; go test ./cmd/weir -run TestSettingsReference -rewrite writes it")
	}
	n := 0
	for setting := range configs.New().All() {
		if n++; strings.Count(want, "| `--"+setting.Flag+"` |") != 1 {
			t.Errorf("--%s does not stand once on the page", setting.Flag)
		}
	}
	if n < 100 {
		t.Errorf("%d settings; the walk is broken", n)
	}
}

// Variables that the documents name are those of settings, or are read elsewhere: those of tests, of the credentials of registries and of
// benchmarks.
func TestDocumentsNameVariablesThatExist(t *testing.T) {
	known := map[string]bool{}
	for setting := range configs.New().All() {
		known[setting.Env()] = true
	}
	for _, name := range []string{"WEIR_CONFIG", "WEIR_ADMIN_KEY", "WEIR_REGISTRY_USERNAME", "WEIR_REGISTRY_PASSWORD"} {
		known[name] = true
	}
	foreign := regexp.MustCompile(`^WEIR_(TEST|BENCH|CI|MASKBENCH|RANDOM|SCHEMASTORE)`)
	found := 0
	for _, file := range documentPages(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`\bWEIR_[A-Z_]+[A-Z]`).FindAllString(string(text), -1) {
			if found++; !known[name] && !foreign.MatchString(name) {
				t.Errorf("%s names the variable %s, which no setting has", file, name)
			}
		}
	}
	if found < 30 {
		t.Errorf("%d variables were found", found)
	}
}
