//go:build unix

package outfile

import (
	"io/fs"
	"os"
	"syscall"
)

// alike gives a file the owner and mode of another one, and reports whether it could, so that its name can be given to it. It cannot where
// the file belongs to somebody else, or has more than one name.
func alike(name string, old fs.FileInfo) bool {
	was, is := old.Sys().(*syscall.Stat_t)
	if !is || was.Nlink > 1 {
		return false
	}
	info, err := os.Stat(name)
	if err != nil {
		return false
	}
	now, is := info.Sys().(*syscall.Stat_t)
	if !is {
		return false
	}
	if now.Uid != was.Uid || now.Gid != was.Gid {
		if os.Chown(name, int(was.Uid), int(was.Gid)) != nil {
			return false
		}
	}
	return os.Chmod(name, old.Mode().Perm()) == nil
}
