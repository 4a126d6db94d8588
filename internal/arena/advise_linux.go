package arena

import "golang.org/x/sys/unix"

// hugePageBytes is the size of a huge page on most machines.
const hugePageBytes = 2 << 20

// adviseMemory asks for huge pages: weights are read front to back once a
// step, and every small page of them would take a walk through the page tables. A
// system that has them turned off, or none to give, keeps small ones, so an
// error is ignored.
func adviseMemory(mem []byte) {
	if len(mem) >= hugePageBytes {
		_ = unix.Madvise(mem, unix.MADV_HUGEPAGE)
	}
}
