package roofline

import "golang.org/x/sys/unix"

// adviseHuge asks for huge pages; the error of a system without them is ignored.
func adviseHuge(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }
