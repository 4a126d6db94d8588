package cpu

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// Threads is the number of compute threads that fit the machine: the CPUs that
// the process may run on, or the whole CPUs of its cgroup's quota if those are
// fewer, at least 1. A part of a CPU is left for the other goroutines: a cgroup
// that has used up its quota is throttled until the next period, in the middle of
// a step.
// GOMAXPROCS in the environment lowers the number too.
func Threads() int {
	n := runtime.NumCPU()
	if cpus, ok := Quota(); ok {
		n = min(n, int(cpus))
	}
	if procs, err := strconv.Atoi(os.Getenv("GOMAXPROCS")); err == nil && procs > 0 {
		n = min(n, procs)
	}
	return max(n, 1)
}

// Excess is a warning about an explicit number of compute threads; it is empty
// where the number fits this machine.
func Excess(threads int) string {
	cpus, limited := Quota()
	return excess(threads, runtime.NumCPU(), cpus, limited)
}

func excess(threads, usable int, cpus float64, limited bool) string {
	switch {
	case limited && threads > max(1, int(cpus)):
		return fmt.Sprintf("threads %d: the cgroup's quota is %.3g CPUs, and a cgroup that has used up its quota is "+
			"throttled for the rest of each period; lower --threads or raise the quota", threads, cpus)
	case threads > usable:
		return fmt.Sprintf("threads %d: the process may run on %d CPUs, so threads take turns; lower --threads", threads, usable)
	}
	return ""
}

// spareProcs is what the Go scheduler gets beside one processor for each
// compute thread, for connections and the collector.
const spareProcs = 2

// MakeRoom lets the Go scheduler run other goroutines while all compute threads
// are busy: the operating system decides which thread gets a core. With a processor for
// each compute thread and no more, a connection's goroutine waits for one of
// them to be preempted, which takes 10 ms and more. GOMAXPROCS in the
// environment is left as it is.
func MakeRoom(threads int) {
	if os.Getenv("GOMAXPROCS") == "" && runtime.GOMAXPROCS(0) < threads+spareProcs {
		runtime.GOMAXPROCS(threads + spareProcs)
	}
}

// Quota is how many CPUs' time the cgroups of the process grant it, 1.5 for one
// and a half; ok is false where there is no limit.
func Quota() (cpus float64, ok bool) {
	return quota("/sys/fs/cgroup", "/proc/self/cgroup")
}

// quota is the tightest limit among the process's own groups and those above
// them, in versions 1 and 2. A container often sees its own group as the root
// but is told its path on the host, so directories may be missing.
func quota(root, membership string) (cpus float64, ok bool) {
	raw, err := os.ReadFile(membership)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(raw)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, found := strings.Cut(rest, ":")
		if !found {
			continue
		}
		limit := limitV2
		mount := root
		if controllers != "" {
			if !strings.Contains(","+controllers+",", ",cpu,") {
				continue
			}
			limit, mount = limitV1, mountV1(root, controllers)
		}
		for dir := path.Clean("/" + group); ; dir = path.Dir(dir) {
			if c, limited := limit(filepath.Join(mount, dir)); limited && (!ok || c < cpus) {
				cpus, ok = c, true
			}
			if dir == "/" {
				break
			}
		}
	}
	return cpus, ok
}

// mountV1 is where a version 1 hierarchy lies: under its controllers' names, or
// under the one name that they are linked from.
func mountV1(root, controllers string) string {
	dir := filepath.Join(root, controllers)
	if _, err := os.Stat(dir); err != nil {
		return filepath.Join(root, "cpu")
	}
	return dir
}

// limitV2 reads "150000 100000", or "max 100000" where there is no limit.
func limitV2(dir string) (cpus float64, ok bool) {
	raw, err := os.ReadFile(filepath.Join(dir, "cpu.max"))
	if err != nil {
		return 0, false
	}
	fields := strings.Fields(string(raw))
	if len(fields) != 2 {
		return 0, false
	}
	spend, err1 := strconv.ParseInt(fields[0], 10, 64)
	period, err2 := strconv.ParseInt(fields[1], 10, 64)
	return ratio(spend, period, err1, err2)
}

// limitV1 reads two files; a quota of -1 is no limit.
func limitV1(dir string) (cpus float64, ok bool) {
	spend, err1 := readInt(filepath.Join(dir, "cpu.cfs_quota_us"))
	period, err2 := readInt(filepath.Join(dir, "cpu.cfs_period_us"))
	return ratio(spend, period, err1, err2)
}

func ratio(spend, period int64, err1, err2 error) (cpus float64, ok bool) {
	if err1 != nil || err2 != nil || spend <= 0 || period <= 0 {
		return 0, false
	}
	return float64(spend) / float64(period), true
}
