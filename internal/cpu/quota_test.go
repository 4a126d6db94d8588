package cpu

import (
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestQuotaIsTheTightestOfAllGroups(t *testing.T) {
	for _, c := range []struct {
		name       string
		membership string
		files      map[string]string
		want       float64 // 0: no limit
	}{
		{"version 2", "0::/a/b\n", map[string]string{"a/b/cpu.max": "150000 100000\n"}, 1.5},
		{"version 2, unlimited", "0::/a\n", map[string]string{"a/cpu.max": "max 100000\n"}, 0},
		{"a group above is tighter", "0::/a/b\n", map[string]string{"a/b/cpu.max": "400000 100000\n", "a/cpu.max": "50000 100000\n"},
			0.5},
		{"the host's path in a container", "0::/docker/0123\n", map[string]string{"cpu.max": "200000 100000\n"}, 2},
		{"a path that climbs", "0::/../../etc\n", map[string]string{"cpu.max": "200000 100000\n"}, 2},
		{"version 1", "4:cpu,cpuacct:/x\n2:memory:/y\n", map[string]string{
			"cpu,cpuacct/x/cpu.cfs_quota_us": "250000\n", "cpu,cpuacct/x/cpu.cfs_period_us": "100000\n"}, 2.5},
		{"version 1, linked name", "4:cpuacct,cpu:/\n", map[string]string{
			"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3},
		{"version 1, unlimited", "4:cpu:/\n", map[string]string{
			"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 0},
		{"another controller's limit", "5:cpuset:/\n", map[string]string{
			"cpuset/cpu.cfs_quota_us": "100000\n", "cpuset/cpu.cfs_period_us": "100000\n"}, 0},
		{"nonsense", "x\n0:\n0::/a\n", map[string]string{"a/cpu.max": "1\n", "cpu.max": "5 0\n"}, 0},
		{"negative", "0::/\n", map[string]string{"cpu.max": "-5 100\n"}, 0},
	} {
		dir := t.TempDir()
		for name, text := range c.files {
			write(t, filepath.Join(dir, name), text)
		}
		got, ok := quota(dir, write(t, filepath.Join(dir, "membership"), c.membership))
		if got != c.want || ok != (c.want > 0) {
			t.Errorf("%s: %v, %v, want %v", c.name, got, ok, c.want)
		}
	}
	if _, ok := quota(t.TempDir(), "none"); ok {
		t.Error("a limit without cgroups")
	}
}

func TestThreadsHonourTheEnvironment(t *testing.T) {
	t.Setenv("GOMAXPROCS", "")
	if n := Threads(); n < 1 || n > runtime.NumCPU() {
		t.Errorf("%d threads on %d CPUs", n, runtime.NumCPU())
	}
	t.Setenv("GOMAXPROCS", "1")
	if n := Threads(); n != 1 {
		t.Errorf("GOMAXPROCS=1: %d threads", n)
	}
	t.Setenv("GOMAXPROCS", "100000")
	if n := Threads(); n > runtime.NumCPU() {
		t.Errorf("GOMAXPROCS=100000: %d threads", n)
	}
}

func TestExcessNamesTheLimitAndTheWayOut(t *testing.T) {
	for _, c := range []struct {
		threads int
		cpus    float64
		limited bool
		want    []string // none: nothing is wrong
	}{
		{4, 0, false, nil},
		{2, 2, true, nil},
		{5, 0, false, []string{"threads 5", "4 CPUs", "--threads"}},
		{2, 1.5, true, []string{"threads 2", "1.5 CPUs", "--threads"}},
		{9, 6, true, []string{"threads 9", "6 CPUs"}},
	} {
		got := excess(c.threads, 4, c.cpus, c.limited)
		if (got == "") != (c.want == nil) {
			t.Errorf("%d threads, quota %v: %q", c.threads, c.cpus, got)
		}
		for _, part := range c.want {
			if !strings.Contains(got, part) {
				t.Errorf("%d threads, quota %v: %q lacks %q", c.threads, c.cpus, got, part)
			}
		}
	}
}

func TestMakeRoomRaisesOnly(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	t.Setenv("GOMAXPROCS", "3")
	MakeRoom(before + 7)
	if n := runtime.GOMAXPROCS(0); n != before {
		t.Errorf("with GOMAXPROCS in the environment: %d, want %d", n, before)
	}
	t.Setenv("GOMAXPROCS", "")
	MakeRoom(before + 7)
	if n := runtime.GOMAXPROCS(0); n != before+9 {
		t.Errorf("room for %d: GOMAXPROCS %d, want %d", before+7, n, before+9)
	}
	MakeRoom(1)
	if n := runtime.GOMAXPROCS(0); n != before+9 {
		t.Errorf("room for 1 lowered GOMAXPROCS to %d", n)
	}
}
