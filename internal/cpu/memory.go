// Package cpu reports the cores and the memory that the process may use, as
// limited by the container that it runs in.
package cpu

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// fallbackBytes is assumed where the system does not report its memory.
const fallbackBytes = 4 << 30

// AvailableMemoryBytes is how much memory the process can still take without
// swapping: the kernel's estimate, or what the cgroup leaves if that is less.
// Where the system does not report it, it is 4 GiB.
func AvailableMemoryBytes() int64 {
	return available("/proc/meminfo", "/sys/fs/cgroup", "/proc/self/cgroup")
}

// TotalMemoryBytes is the most memory that the process could ever have: the
// machine's, or its cgroup's limit if that is less; 0 where the system does not
// report it.
func TotalMemoryBytes() int64 {
	total := MachineMemory().Total
	if limit, _, ok := cgroupMemory("/sys/fs/cgroup", "/proc/self/cgroup"); ok && (total == 0 || limit < total) {
		return limit
	}
	return total
}

func available(meminfo, cgroupRoot, membership string) int64 {
	free := memAvailable(meminfo)
	if limit, used, ok := cgroupMemory(cgroupRoot, membership); ok {
		free = min(free, max(0, limit-used))
	}
	return free
}

// memAvailable reads the line "MemAvailable:   12345 kB".
func memAvailable(path string) int64 {
	f, err := os.Open(path)
	if err != nil {
		return fallbackBytes
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		rest, ok := strings.CutPrefix(s.Text(), "MemAvailable:")
		if !ok {
			continue
		}
		kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		if err == nil && kb >= 0 && kb < 1<<50 {
			return kb << 10
		}
	}
	return fallbackBytes
}

// cgroupMemory is the limit and the use of the process's own cgroup (version 2);
// ok is false where there is no limit.
func cgroupMemory(root, membership string) (limit, used int64, ok bool) {
	raw, err := os.ReadFile(membership)
	if err != nil {
		return 0, 0, false
	}
	for line := range strings.Lines(string(raw)) {
		dir, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !ok {
			continue
		}
		limit, err1 := readInt(filepath.Join(root, dir, "memory.max"))
		used, err2 := readInt(filepath.Join(root, dir, "memory.current"))
		if err1 == nil && err2 == nil {
			return limit, used, true
		}
	}
	return 0, 0, false
}

func readInt(path string) (int64, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
}
