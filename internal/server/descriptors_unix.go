//go:build unix

package server

import "syscall"

// openFilesLimit is RLIMIT_NOFILE. Go itself has raised the soft limit to the hard one when the process began.
func openFilesLimit() (n int, known bool) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, false
	}
	return int(min(uint64(limit.Cur), 1<<30)), true //nolint:unconvert // the field is signed on some systems
}
