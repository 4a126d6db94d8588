package slo

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/reference"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the checked-in rules")

const folder = "../../configs/prometheus"

func rules(t *testing.T, o Objectives, selector string) string {
	t.Helper()
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := o.Write(&b, selector); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestRulesFileIsCurrent(t *testing.T) {
	file, got := filepath.Join(folder, "weir.rules.yml"), rules(t, Default(), "")
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is not what the template gives; run: make generate", file)
	}
}

// promtool runs Prometheus's own checker.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.Command(reference.Promtool.Get(t), args...).CombinedOutput()
	if err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestPrometheusTakesTheRules(t *testing.T) {
	for _, c := range []struct {
		name, selector string
		change         func(*Objectives)
	}{
		{"default", "", func(*Objectives) {}},
		{"selector", `job="weir",cluster=~"a|b"`, func(*Objectives) {}},
		{"others", "", func(o *Objectives) {
			o.Availability, o.Streams = 0.99999, 0.95
			o.FirstToken, o.InterToken = Latency{time.Second, 0.999}, Latency{75 * time.Millisecond, 0.99}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := Default()
			c.change(&o)
			file := filepath.Join(t.TempDir(), "rules.yml")
			if err := os.WriteFile(file, []byte(rules(t, o, c.selector)), 0o600); err != nil {
				t.Fatal(err)
			}
			promtool(t, "check", "rules", file)
		})
	}
}

// The alerts that fire and that stay silent are in a file of Prometheus's own
// format.
func TestAlerts(t *testing.T) {
	reference.Slow(t)
	promtool(t, "test", "rules", filepath.Join(folder, "weir.rules_test.yml"))
}

func TestPrometheusTakesTheScrapeConfiguration(t *testing.T) {
	promtool(t, "check", "config", filepath.Join(folder, "prometheus.yml"))
}

func TestObjectivesThatNoRulesFit(t *testing.T) {
	for want, change := range map[string]func(*Objectives){
		"ttft_ms is 3000; it must be a bound of the histogram's buckets, one of 1, 5, 10": func(o *Objectives) { o.FirstToken.Target = 3 * time.Second },
		"itl_ms is 0; it must be a bound":                                                 func(o *Objectives) { o.InterToken.Target = 0 },
		"availability is 93%; it must be above 93.0556%":                                  func(o *Objectives) { o.Availability = 0.93 },
		"streams is 100%; it must be above":                                               func(o *Objectives) { o.Streams = 1 },
	} {
		o := Default()
		change(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestMissedTargets(t *testing.T) {
	o := Default()
	for _, c := range []struct {
		first, gap time.Duration
		want       bool
	}{
		{o.FirstToken.Target, o.InterToken.Target, false},
		{o.FirstToken.Target + 1, 0, true},
		{0, o.InterToken.Target + 1, true},
		{0, 0, false},
	} {
		if got := o.Missed(c.first, c.gap); got != c.want {
			t.Errorf("first token %v, gap %v: %v", c.first, c.gap, got)
		}
	}
}
