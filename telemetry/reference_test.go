package telemetry

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const metricsPage = "../docs/metrics-reference.md"

// everything is a registry with all that servers add.
func everything(t *testing.T) *Metrics {
	t.Helper()
	m := observed(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	count, err := AddLanguageModels(m, func() LanguageModels { return LanguageModels{Loaded: 1} })
	must(err)
	count("load")
	_, err = AddBrownout(m)
	must(err)
	must(AddDeployments(m, func() map[string]int { return nil }))
	must(AddTranscripts(m, func() Transcripts { return Transcripts{} }))
	rollouts, err := AddRollouts(m, func() []Rollout { return []Rollout{{Model: "tiny", Arms: []RolloutArm{{Arm: "stable"}}}} })
	must(err)
	rollouts.CountTransition("promoted")
	rollouts.CountShadow("same")
	_, err = m.AddModel(ModelInfo{Name: "large", MaxModelLen: 128}, func() Snapshot {
		return Snapshot{Adapters: &Adapters{}, Transfer: KVTransfer{Failures: map[string]uint64{"timeout": 1}, Skipped: map[string]uint64{"slower": 1}}}
	})
	must(err)
	m.CountKey("new")
	return m
}

// metricsReference is the page of all metrics, as the code has them.
func metricsReference(t *testing.T) string {
	t.Helper()
	families, err := everything(t).registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("# All metrics\n\n" +
		"Written by `go test ./telemetry -run TestMetricsReference -rewrite` from what the code registers; a test fails where it is not current.\n" +
		"[observability.md](observability.md) says what to watch. The label `engine` of models' series is vLLM's and always 0. Beside these are those of Go and of\n" +
		"the process (`go_…`, `process_…`). A series that a server has no use for, such as those of rollouts without any, is not there.\n" +
		"\n| metric | type | labels | |\n|---|---|---|---|\n")
	var long []string
	for _, f := range families {
		name := f.GetName()
		if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") || strings.HasPrefix(name, "promhttp_") {
			continue
		}
		labels := map[string]bool{}
		for _, series := range f.GetMetric() {
			for _, l := range series.GetLabel() {
				labels["`"+l.GetName()+"`"] = l.GetName() != "engine"
			}
		}
		maps.DeleteFunc(labels, func(_ string, shown bool) bool { return !shown })
		help := short(f.GetHelp())
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, strings.ToLower(f.GetType().String()), strings.Join(slices.Sorted(maps.Keys(labels)), ", "), help)
		if help != f.GetHelp() {
			long = append(long, "- `"+name+"`: "+f.GetHelp()+"\n")
		}
	}
	b.WriteString("\n" + strings.Join(long, ""))
	return b.String()
}

// short is what fits into a cell: all, or what is before a mark. The whole text of longer ones stands below the table.
func short(help string) string {
	for _, mark := range []string{"; ", ": ", ", "} {
		for len(strings.Fields(help)) > 25 && strings.Contains(help, mark) {
			help = help[:strings.LastIndex(help, mark)]
		}
	}
	return help
}

// The page has each metric that this package registers, once, with its type, labels and meaning, and no other one.
func TestMetricsReferenceIsCurrent(t *testing.T) {
	want := metricsReference(t)
	if *rewrite {
		if err := os.WriteFile(metricsPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(metricsPage)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("docs/metrics-reference.md is not what the code has; go test ./telemetry -run TestMetricsReference -rewrite writes it\n%s", firstDifference(string(got), want))
	}
	named := metricNames(t)
	for name := range named {
		if strings.Count(want, "| `"+name+"` |") != 1 {
			t.Errorf("%s is registered, and does not stand once on the page: let everything() observe it", name)
		}
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z0-9_:]+)` \\| (\\w+)").FindAllStringSubmatch(want, -1) {
		if !named[row[1]] {
			t.Errorf("%s is on the page, and no source has it", row[1])
		}
		if (row[2] == "counter") != strings.HasSuffix(row[1], "_total") && row[1] != "vllm:iteration_tokens_total" {
			t.Errorf("%s is a %s", row[1], row[2])
		}
	}
}

// metricNames are the names in the sources of this package.
func metricNames(t *testing.T) map[string]bool {
	t.Helper()
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, file := range sources {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`"((?:weir_|vllm:|http_re)[a-z0-9_]+[a-z])"`).FindAllStringSubmatch(string(text), -1) {
			names[m[1]] = true
		}
	}
	if len(names) < 150 {
		t.Fatalf("%d names", len(names))
	}
	return names
}
