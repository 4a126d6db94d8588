//go:build !unix

package registry

import (
	"errors"
	"os"
)

// tryLock has no lock that the kernel releases when a process dies, so nothing may be written.
func tryLock(*os.File, bool) (bool, error) {
	return false, errors.New("the models folder needs file locks of Unix, which this system lacks")
}

func inode(os.FileInfo) uint64 { return 0 }
