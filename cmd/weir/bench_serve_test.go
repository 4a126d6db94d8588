package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/configs"
	"weir/internal/server/servertest"
)

// The load generator against the server: what was asked for comes, is counted
// by the server, and is in the file.
func TestBenchServe(t *testing.T) {
	s := servertest.Start(t, func(c *configs.Config) { c.API.APIKeys = []string{"sk-12345678"} })
	dir := t.TempDir()
	for _, c := range []struct {
		name  string
		flags []string
		want  []string // in the table
	}{
		{"closed", []string{"--max-concurrency", "3", "--num-warmups", "2"}, []string{"Maximum request concurrency:             3"}},
		{"open", []string{"--request-rate", "500", "--burstiness", "0.5", "--goodput", "e2el:1e9", "ttft:1e9"},
			[]string{"Request goodput (req/s):"}},
		{"chat", []string{"--endpoint", "/v1/chat/completions", "--length-unit", "tokens", "--temperature", "0"}, nil},
		{"prefix", []string{"--dataset-name", "prefix_repetition", "--prefix-repetition-num-prefixes", "2",
			"--prefix-repetition-prefix-len", "40",
			"--prefix-repetition-suffix-len", "4", "--prefix-repetition-output-len", "5"}, nil},
		{"trace", []string{"--dataset-name", "trace", "--trace-max-input", "50", "--trace-max-output", "5", "--request-rate",
			"300", "--self-timed"}, nil},
	} {
		args := append([]string{"bench", "serve", "--base-url", s.API, "--api-key", "sk-12345678", "--metrics-url",
			s.Admin + "/metrics",
			"--num-prompts", "6", "--random-input-len", "12", "--random-output-len", "5", "--percentile-metrics", "ttft,e2el",
			"--result-dir", dir, "--result-filename", c.name + ".json", "--plot", filepath.Join(dir, c.name+".svg")}, c.flags...)
		var out, errs strings.Builder
		if status := execute(args, &out, &errs); status != exitOK {
			t.Fatalf("%s: status %d\n%s%s", c.name, status, out.String(), errs.String())
		}
		for _, want := range append(c.want, "Successful requests:                     6", "Failed requests:                         0",
			"P99 E2EL (ms):") {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %q in\n%s", c.name, want, out.String())
			}
		}
		var r struct {
			Completed int `json:"completed"`
			Input     int `json:"total_input_tokens"`
			Output    int `json:"total_output_tokens"`
			Model     struct{ Name, Digest, Fingerprint string }
			Flags     map[string]string
		}
		raw, err := os.ReadFile(filepath.Join(dir, c.name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw, &r); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if r.Completed != 6 || r.Input < 6 || r.Model.Name == "" || len(r.Model.Digest) != 64 || r.Model.Fingerprint == "" {
			t.Errorf("%s: %+v", c.name, r)
		}
		if c.name != "trace" && r.Output != 6*5 {
			t.Errorf("%s: %d tokens came, 30 were asked for", c.name, r.Output)
		}
		if strings.Contains(string(raw), "sk-12345678") {
			t.Errorf("%s: the key is in the file", c.name)
		}
		if svg, err := os.ReadFile(filepath.Join(dir, c.name+".svg")); err != nil || !strings.HasPrefix(string(svg), "<svg") {
			t.Errorf("%s: plot %v", c.name, err)
		}
	}
	var out, errs strings.Builder
	if status := execute([]string{"bench", "serve", "--base-url", s.API, "--model", "m", "--num-prompts", "2",
		"--ready-check-timeout-sec", "0"}, &out, &errs); status != exitFailure {
		t.Errorf("without a key: status %d", status)
	}
	for _, want := range []string{"http_401:                              2", "error: http_401: status 401:",
		"none of 2 requests succeeded"} {
		if !strings.Contains(out.String()+errs.String(), want) {
			t.Errorf("without a key: no %q in\n%s%s", want, out.String(), errs.String())
		}
	}
}
