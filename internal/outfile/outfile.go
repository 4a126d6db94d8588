// Package outfile writes files whole or not at all: what is written goes beside the file's place and takes its name when it is complete. A file
// that is there keeps its mode and owner, a symbolic link stays a link and what it points at is replaced, and pipes and devices are written to.
package outfile

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"weir/internal/disk"
)

// Modes of files that are new, before the process's umask.
const (
	Public  fs.FileMode = 0o666
	Private fs.FileMode = 0o600
)

// partialPrefix begins the names of files that are being written.
const partialPrefix = ".weir-"

// maxLinks is how many symbolic links are followed, as Linux has it.
const maxLinks = 40

// Write gives the file at path the content that write produces. mode is that of a new file.
func Write(path string, mode fs.FileMode, write func(io.Writer) error) error {
	path, err := target(path)
	if err != nil {
		return err
	}
	old, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return replace(path, mode, nil, write)
	case err != nil:
		return err
	case old.IsDir():
		return &fs.PathError{Op: "write", Path: path, Err: syscall.EISDIR}
	case !old.Mode().IsRegular():
		return pour(path, 0, write)
	}
	return replace(path, mode, old, write)
}

// WriteBytes is Write of bytes that are known.
func WriteBytes(path string, mode fs.FileMode, data []byte) error {
	return Write(path, mode, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// target follows symbolic links to the place of the file, which need not be there.
func target(path string) (string, error) {
	for range maxLinks {
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return path, nil
		}
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			return path, nil
		}
		to, err := os.Readlink(path)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(to) {
			// Not filepath.Join, which takes .. away as text: the folder may be a link itself.
			to = filepath.Dir(path) + string(filepath.Separator) + to
		}
		path = to
	}
	return "", &fs.PathError{Op: "write", Path: path, Err: syscall.ELOOP}
}

// replace writes a new file beside the place, and gives it its name. old is nil where there is none.
func replace(path string, mode fs.FileMode, old fs.FileInfo, write func(io.Writer) error) (err error) {
	f, err := create(filepath.Dir(path), mode, old)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // under its own name it stays
	if err := errors.Join(fill(f, write), f.Sync(), f.Close()); err != nil {
		return err
	}
	if old != nil && !alike(f.Name(), old) {
		return copyInto(path, f.Name())
	}
	if err := os.Rename(f.Name(), path); err != nil {
		if errors.Is(err, syscall.EBUSY) { // a file that is mounted into a container
			return copyInto(path, f.Name())
		}
		return err
	}
	return disk.SyncFolder(filepath.Dir(path))
}

// create makes an empty file with a name of its own. Where it is to replace another one, no other process reads it before it has that one's mode.
func create(folder string, mode fs.FileMode, old fs.FileInfo) (*os.File, error) {
	if old != nil {
		mode = Private
	}
	for {
		name := filepath.Join(folder, partialPrefix+strconv.FormatUint(rand.Uint64(), 36))
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

// copyInto gives a file that has to stay the content of one that is complete.
func copyInto(path, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	return pour(path, os.O_TRUNC, func(w io.Writer) error {
		_, err := io.Copy(w, in)
		return err
	})
}

// pour writes to what has no second place: a pipe, a device, a file that has to stay.
func pour(path string, flags int, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|flags, 0)
	if err != nil {
		return err
	}
	return errors.Join(fill(f, write), f.Close())
}

func fill(f *os.File, write func(io.Writer) error) error {
	w := bufio.NewWriterSize(f, 64<<10)
	if err := write(w); err != nil {
		return err
	}
	return w.Flush()
}
