package cpu

import (
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestProcessorReadsLinuxLists(t *testing.T) {
	var p Processor
	p.read(strings.NewReader(strings.Repeat(`processor	: 0
vendor_id	: AuthenticAMD
cpu family	: 26
model		: 2
model name	: AMD EPYC 9B45 64-Core Processor
physical id	: 0
core id		: 7
flags		: fpu avx2

processor	: 1
physical id	: 1
core id		: 7

`, 2)))
	want := Processor{Name: "AMD EPYC 9B45 64-Core Processor", Kind: "AuthenticAMD family 26 model 2", CPUs: 4, Cores: 2}
	if !reflect.DeepEqual(p, want) {
		t.Errorf("got %+v, want %+v", p, want)
	}
	p = Processor{Name: "arm64"}
	p.read(strings.NewReader("processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n\nnonsense\n"))
	if want := (Processor{Name: "arm64", Kind: "implementer 0x41 part 0xd40", CPUs: 1}); !reflect.DeepEqual(p, want) {
		t.Errorf("got %+v, want %+v", p, want)
	}
}

func TestIdentifyIsNeverEmpty(t *testing.T) {
	p := Identify()
	if p.Name == "" || p.CPUs < 1 || p.Usable < 1 || p.Nodes < 1 {
		t.Errorf("%+v", p)
	}
}

func TestFeaturesOfThisMachine(t *testing.T) {
	have := Features()
	if (runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64") && len(have) == 0 {
		t.Error("no feature on an architecture that always has some")
	}
	if got := Missing(append([]string{"no_such_feature"}, have...)...); !slices.Equal(got, []string{"no_such_feature"}) {
		t.Errorf("missing %q", got)
	}
}

func TestLastCacheIsTheHighestLevel(t *testing.T) {
	dir := t.TempDir()
	if got := lastCache(dir); got != 0 {
		t.Errorf("nothing there: %d", got)
	}
	for _, c := range []struct{ index, level, size string }{
		{"index0", "1", "48K"}, {"index1", "3", "32768K"}, {"index2", "2", "1024K"}, {"index3", "4", "nonsense"},
	} {
		write(t, filepath.Join(dir, c.index, "level"), c.level+"\n")
		write(t, filepath.Join(dir, c.index, "size"), c.size+"\n")
	}
	if got := lastCache(dir); got != 32<<20 {
		t.Errorf("%d, want %d", got, 32<<20)
	}
}

func TestHugePagesMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "enabled")
	for text, want := range map[string]string{
		"always [madvise] never\n": "madvise", "[always] madvise never": "always", "always": "", "[never": "", "": "",
	} {
		if got := hugePages(write(t, path, text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := hugePages(path + ".none"); got != "" {
		t.Errorf("no file: %q", got)
	}
}

func TestMemoryReadsSwap(t *testing.T) {
	var m Memory
	m.read(strings.NewReader("MemTotal:  100 kB\nSwapTotal: 40 kB\nSwapFree:  10 kB\nSwapCached: -4 kB\nHugePages_Total: 3\n"))
	if want := (Memory{Total: 100 << 10, Swap: 40 << 10, SwapUsed: 30 << 10}); m != want {
		t.Errorf("%+v, want %+v", m, want)
	}
	if m := MachineMemory(); m.Available <= 0 {
		t.Errorf("%+v", m)
	}
}

func TestLoadAverage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "loadavg")
	if got, ok := loadAverage(write(t, path, "1.25 0.5 0.3 1/234 99\n")); !ok || got != 1.25 {
		t.Errorf("%v, %v", got, ok)
	}
	for _, text := range []string{"", "x 1 1", "-1 0 0"} {
		if got, ok := loadAverage(write(t, path, text)); ok {
			t.Errorf("%q: %v", text, got)
		}
	}
}
