//go:build race

package socket

import "syscall"

// The race detector takes what is read to come after what was written; only the ordinary calls tell it so.

func readNow(fd uintptr, p []byte) (int, syscall.Errno) { return told(syscall.Read(int(fd), p)) }

func writeNow(fd uintptr, p []byte) (int, syscall.Errno) { return told(syscall.Write(int(fd), p)) }

func told(n int, err error) (int, syscall.Errno) {
	errno, _ := err.(syscall.Errno) //nolint:errorlint // those calls give nothing else
	return n, errno
}
