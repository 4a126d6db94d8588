// Package disk has what files do on every system that weir is built for: locks that end with their process, names that outlast a crash of
// the machine, and temporary files that may be renamed and removed while they are open.
//
//	f, err := disk.CreateTemp(folder, "import-")
//	locked, err := disk.TryLock(f, true)
//	…
//	err = errors.Join(os.Rename(f.Name(), path), disk.SyncFolder(folder))
package disk

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Open opens a file or folder to be read. It may be renamed and removed while it is open, which Windows does to no file of os.Open.
func Open(path string) (*os.File, error) {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.Open(filepath.Base(path))
}

// CreateTemp makes a new file in a folder, with a name that begins with prefix, which only its owner may read. It may be renamed and
// removed while it is open, which Windows does to no file of os.CreateTemp.
func CreateTemp(folder, prefix string) (*os.File, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	for {
		f, err := root.OpenFile(prefix+rand.Text(), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}
