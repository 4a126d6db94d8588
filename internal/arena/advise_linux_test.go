package arena

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"
)

// mapFlags are the kernel's flags of the mapping that mem begins.
func mapFlags(t *testing.T, mem []byte) []string {
	t.Helper()
	raw, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip(err)
	}
	address := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	inside := false
	for line := range strings.Lines(string(raw)) {
		var from, to uintptr
		if n, _ := fmt.Sscanf(line, "%x-%x ", &from, &to); n == 2 {
			inside = from <= address && address < to
		}
		if flags, ok := strings.CutPrefix(line, "VmFlags:"); ok && inside {
			return strings.Fields(flags)
		}
	}
	t.Fatalf("no mapping at %x", address)
	return nil
}

func TestArenasAskForHugePages(t *testing.T) {
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage"); err != nil {
		t.Skip("this kernel has no transparent huge pages")
	}
	for _, size := range []int64{hugePageBytes, 8 * hugePageBytes} {
		a, err := New(size)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Release()
		asked := strings.Contains(strings.Join(mapFlags(t, a.mem), " "), "hg")
		if !asked {
			t.Errorf("%d bytes: huge pages were not asked for", size)
		}
	}
}
