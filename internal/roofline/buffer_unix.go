//go:build unix

package roofline

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// newBuffer maps memory outside the garbage collector, in huge pages where the
// system grants them, as the engine holds its weights.
func newBuffer(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("mmap: %w", err)
	}
	adviseHuge(b)
	return b, nil
}

func freeBuffer(b []byte) { _ = unix.Munmap(b) } // b is what Mmap gave
