//go:build !unix

package outfile

import (
	"io/fs"
	"os"
)

// alike gives a file the mode of another one; there are no owners to give here.
func alike(name string, old fs.FileInfo) bool { return os.Chmod(name, old.Mode().Perm()) == nil }
