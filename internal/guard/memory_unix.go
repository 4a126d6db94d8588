//go:build unix

package guard

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// guarded is so many bytes or more, with a page behind them that faults.
func guarded(t testing.TB, size int) []byte {
	t.Helper()
	page := os.Getpagesize()
	size = (size + page - 1) / page * page
	all, err := unix.Mmap(-1, 0, size+page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(all) })
	if err := unix.Mprotect(all[size:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	return all[:size:size]
}
