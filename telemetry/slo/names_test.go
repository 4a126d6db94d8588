package slo

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// registered reads the golden scrape of package telemetry: series by name,
// each with its labels.
func registered(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../testdata/scrape.golden")
	if err != nil {
		t.Fatal(err)
	}
	// Prometheus's own libraries register these; the golden scrape leaves them out.
	names := map[string][]string{"process_resident_memory_bytes": nil, "process_cpu_seconds_total": nil}
	label := regexp.MustCompile(`([a-z_]+)="`)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, rest, _ := strings.Cut(strings.Fields(line)[0], "{")
		for _, m := range label.FindAllStringSubmatch(rest, -1) {
			names[name] = append(names[name], m[1])
		}
		if _, known := names[name]; !known {
			names[name] = nil
		}
	}
	if len(names) < 100 {
		t.Fatalf("only %d series in the golden scrape", len(names))
	}
	return names
}

var grouping = regexp.MustCompile(`by \(([^)]*)\)`)

// recorded adds what the rules record, with the labels of what they read.
func recorded(t *testing.T, names map[string][]string) {
	t.Helper()
	var name string
	for line := range strings.Lines(rules(t, Default(), "")) {
		line = strings.TrimSpace(line)
		if after, ok := strings.CutPrefix(line, "- record: "); ok {
			name = after
		}
		if strings.HasPrefix(line, "- alert:") {
			return
		}
		if name != "" {
			names[name] = append(names[name], "job", "model_name", "sli")
			for _, m := range grouping.FindAllStringSubmatch(line, -1) {
				names[name] = append(names[name], strings.Split(m[1], ", ")...)
			}
		}
	}
	t.Fatal("no alerts behind the recording rules")
}

// fault names what an expression reads that does not exist; "" is nothing.
func fault(expr string, names map[string][]string) string {
	return check(tokens.FindAllString(expr, -1), names)
}

