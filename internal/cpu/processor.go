package cpu

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// Processor is what the system reports about the machine's processors. Fields
// that it does not report are zero.
type Processor struct {
	Name       string   `json:"name"`               // as the processor calls itself: "AMD EPYC 9654"
	Kind       string   `json:"kind"`               // vendor, family and model as numbers, where the name may be anything
	CPUs       int      `json:"cpus"`               // that the system schedules on
	Cores      int      `json:"cores"`              // with units of their own; CPUs of one core share them
	Usable     int      `json:"usable"`             // CPUs that this process may run on
	Nodes      int      `json:"numa_nodes"`         // memories; reading another node's is slower
	CacheBytes int64    `json:"cache_bytes"`        // of the last level that the first CPU shares
	Governor   string   `json:"governor,omitempty"` // of the clock, where it can be seen
	Features   []string `json:"features"`
}

// Identify reads the Processor of this machine from the system.
func Identify() Processor {
	p := Processor{CPUs: runtime.NumCPU(), Usable: runtime.NumCPU(), Name: runtime.GOARCH, Features: Features()}
	if f, err := os.Open("/proc/cpuinfo"); err == nil {
		p.read(f)
		f.Close()
	}
	const cpu0 = "/sys/devices/system/cpu/cpu0"
	p.CacheBytes = lastCache(filepath.Join(cpu0, "cache"))
	p.Governor = firstLine(filepath.Join(cpu0, "cpufreq/scaling_governor"))
	nodes, _ := filepath.Glob("/sys/devices/system/node/node[0-9]*") // errors are for malformed patterns only
	p.Nodes = max(1, len(nodes))
	return p
}

// read takes in Linux's list of processors: "key : value" lines, a paragraph
// for each. A list without names is one of another architecture's.
func (p *Processor) read(list io.Reader) {
	cores := make(map[string]bool)
	cpus := 0
	var vendor, family, model, socket string
	lines := bufio.NewScanner(list)
	lines.Buffer(nil, 1<<20) // the line of flags is long
	for lines.Scan() {
		key, value, ok := strings.Cut(lines.Text(), ":")
		value = strings.TrimSpace(value)
		if !ok {
			continue
		}
		switch strings.TrimSpace(key) {
		case "processor":
			cpus++
		case "model name":
			p.Name = value
		case "vendor_id":
			vendor = value
		case "cpu family":
			family = value
		case "model":
			model = value
		case "CPU implementer":
			vendor = "implementer " + value
		case "CPU part":
			model = value
		case "physical id":
			socket = value
		case "core id":
			cores[socket+"/"+value] = true
		}
	}
	p.CPUs, p.Cores = max(p.CPUs, cpus), len(cores)
	switch {
	case family != "":
		p.Kind = fmt.Sprintf("%s family %s model %s", vendor, family, model)
	case vendor != "":
		p.Kind = fmt.Sprintf("%s part %s", vendor, model)
	}
}

// lastCache is the size of the highest level, "32768K" in the file.
func lastCache(dir string) int64 {
	var level, bytes int64
	indexes, _ := filepath.Glob(filepath.Join(dir, "index[0-9]*")) // errors are for malformed patterns only
	for _, index := range indexes {
		at, err := readInt(filepath.Join(index, "level"))
		if err != nil || at < level {
			continue
		}
		size := firstLine(filepath.Join(index, "size"))
		kib, err := strconv.ParseInt(strings.TrimSuffix(size, "K"), 10, 64)
		if err == nil && kib > 0 && kib < 1<<40 {
			level, bytes = at, kib<<10
		}
	}
	return bytes
}

// HugePages is the system's mode of transparent huge pages: "always",
// "madvise", "never", or "" where there is none.
func HugePages() string { return hugePages("/sys/kernel/mm/transparent_hugepage/enabled") }

// hugePages finds the mode in brackets: "always [madvise] never".
func hugePages(path string) string {
	_, rest, ok := strings.Cut(firstLine(path), "[")
	mode, _, closed := strings.Cut(rest, "]")
	if !ok || !closed {
		return ""
	}
	return mode
}

// Memory is the machine's memory in bytes; zero where the system does not report
// it.
type Memory struct {
	Total     int64 `json:"total_bytes"`
	Swap      int64 `json:"swap_bytes"`
	SwapUsed  int64 `json:"swap_used_bytes"` // by all processes
	Available int64 `json:"available_bytes"` // as AvailableMemoryBytes
}

// MachineMemory reads the Memory of this machine from the system.
func MachineMemory() Memory {
	m := Memory{Available: AvailableMemoryBytes()}
	if f, err := os.Open("/proc/meminfo"); err == nil {
		m.read(f)
		f.Close()
	}
	return m
}

// read takes in lines such as "SwapTotal:   1234 kB".
func (m *Memory) read(info io.Reader) {
	values := make(map[string]int64)
	for lines := bufio.NewScanner(info); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), ":")
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err == nil && kib >= 0 && kib < 1<<50 {
			values[key] = kib << 10
		}
	}
	m.Total, m.Swap = values["MemTotal"], values["SwapTotal"]
	m.SwapUsed = max(0, m.Swap-values["SwapFree"])
}

// LoadAverage is how many threads of the whole machine wanted to run in the
// last minute; ok is false where the system does not report it.
func LoadAverage() (load float64, ok bool) { return loadAverage("/proc/loadavg") }

func loadAverage(path string) (float64, bool) {
	first, _, _ := strings.Cut(firstLine(path), " ")
	load, err := strconv.ParseFloat(first, 64)
	return load, err == nil && load >= 0
}

// firstLine is the first line of a file; empty for an empty or missing file.
func firstLine(path string) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(raw), "\n")
	return strings.TrimSpace(line)
}

// Missing are the wanted features that this machine lacks.
func Missing(wanted ...string) []string {
	var missing []string
	have := Features()
	for _, name := range wanted {
		if !slices.Contains(have, name) {
			missing = append(missing, name)
		}
	}
	return missing
}
