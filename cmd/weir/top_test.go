package main

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	promtext "github.com/prometheus/common/model"

	"weir/api/apitest"
	"weir/api/batch"
	"weir/configs"
	"weir/internal/reference"
	"weir/internal/server/servertest"
)

func scraped(t *testing.T, text string) scrape {
	t.Helper()
	parser := expfmt.NewTextParser(promtext.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// Quantiles are of what came between two scrapes, by linear interpolation in the
// bucket, and never infinite.
func TestQuantilesBetweenScrapes(t *testing.T) {
	inf := math.Inf(1)
	before := map[float64]float64{1: 10, 2: 10, 4: 10, inf: 10}
	now := map[float64]float64{1: 10, 2: 14, 4: 18, inf: 20}
	for q, want := range map[float64]float64{0: 1, 0.2: 1.5, 0.4: 2, 0.6: 3, 0.8: 4, 1: 4} {
		if got := quantile(q, before, now); math.Abs(got-want) > 1e-9 {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if got := quantile(0.5, now, now); !math.IsNaN(got) {
		t.Errorf("without observations the median is %v", got)
	}
	if got := quantile(0.5, nil, nil); !math.IsNaN(got) {
		t.Errorf("without a histogram the median is %v", got)
	}
}

func TestTopShowsHowFarBatchesAre(t *testing.T) {
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	of := func(id string, completed, failed int) batch.Progress {
		return batch.Progress{ID: id, Tenant: "acme", Status: batch.StatusInProgress, Total: 400, Completed: completed, Failed: failed, Expires: at.Add(23 * time.Hour)}
	}
	before := &serverSnapshot{at: at, batches: []batch.Progress{of("batch_1", 90, 0)}}
	now := &serverSnapshot{at: at.Add(2 * time.Second), batches: []batch.Progress{of("batch_1", 96, 4), of("batch_2", 0, 0)}}
	text := strings.Join(renderBatches(before, now), "\n")
	for _, want := range []string{"batch_1", "acme", "in_progress", "25 %", "100/     400", "5.0", "23h0m0s", "batch_2", "0 %", "–"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if got := renderBatches(now, before); len(got) == 0 {
		t.Error("a batch that runs is not shown")
	}
	if got := renderBatches(before, &serverSnapshot{at: at}); got != nil {
		t.Errorf("without batches: %q", got)
	}
}

func TestTopShowsModelsTenantsAndRequests(t *testing.T) {
	page := func(tokens, steps int) scrape {
		return scraped(t, fmt.Sprintf(`# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="m"} %d
# TYPE weir_steps_total counter
weir_steps_total{engine="0",model_name="m"} %d
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
`, tokens, steps))
	}
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	before := &serverSnapshot{at: at, metrics: page(100, 10)}
	now := &serverSnapshot{at: at.Add(2 * time.Second), metrics: page(300, 30), matching: 2}
	for i, phase := range []string{"decode", "waiting"} {
		r := topRequest{ID: fmt.Sprint("chatcmpl-", i, "\x1b[31m"), Tenant: "acme", Seconds: float64(10 * i), Prompt: 7}
		r.Engine = []topPrompt{{Phase: phase, Class: "default", KVBlocks: 4}}
		now.requests = append(now.requests, r)
	}
	text := strings.Join(render("http://x", before, now), "\n")
	for _, want := range []string{
		"m: 3 running", "███░░░░░░░ 25 %", "output 100.0 tokens/s", "10.0 steps/s", "acme", "chatcmpl-1", "waiting", "10.0 s",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Error("an id's control characters reach the terminal")
	}
}

// weir top looks at an admin listener over TLS, whose authority it is told.
func TestTopOverTLS(t *testing.T) {
	reference.Slow(t)
	p := apitest.NewPKI(t)
	s := servertest.Start(t, func(c *configs.Config) { c.Server.TLS, c.Server.TLSAdmin = p.Files(), true })
	var out, errs strings.Builder
	if code := execute([]string{"top", s.Admin, "--ca", p.Path("ca.crt"), "--once", "--interval", "100ms"}, &out, &errs); code != exitOK {
		t.Fatalf("weir top: %s", errs.String())
	}
	if !strings.Contains(out.String(), "weir-default") {
		t.Errorf("weir top shows %s", out.String())
	}
	if code := execute([]string{"top", s.Admin, "--once"}, &out, &errs); code == exitOK {
		t.Error("weir top trusts an authority that was not named")
	}
	if code := execute([]string{"top", s.Admin, "--once", "--ca", p.Path("server.key")}, &out, &errs); code == exitOK || !strings.Contains(errs.String(), "has no certificate") {
		t.Errorf("a file without certificates: %s", errs.String())
	}
}
