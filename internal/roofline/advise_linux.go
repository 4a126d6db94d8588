package roofline

import "golang.org/x/sys/unix"

// adviseHuge asks for huge pages; a system without them says no.
func adviseHuge(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }
