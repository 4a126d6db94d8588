//go:build unix

package batch

import (
	"errors"
	"os"
	"syscall"
)

// tryLock takes a lock on an open file for as long as it is open; the kernel releases the lock of a process that
// dies. It reports false where another process has it.
func tryLock(f *os.File) (bool, error) {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, syscall.EINTR):
			return false, &os.PathError{Op: "lock", Path: f.Name(), Err: err}
		}
	}
}
