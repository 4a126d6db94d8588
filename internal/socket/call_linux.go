//go:build !race

package socket

import (
	"syscall"
	"unsafe"
)

// readNow is read(2) into a buffer that is not empty.
func readNow(fd uintptr, p []byte) (int, syscall.Errno) { return call(syscall.SYS_READ, fd, p) }

// writeNow is write(2) of a buffer that is not empty.
func writeNow(fd uintptr, p []byte) (int, syscall.Errno) { return call(syscall.SYS_WRITE, fd, p) }

func call(number, fd uintptr, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(number, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	return int(n), errno //nolint:gosec // at most len(p); not looked at after an error
}
