// Package registry keeps versions of models in a folder that is an OCI image layout: immutable, named by the digest
// of a manifest over weights and everything that decides what a version answers, and found by aliases that move.
//
//	oci-layout, index.json   which versions there are, and which aliases point at them
//	blobs/sha256/HEX         files by content: weights, manifests, configurations
//	views/HEX/NAME           links to the blobs of a version under the names that their formats ask for
//	ingest/                  files that are being written
//	leases/                  what running processes use: a file each, locked as long as its process lives
//	verified/HEX             size, time and inode at which a blob's digest was last found right
//	used/HEX                 when a version was last loaded: the time of the file
//	signatures/HEX           who vouches for a version
//	changes.jsonl            who moved which alias when
//
// Any number of processes work on a folder at once. A new index.json, renamed over the old one under a lock, is the
// only step that makes anything visible or moves an alias; whatever a process that was killed leaves behind is garbage
// that Collect finds. The lock is flock(2): the file system must have it between all machines that share the folder.
package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"weir/internal/disk"
)

// Errors that callers tell apart.
var (
	ErrNotFound = errors.New("no such model")
	ErrCorrupt  = errors.New("corrupt blob")
	ErrInUse    = errors.New("in use")
	ErrFormat   = errors.New("not a model that weir reads")
)

// Names of files and folders.
const (
	blobsFolder    = "blobs"
	viewsFolder    = "views"
	ingestFolder   = "ingest"
	leasesFolder   = "leases"
	verifiedFolder = "verified"
	usedFolder     = "used"
	lockFile       = "lock"
	changesFile    = "changes.jsonl"
	newPrefix      = ".new-" // of what is renamed once it is whole
)

// folders are those that create makes, some with one within.
var (
	folders      = []string{blobsFolder, viewsFolder, ingestFolder, leasesFolder, verifiedFolder, usedFolder}
	folderWithin = map[string]string{blobsFolder: string(digest.SHA256)}
)

// Registry is a folder of versions. It holds no state of its own, so several processes and goroutines may use one.
type Registry struct {
	*layout
	*Journal
	*Versions
	*Collector
	*Signing
	blobs *blobs
}

func newRegistry(dir string, now func() time.Time) *Registry {
	l := &layout{dir: dir, now: now}
	b, j := &blobs{l}, &Journal{layout: l}
	v := &Versions{layout: l, blobs: b, journal: j}
	return &Registry{layout: l, Journal: j, Versions: v, Collector: &Collector{layout: l, blobs: b, journal: j, versions: v}, Signing: &Signing{l}, blobs: b}
}

// layout is the folder: where its files are, and the lock of all processes that work on it.
type layout struct {
	dir string
	now func() time.Time // the clock; tests set it
}

// Open gives the registry in a folder. The folder is made by what first writes into it; a folder with other content is
// refused.
func Open(dir string) (*Registry, error) {
	r := newRegistry(dir, time.Now)
	path := filepath.Join(dir, ocispec.ImageLayoutFile)
	data, err := readSmall(path, 4<<10)
	if errors.Is(err, fs.ErrNotExist) {
		foreign := r.checkEmpty()
		if foreign == nil {
			return r, nil
		}
		// What is there may have been written between the two looks, by another process that has made the folder since.
		if data, err = readSmall(path, 4<<10); errors.Is(err, fs.ErrNotExist) {
			return nil, foreign
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open the models folder: %w", err)
	}
	var layout ocispec.ImageLayout
	if err := json.Unmarshal(data, &layout); err != nil || layout.Version != ocispec.ImageLayoutVersion {
		return nil, fmt.Errorf("open the models folder %s: its %s is not that of an OCI image layout %s", dir,
			ocispec.ImageLayoutFile, ocispec.ImageLayoutVersion)
	}
	return r, nil
}

// checkEmpty keeps a registry from being made among files of somebody else.
func (l *layout) checkEmpty() error {
	entries, err := os.ReadDir(l.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open the models folder: %w", err)
	}
	for _, e := range entries {
		switch name := e.Name(); {
		case slices.Contains(folders, name), strings.HasPrefix(name, newPrefix), name == ocispec.ImageLayoutFile: // somebody makes it just now
		default:
			return fmt.Errorf("open the models folder %s: it holds %s and no %s, so it is not a folder of models; choose another with --models-dir",
				l.dir, name, ocispec.ImageLayoutFile)
		}
	}
	return nil
}

// Dir is the folder.
func (l *layout) Dir() string { return l.dir }

// create makes the folders, and the layout's file last.
func (l *layout) create() error {
	if _, err := os.Stat(l.path(ocispec.ImageLayoutFile)); err == nil {
		return nil
	}
	for _, folder := range folders {
		if err := os.MkdirAll(l.path(folder, folderWithin[folder]), 0o755); err != nil {
			return fmt.Errorf("make the models folder: %w", err)
		}
	}
	data, err := json.Marshal(ocispec.ImageLayout{Version: ocispec.ImageLayoutVersion})
	if err != nil {
		return err
	}
	return writeWhole(l.path(ocispec.ImageLayoutFile), data)
}

func (l *layout) path(parts ...string) string {
	return filepath.Join(append([]string{l.dir}, parts...)...)
}

// blobPath is where a blob is, or would be.
func (l *layout) blobPath(d digest.Digest) string {
	return l.path(blobsFolder, d.Algorithm().String(), d.Encoded())
}

// checkDigest refuses what is not a SHA-256 digest, of which file names are made.
func checkDigest(d digest.Digest) error {
	if err := d.Validate(); err != nil || d.Algorithm() != digest.SHA256 {
		return fmt.Errorf("%w: %.100q is not a digest sha256:HEX", ErrFormat, string(d))
	}
	return nil
}

// openRegular opens a file for reading. A named pipe, whose open would wait for a writer, and whatever else has no
// bytes of its own is refused.
func openRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: %s is %s and no regular file", ErrCorrupt, path, info.Mode())
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// readSmall reads a file of at most limit bytes.
func readSmall(path string, limit int64) ([]byte, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		return nil, fmt.Errorf("%s has more than %d bytes", path, limit)
	}
	return data, err
}

// writeWhole puts a file in place that is whole whenever the machine stops: written beside, synced, renamed, and the
// folder synced.
func writeWhole(path string, data []byte) error {
	f, err := disk.CreateTemp(filepath.Dir(path), newPrefix)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // under its own name it stays
	_, err = f.Write(data)
	if err := errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return disk.SyncFolder(filepath.Dir(path))
}

// lock takes the registry's lock: exclusively to change index.json and to remove files, shared to announce that blobs
// are used. It is held for moments only, never while a model is copied or checked.
func (l *layout) lock(ctx context.Context, exclusive bool) (unlock func(), err error) {
	if err := l.create(); err != nil {
		return nil, err
	}
	f, err := lockPath(ctx, l.path(lockFile), exclusive)
	if err != nil {
		return nil, fmt.Errorf("lock the models folder: %w", err)
	}
	return func() { _ = f.Close() }, nil
}
