package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/reference"
)

// A plan by flags alone, one of a catalogue, and what is refused.
func TestPlan(t *testing.T) {
	reference.Slow(t)
	folder := t.TempDir()
	catalogue := filepath.Join(folder, "fleet.yml")
	text := `
instances: [{name: node, price_per_hour: 0.5, memory_gib: 4}]
models:
  - name: m
    weights_gib: 0.5
    kv_bytes_per_token: 12000
    load: {rate: 2, prompt: 100, output: 8}
    rates: [{on: node, prefill_tokens_per_second: 4000, decode: [{sequences: 1, itl: 5ms}, {sequences: 8, itl: 9ms}]}]
`
	if err := os.WriteFile(catalogue, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := []string{"plan", "--rate", "10", "--prompt", "1000", "--output-tokens", "100", "--cached", "0.5", "--prefill", "500", "--decode", "200",
		"--sequences", "10", "--headroom", "0.25", "--price", "2"}
	for _, c := range []struct {
		args   []string
		status int
		want   []string
	}{
		{flags, exitOK, []string{"chosen:         20 mixed on replica", "by compute          = rate x work / (1 - headroom) = 10 x 1.5 / 0.75 = 20.00 replicas", "40 an hour"}},
		{append(flags, "--rows", "1000", "--rows-replica", "400"), exitOK, []string{"predictions         = rows / rows of a replica"}},
		{[]string{"plan", "--rows", "1000", "--rows-replica", "400", "--headroom", "0"}, exitOK, []string{"replicas            = 3"}},
		{append(flags, "--ttft-p99", "1s"), exitFailure, []string{"latencies need steps that were measured"}},
		{append(flags, "--output", "120"), exitUsage, []string{"the tokens of an answer are --output-tokens"}},
		{[]string{"plan", catalogue, "--rate", "3"}, exitUsage, []string{"--rate beside a catalogue"}},
		{[]string{"plan"}, exitFailure, []string{"no load"}},
		{[]string{"plan", catalogue}, exitOK, []string{"1 x node: m mixed", "0.5 an hour", "TTFT p50"}},
	} {
		var out, errs strings.Builder
		status := execute(c.args, &out, &errs)
		for _, want := range c.want {
			if !strings.Contains(out.String()+errs.String(), want) || status != c.status {
				t.Errorf("%q: status %d, want %d and %q\n%s%s", c.args, status, c.status, want, out.String(), errs.String())
			}
		}
	}
	var out, errs strings.Builder
	var plan struct {
		Price  float64 `json:"price_per_hour"`
		Models []struct {
			Chosen struct {
				Pools []struct {
					Replicas int     `json:"replicas"`
					Rate     float64 `json:"rate"`
				} `json:"pools"`
			} `json:"chosen"`
		} `json:"models"`
	}
	if status := execute(append(flags, "-o", "json"), &out, &errs); status != exitOK {
		t.Fatal(errs.String())
	}
	if err := json.Unmarshal([]byte(out.String()), &plan); err != nil || plan.Price != 40 || plan.Models[0].Chosen.Pools[0].Replicas != 20 || plan.Models[0].Chosen.Pools[0].Rate != 0.5 {
		t.Errorf("%v\n%s", err, out.String())
	}
}
