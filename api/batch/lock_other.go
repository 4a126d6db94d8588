//go:build !unix

package batch

import (
	"errors"
	"os"
)

// tryLock has no lock that the kernel releases when a process dies, so no batch runs.
func tryLock(*os.File) (bool, error) {
	return false, errors.New("batches need file locks of Unix, which this system lacks")
}
