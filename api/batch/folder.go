package batch

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"weir/internal/disk"
)

// folder is where the bytes of files and the journals of batches are: files/ID, batches/ID, and what is being
// written under new/. A file gets its name once it is whole and synced.
type folder struct {
	path   string
	cipher Cipher // nil: bytes are in clear
	place  string // the folder's own id, by which processes that share a store tell their folders apart
}

const (
	filesFolder   = "files"
	batchesFolder = "batches"
	newFolder     = "new"
	placeFile     = "place"
)

// openFolder makes the folder where there is none.
func openFolder(path string, cipher Cipher) (*folder, error) {
	f := &folder{path: path, cipher: cipher}
	for _, sub := range []string{filesFolder, batchesFolder, newFolder} {
		if err := os.MkdirAll(filepath.Join(path, sub), 0o700); err != nil {
			return nil, err
		}
	}
	name := filepath.Join(path, placeFile)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = f.choosePlace(name)
	}
	if err != nil {
		return nil, err
	}
	if f.place = strings.TrimSpace(string(text)); f.place == "" || len(f.place) > 64 {
		return nil, fmt.Errorf("%s has no id; remove the file if no batch is unfinished", name)
	}
	return f, disk.SyncFolder(path)
}

// choosePlace gives the folder an id, or takes that of a process that was faster.
func (f *folder) choosePlace(name string) ([]byte, error) {
	draft, err := f.create()
	if err != nil {
		return nil, err
	}
	defer draft.discard()
	if _, err := draft.Write([]byte(rand.Text() + "\n")); err != nil {
		return nil, err
	}
	if err := draft.sync(); err != nil {
		return nil, err
	}
	if err := os.Link(draft.name, name); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.ReadFile(name)
}

func (f *folder) file(id string) string    { return filepath.Join(f.path, filesFolder, id) }
func (f *folder) journal(id string) string { return filepath.Join(f.path, batchesFolder, id) }

// remove deletes a file's bytes; that they are gone is no error.
func (f *folder) remove(id string) error {
	return errors.Join(removeIfThere(f.file(id)+encryptedEnd), removeIfThere(f.file(id)))
}

func removeIfThere(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// draft is a file that has no name yet.
type draft struct {
	folder *folder
	name   string
	file   *os.File
	out    *bufio.Writer  // into the file, or sealed
	sealed io.WriteCloser // encrypts into the file; nil: it is in clear
	key    string         // that encrypts it
	bytes  int64          // before they are encrypted
}

func (f *folder) create() (*draft, error) {
	file, err := disk.CreateTemp(filepath.Join(f.path, newFolder), "draft-") // mode 0600
	if err != nil {
		return nil, err
	}
	return &draft{folder: f, name: file.Name(), file: file, out: bufio.NewWriterSize(file, 64<<10)}, nil
}

// Write implements io.Writer.
func (d *draft) Write(p []byte) (int, error) {
	n, err := d.out.Write(p)
	d.bytes += int64(n)
	return n, err
}

// ReadFrom implements io.ReaderFrom.
func (d *draft) ReadFrom(r io.Reader) (int64, error) {
	n, err := d.out.ReadFrom(r)
	d.bytes += n
	return n, err
}

// sync ends the bytes: no more are written.
func (d *draft) sync() error {
	err := d.out.Flush()
	if d.sealed != nil {
		err = errors.Join(err, d.sealed.Close())
	}
	return errors.Join(err, d.file.Sync())
}

// publish gives the bytes the name of a file. It is there afterwards whatever happens, or not at all.
func (d *draft) publish(id string) error {
	if err := d.sync(); err != nil {
		return err
	}
	name := d.folder.file(id)
	if d.sealed != nil {
		name += encryptedEnd
	}
	if err := os.Rename(d.name, name); err != nil {
		return err
	}
	return disk.SyncFolder(filepath.Join(d.folder.path, filesFolder))
}

// discard ends a draft; a published one stays.
func (d *draft) discard() {
	_ = d.file.Close() // synced, or not wanted
	_ = os.Remove(d.name)
}

// orphanAge is how old bytes are at least that are deleted because the store does not know them: younger ones may
// be of a request that is under way.
const orphanAge = 24 * time.Hour

// sweep deletes what crashes left: drafts, and files and journals that the store does not know.
func (f *folder) sweep(ctx context.Context, store Store, now time.Time) error {
	return errors.Join(
		f.sweepFolder(newFolder, now, func(string) (bool, error) { return true, nil }),
		f.sweepFolder(filesFolder, now, func(name string) (bool, error) {
			_, err := store.AnyFile(ctx, strings.TrimSuffix(name, encryptedEnd))
			if errors.Is(err, ErrUnknown) {
				return true, nil
			}
			return false, err
		}),
		f.sweepFolder(batchesFolder, now, func(id string) (bool, error) {
			known, err := store.HasBatch(ctx, id)
			return !known, err
		}))
}

// clearFiles are the ids of the files in clear.
func (f *folder) clearFiles() (ids []string, err error) {
	entries, err := os.ReadDir(filepath.Join(f.path, filesFolder))
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), encryptedEnd) {
			ids = append(ids, e.Name())
		}
	}
	return ids, err
}

func (f *folder) sweepFolder(sub string, now time.Time, isOrphan func(id string) (bool, error)) error {
	entries, err := os.ReadDir(filepath.Join(f.path, sub))
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || now.Sub(info.ModTime()) < orphanAge {
			continue // gone meanwhile, or young
		}
		orphan, err := isOrphan(e.Name())
		if err != nil {
			return err
		}
		if orphan {
			if err := removeIfThere(filepath.Join(f.path, sub, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// newID makes the id of a file or batch.
func newID(prefix string) string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails
	return prefix + hex.EncodeToString(b[:])
}
