package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"

	"weir/internal/console"
	"weir/internal/unit"
)

// scrape holds metric families by name.
type scrape map[string]*dto.MetricFamily

// labelled reports whether a series has a label of this value; "" matches all.
func labelled(m *dto.Metric, name, value string) bool {
	return value == "" || slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == name && l.GetValue() == value })
}

// sum adds up a family's series of a model, gauges and counters.
func (s scrape) sum(family, modelName string) float64 {
	total := 0.0
	for _, m := range s[family].GetMetric() {
		if labelled(m, "model_name", modelName) {
			total += m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return total
}

// models lists the models that have series.
func (s scrape) models() []string {
	found := map[string]bool{}
	for _, m := range s["vllm:num_requests_running"].GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetName() == "model_name" {
				found[l.GetValue()] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// counts are the cumulative counts of a histogram's buckets, by upper bound.
func (s scrape) counts(family, modelName string) map[float64]float64 {
	counts := map[float64]float64{}
	for _, m := range s[family].GetMetric() {
		if labelled(m, "model_name", modelName) {
			for _, b := range m.GetHistogram().GetBucket() {
				counts[b.GetUpperBound()] += float64(b.GetCumulativeCount())
			}
		}
	}
	return counts
}

// quantile estimates a quantile of what was observed between two scrapes, as
// Prometheus's histogram_quantile does; NaN where nothing was.
func quantile(q float64, before, now map[float64]float64) float64 {
	bounds := slices.Sorted(maps.Keys(now))
	if len(bounds) == 0 {
		return math.NaN()
	}
	last := bounds[len(bounds)-1]
	total := now[last] - before[last]
	if total <= 0 {
		return math.NaN()
	}
	below, lower := 0.0, 0.0
	for _, upper := range bounds {
		count := now[upper] - before[upper]
		if count >= q*total && count > below {
			if math.IsInf(upper, 1) {
				return lower
			}
			return lower + (upper-lower)*(q*total-below)/(count-below)
		}
		below, lower = count, upper
	}
	return lower
}

// render draws what happened between two looks.
func render(base string, before, now *serverSnapshot) []string {
	lines := []string{fmt.Sprintf("weir top  %s  %s", base, now.at.Format(time.TimeOnly)), ""}
	if now.note != "" {
		lines = append(lines, now.note, "")
	}
	names := now.metrics.models()
	if len(names) == 0 {
		return append(lines, "no model has loaded yet")
	}
	for _, name := range names {
		lines = append(lines, renderModel(name, before, now)...)
	}
	lines = append(lines, "", renderTraffic(before, now), "")
	lines = append(lines, renderTenants(now)...)
	lines = append(lines, renderOldest(now)...)
	return append(lines, renderBatches(before, now)...)
}

func renderModel(name string, before, now *serverSnapshot) []string {
	m, seconds := now.metrics, now.at.Sub(before.at).Seconds()
	rate := func(family string) float64 { return (m.sum(family, name) - before.metrics.sum(family, name)) / seconds }
	hits := rate("vllm:prefix_cache_hits_total") / rate("vllm:prefix_cache_queries_total")
	latency := func(family string) string {
		b, n := before.metrics.counts(family, name), m.counts(family, name)
		return fmt.Sprintf("p50 %s  p99 %s", duration(quantile(0.5, b, n)), duration(quantile(0.99, b, n)))
	}
	kv := m.sum("vllm:kv_cache_usage_perc", name)
	return []string{
		fmt.Sprintf("%s: %.0f running, %.0f waiting (%.0f prompt tokens)   KV cache %s %s   prefix cache hits %s",
			console.Printable(name), m.sum("vllm:num_requests_running", name), m.sum("vllm:num_requests_waiting", name),
			m.sum("weir_waiting_tokens", name), bar(kv), percent(kv), percent(hits)),
		fmt.Sprintf("  prefill %.0f tokens/s   output %.1f tokens/s   %.1f steps/s   %.1f preemptions/s",
			rate("vllm:prompt_tokens_total")-max(0, rate("vllm:prompt_tokens_cached_total")), rate("vllm:generation_tokens_total"),
			rate("weir_steps_total"), rate("vllm:num_preemptions_total")),
		fmt.Sprintf("  time to first token  %s   inter-token latency  %s",
			latency("vllm:time_to_first_token_seconds"), latency("vllm:inter_token_latency_seconds")),
	}
}

func renderTraffic(before, now *serverSnapshot) string {
	seconds := now.at.Sub(before.at).Seconds()
	rate := func(family string) float64 {
		return (now.metrics.sum(family, "") - before.metrics.sum(family, "")) / seconds
	}
	return fmt.Sprintf("%.0f connections   %.1f requests/s   %.1f refused/s   %.1f hung up/s", now.metrics.sum("weir_connections_open", ""),
		rate("weir_requests_total"), rate("weir_http_refusals_total"), rate("weir_client_disconnects_total"))
}

// tenantNow is what one tenant has at the moment.
type tenantNow struct {
	tenant                    string
	running, waiting, blocks  int
	prompt, prefilled, output int
	debt                      float64 // seconds
}

// shownTenants and shownRequests bound the lists.
const (
	shownTenants  = 10
	shownRequests = 10
	shownBatches  = 10
)

func renderTenants(now *serverSnapshot) []string {
	by := map[string]*tenantNow{}
	for _, r := range now.requests {
		u := by[r.Tenant]
		if u == nil {
			u = &tenantNow{tenant: r.Tenant}
			by[r.Tenant] = u
		}
		for _, e := range r.Engine {
			if e.Phase == "decode" || e.Phase == "prefill" {
				u.running++
			} else {
				u.waiting++
			}
			u.prompt += r.Prompt / max(len(r.Engine), 1)
			u.prefilled, u.output, u.blocks = u.prefilled+e.Prefill, u.output+e.Output, u.blocks+e.KVBlocks
			u.debt = max(u.debt, e.Debt)
		}
	}
	all := slices.SortedFunc(maps.Values(by), func(a, b *tenantNow) int {
		return cmp.Or(b.running+b.waiting-a.running-a.waiting, strings.Compare(a.tenant, b.tenant))
	})
	lines := []string{fmt.Sprintf("%-24s %8s %8s %10s %10s %10s %10s", "tenant", "running", "waiting", "debt", "KV blocks", "prefilled", "output")}
	for _, u := range all[:min(len(all), shownTenants)] {
		lines = append(lines, fmt.Sprintf("%-24.24s %8d %8d %10s %10d %10d %10d",
			tenantName(u.tenant), u.running, u.waiting, duration(u.debt), u.blocks, u.prefilled, u.output))
	}
	return append(lines, more(len(all)-shownTenants, "tenants"), "")
}

func renderOldest(now *serverSnapshot) []string {
	old := slices.Clone(now.requests)
	slices.SortStableFunc(old, func(a, b topRequest) int { return cmp.Compare(b.Seconds, a.Seconds) })
	lines := []string{fmt.Sprintf("%-40s %-16s %-12s %-10s %-14s %8s %8s %8s",
		"oldest requests", "tenant", "class", "phase", "waits for", "age", "prompt", "output")}
	for _, r := range old[:min(len(old), shownRequests)] {
		class, phase, waits, output := "", "", "", 0
		for i, e := range r.Engine {
			if i == 0 {
				class, phase, waits = e.Class, e.Phase, e.WaitsFor
			}
			output += e.Output
		}
		lines = append(lines, fmt.Sprintf("%-40.40s %-16.16s %-12s %-10s %-14s %8s %8d %8d",
			console.Printable(r.ID), tenantName(r.Tenant), class, phase, waits, duration(r.Seconds), r.Prompt, output))
	}
	return append(lines, more(now.matching-shownRequests, "requests"))
}

// renderBatches draws how far the unfinished batches are, the oldest first, and how fast they went since the last look;
// nothing where there is none.
func renderBatches(before, now *serverSnapshot) []string {
	if len(now.batches) == 0 {
		return nil
	}
	done := map[string]int{}
	for _, b := range before.batches {
		done[b.ID] = b.Completed + b.Failed
	}
	seconds := now.at.Sub(before.at).Seconds()
	lines := []string{"", fmt.Sprintf("%-32s %-16s %-12s %-16s %17s %8s %9s %9s", "batches", "tenant", "status", "progress", "lines", "failed", "lines/s", "ends in")}
	for _, b := range now.batches[:min(len(now.batches), shownBatches)] {
		share := float64(b.Completed+b.Failed) / max(float64(b.Total), 1)
		rate := "–"
		if was, known := done[b.ID]; known {
			rate = fmt.Sprintf("%.1f", float64(b.Completed+b.Failed-was)/seconds)
		}
		lines = append(lines, fmt.Sprintf("%-32.32s %-16.16s %-12s %s %5s %8d/%8d %8d %9s %9s", console.Printable(b.ID), tenantName(b.Tenant), b.Status,
			bar(share), percent(share), b.Completed+b.Failed, b.Total, b.Failed, rate, b.Expires.Sub(now.at).Round(time.Minute)))
	}
	return append(lines, more(len(now.batches)-shownBatches, "batches"))
}

// more says how many rows are not shown, or nothing.
func more(n int, what string) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf("  and %d %s more", n, what)
}

func tenantName(name string) string {
	if name == "" {
		return "(no key)"
	}
	return console.Printable(name)
}

func bar(share float64) string {
	const cells = 10
	full := min(max(int(share*cells+0.5), 0), cells)
	return strings.Repeat("█", full) + strings.Repeat("░", cells-full)
}

func percent(share float64) string {
	if math.IsNaN(share) || math.IsInf(share, 0) {
		return "–"
	}
	return fmt.Sprintf("%.0f %%", 100*share)
}

// duration is short enough for a column.
func duration(seconds float64) string {
	if math.IsNaN(seconds) {
		return "–"
	}
	return unit.Seconds(seconds)
}
