//go:build unix

package arena

import "golang.org/x/sys/unix"

func mapMemory(n int) ([]byte, error) {
	mem, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	adviseMemory(mem)
	return mem, nil
}

func unmapMemory(mem []byte) error { return unix.Munmap(mem) }