// tokens of PromQL, as far as names need it. Ranges and texts come whole.
var tokens = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|\[[^\]]*\]|[a-zA-Z_:$][a-zA-Z0-9_:]*|[0-9.]+[a-z]*|=~|!~|!=|>=|<=|==|\S`)

var keywords = []string{"by", "without", "on", "ignoring", "group_left", "group_right", "and", "or", "unless", "offset", "bool"}

// check walks the tokens: a name before a bracket is a function or takes labels,
// names in braces and behind by, on … are labels, all others are metrics.
func check(list []string, names map[string][]string) string {
	known := []string{"job", "instance"}
	var metric, labels []string
	place := "" // what the names stand in: "", "{", or a keyword that takes labels
	for i, tok := range list {
		next := ""
		if i+1 < len(list) {
			next = list[i+1]
		}
		word := regexp.MustCompile(`^[a-zA-Z_:]`).MatchString(tok)
		switch {
		case tok == "{", tok == "}", tok == ")" && place != "" && place != "{":
			place = map[string]string{"{": "{"}[tok]
		case !word:
		case place == "{":
			if strings.ContainsAny(next, "=!") {
				if m := metric[len(metric)-1]; !slices.Contains(names[m], tok) && !slices.Contains(known, tok) {
					return fmt.Sprintf("%s has no label %s", m, tok)
				}
			}
		case place != "":
			labels = append(labels, tok)
		case slices.Contains(keywords, tok):
			if next == "(" {
				place = tok
			}
		case next == "(", next == "by", next == "without": // a function, or what adds up
		default:
			if _, ok := names[tok]; !ok {
				return tok + " is not registered"
			}
			metric = append(metric, tok)
			known = append(known, names[tok]...)
		}
	}
	for _, l := range labels {
		if !slices.Contains(known, l) {
			return fmt.Sprintf("none of %v has the label %s", metric, l)
		}
	}
	return ""
}

func TestRulesReadRegisteredSeries(t *testing.T) {
	names := registered(t)
	recorded(t, names)
	text := regexp.MustCompile(`(?m)expr: >-\n((?:          .*\n)+)|expr: (.*)\n`)
	found := 0
	for _, m := range text.FindAllStringSubmatch(rules(t, Default(), ""), -1) {
		found++
		if why := fault(m[1]+m[2], names); why != "" {
			t.Errorf("%s: %s", strings.TrimSpace(m[1]+m[2]), why)
		}
	}
	if found != 71 {
		t.Errorf("%d expressions", found)
	}
}

type dashboard struct {
	Panels []struct {
		Title   string
		Type    string
		Targets []struct{ Expr, LegendFormat string }
	}
	Templating struct {
		List []struct{ Name, Definition string }
	}
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	data, err := os.ReadFile("../../configs/grafana/weir.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDashboardReadsRegisteredSeries(t *testing.T) {
	names := registered(t)
	recorded(t, names)
	d := readDashboard(t)
	legend, read := regexp.MustCompile(`{{(\w+)}}`), make(map[string]bool)
	for _, p := range d.Panels {
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %q shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			read[target.Expr] = true
			if why := fault(target.Expr, names); why != "" {
				t.Errorf("panel %q: %s: %s", p.Title, target.Expr, why)
			}
			for _, m := range legend.FindAllStringSubmatch(target.LegendFormat, -1) {
				if m[1] != "instance" && !strings.Contains(target.Expr, m[1]) && !strings.Contains(target.Expr, "weir:sli_errors") {
					t.Errorf("panel %q: the legend names %s, which %s gives up", p.Title, m[1], target.Expr)
				}
			}
		}
	}
	for _, v := range d.Templating.List {
		if query, ok := strings.CutPrefix(v.Definition, "label_values("); ok {
			expr, label, _ := strings.Cut(strings.TrimSuffix(query, ")"), ", ")
			if why := fault("sum by ("+label+") ("+expr+")", names); why != "" {
				t.Errorf("variable %s: %s", v.Name, why)
			}
		}
	}
	if len(read) < 30 {
		t.Errorf("only %d expressions", len(read))
	}
}

// What is measured of classical models and of tenants is on the dashboard.
func TestDashboardShowsClassicalModelsAndTenants(t *testing.T) {
	var shown strings.Builder
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			shown.WriteString(target.Expr + "\n")
		}
	}
	shownOf := regexp.MustCompile(`^weir_(predict|feature|drift|prediction_log|tenant|version|sign_ins)_`)
	part := regexp.MustCompile(`_(bucket|sum|count|created)$`)
	found := 0
	for name := range registered(t) {
		if !shownOf.MatchString(name) {
			continue
		}
		found++
		if base := part.ReplaceAllString(name, ""); !strings.Contains(shown.String(), base) {
			t.Errorf("no panel shows %s", base)
		}
	}
	if found < 33 {
		t.Errorf("only %d names", found)
	}
}

// The dashboard's expressions, as rules, must be PromQL.
func TestPrometheusTakesTheDashboardsExpressions(t *testing.T) {
	var b strings.Builder
	b.WriteString("groups:\n- name: dashboard\n  rules:\n")
	exprs := make(map[string]bool)
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			exprs[strings.NewReplacer("$__rate_interval", "1m", "$job", ".*", "$model", ".*").Replace(target.Expr)] = true
		}
	}
	for i, expr := range slices.Sorted(maps.Keys(exprs)) {
		fmt.Fprintf(&b, "  - record: panel:%d\n    expr: >-\n      %s\n", i, expr)
	}
	file := filepath.Join(t.TempDir(), "dashboard.yml")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", file)
}

// The check itself must find what it is for.
func TestNamesThatDoNotExistAreFound(t *testing.T) {
	names := registered(t)
	for expr, want := range map[string]string{
		`rate(weir_steps_total{model_name="a"}[5m])`:                                     "",
		`rate(weir_stepz_total[5m])`:                                                     "weir_stepz_total is not registered",
		`rate(weir_steps_total{tenant="a"}[5m])`:                                         "weir_steps_total has no label tenant",
		`sum by (tenant) (weir_steps_total)`:                                             "none of [weir_steps_total] has the label tenant",
		`sum(weir_steps_total) by (job)`:                                                 "",
		`histogram_quantile(0.9, sum by (le) (rate(weir_step_seconds_bucket[1m])))`:      "",
		`histogram_quantile(0.9, sum by (le) (rate(weir_step_seconds[1m])))`:             "weir_step_seconds is not registered",
		`weir_steps_total / on (job) group_left (version) weir_build_info`:               "",
		`weir_steps_total / on (job) group_left (colour) weir_build_info > bool 1`:       "none of [weir_steps_total weir_build_info] has the label colour",
		`weir_requests_total{outcome=~"a|{b}", job="x"} unless absent(weir_steps_total)`: "",
	} {
		if got := fault(expr, names); got != want {
			t.Errorf("%s: %q, want %q", expr, got, want)
		}
	}
}
