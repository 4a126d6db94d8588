package cpu

import (
	"os"
	"path/filepath"
	"testing"
)

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAvailableTakesTheTighterOfMachineAndCgroup(t *testing.T) {
	dir := t.TempDir()
	meminfo := write(t, filepath.Join(dir, "meminfo"), "MemTotal:  99 kB\nMemAvailable:       2048 kB\n")
	group := write(t, filepath.Join(dir, "cgroup"), "0::/a.slice\n")
	if got := available(meminfo, dir, group); got != 2048<<10 {
		t.Errorf("without a limit: %d, want %d", got, 2048<<10)
	}
	write(t, filepath.Join(dir, "a.slice/memory.max"), "max\n")
	write(t, filepath.Join(dir, "a.slice/memory.current"), "1000\n")
	if got := available(meminfo, dir, group); got != 2048<<10 {
		t.Errorf("limit max: %d, want %d", got, 2048<<10)
	}
	write(t, filepath.Join(dir, "a.slice/memory.max"), "5000\n")
	if got := available(meminfo, dir, group); got != 4000 {
		t.Errorf("limit 5000, used 1000: %d, want 4000", got)
	}
}

func TestAvailableFallsBackWhereTheSystemIsSilent(t *testing.T) {
	dir := t.TempDir()
	broken := write(t, filepath.Join(dir, "meminfo"), "MemAvailable: -5 kB\nMemAvailable: x\n")
	for _, path := range []string{broken, filepath.Join(dir, "none")} {
		if got := available(path, dir, dir); got != fallbackBytes {
			t.Errorf("%s: %d, want %d", path, got, fallbackBytes)
		}
	}
}
