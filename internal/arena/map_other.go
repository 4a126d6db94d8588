//go:build !unix

package arena

import "unsafe"

const pageBytes = 4096

// mapMemory takes the memory from the Go heap, where bytes are not scanned but
// do count towards the collector's next cycle. It starts on a page boundary, as
// a mapping does.
func mapMemory(n int) ([]byte, error) {
	mem := make([]byte, n+pageBytes)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(mem))) & (pageBytes - 1))
	return mem[skip : skip+n : skip+n], nil
}

func unmapMemory([]byte) error { return nil }
