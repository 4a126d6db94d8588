package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBenchGBDT measures made trees by a named kernel and refuses what it cannot measure.
func TestBenchGBDT(t *testing.T) {
	saved := filepath.Join(t.TempDir(), "result.json")
	args := []string{"bench", "gbdt", "--trees", "20", "--depth", "3", "--features", "4", "--rounds", "2", "--batch", "1,64",
		"--kernel", "steps", "--no-limits", "--result-file", saved}
	var out, errs strings.Builder
	if status := execute(args, &out, &errs); status != 0 || strings.Count(out.String(), "steps") != 2 {
		t.Fatalf("status %d\n%s%s", status, out.String(), errs.String())
	}
	data, err := os.ReadFile(saved)
	if err != nil {
		t.Fatal(err)
	}
	var result struct {
		Kind, Kernel string
		Rows         []struct{ Name, Unit string }
	}
	if err := json.Unmarshal(data, &result); err != nil || result.Kind != "gbdt" || result.Kernel != "steps" ||
		len(result.Rows) != 4 || result.Rows[0].Name != "batch1" {
		t.Errorf("%v: %s", err, data)
	}
	odd := filepath.Join(t.TempDir(), "odd.f32")
	if err := os.WriteFile(odd, []byte("odd"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, extra := range map[string][]string{
		"it has walk":            {"--kernel", "fast"},
		"are no float32 values":  {"--rows", odd},
		"no such file":           {"--rows", odd + "x"},
		"take at most 65536":     {"--depth", "40"},
		"it takes md or json":    {"-o", "csv"},
		"batch 0: must be from ": {"--batch", "0"},
	} {
		errs.Reset()
		if status := execute(append(args, extra...), &out, &errs); status == 0 || !strings.Contains(errs.String(), want) {
			t.Errorf("%v: status %d, %s, want %q", extra, status, errs.String(), want)
		}
	}
}
