package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Version is an immutable version of a model.
type Version struct {
	Digest  digest.Digest `json:"digest"` // of the manifest
	Name    string        `json:"name"`   // by which it was asked for, or has come
	Aliases []string      `json:"aliases"`
	Files   []File        `json:"files"`
	Facts   Facts         `json:"facts"`
	Record  Record        `json:"record"`
	Size    int64         `json:"size_bytes"` // of all files
	Source  string        `json:"source,omitempty"`
	Created time.Time     `json:"created,omitzero"`
	Added   time.Time     `json:"added,omitzero"`
	Used    time.Time     `json:"used,omitzero"`

	folder   string // of links to the files, by name; empty: it could not be made
	blobs    string // folder of the files themselves
	manifest ocispec.Manifest
	desc     ocispec.Descriptor
}

// Path is where the weights are opened: their first file, beside which the others lie.
func (v *Version) Path() string {
	if files := v.Paths(Weights); len(files) > 0 {
		return files[0]
	}
	return ""
}

// Paths are those of all files with a role, in the order of their names.
func (v *Version) Paths(role Role) []string {
	var paths []string
	for _, f := range v.Files {
		switch {
		case f.Role != role:
		case v.folder != "":
			paths = append(paths, filepath.Join(v.folder, f.Name))
		default:
			paths = append(paths, filepath.Join(v.blobs, f.Digest.Encoded()))
		}
	}
	if v.folder != "" {
		slices.Sort(paths)
	}
	return paths
}

// Language reports whether the weights are those of a language model or a text encoder, in GGUF.
func (v *Version) Language() bool { return v.Facts.Format == "" || v.Facts.Format == "gguf" }

// Versions are those of a folder.
type Versions struct {
	*layout
	blobs   *blobs
	journal *Journal
}

// Resolve finds a version by its name and reads what it is; its weights are neither read nor checked. ErrNotFound where
// there is none; ErrFormat or ErrCorrupt where its manifest cannot be read.
func (vs *Versions) Resolve(text string) (Version, error) {
	ref, err := ParseRef(text)
	if err != nil {
		return Version{}, err
	}
	ix, err := vs.journal.readIndex()
	if err != nil {
		return Version{}, err
	}
	e, err := ix.find(ref)
	if err != nil {
		return Version{}, err
	}
	v, err := vs.version(ix, e)
	v.Name = cmp.Or(ref.Name, v.Name)
	return v, err
}

// List gives all versions, the oldest first. For those whose manifest cannot be read it gives what index.json says, and the errors.
func (vs *Versions) List() ([]Version, error) {
	ix, err := vs.journal.readIndex()
	if err != nil {
		return nil, err
	}
	var list []Version
	var errs []error
	for _, e := range ix.sorted() {
		v, err := vs.version(ix, e)
		list, errs = append(list, v), append(errs, err)
	}
	return list, errors.Join(errs...)
}

// version reads what a version is.
func (vs *Versions) version(ix *index, e *entry) (Version, error) {
	v := Version{
		Digest: e.desc.Digest, Name: e.name, Aliases: ix.aliasesOf(e.desc.Digest), Source: e.source, Added: e.added,
		blobs: vs.path(blobsFolder, string(digest.SHA256)), desc: e.desc,
	}
	if info, err := os.Stat(vs.path(usedFolder, e.desc.Digest.Encoded())); err == nil {
		v.Used = info.ModTime()
	}
	wrong := func(err error) (Version, error) {
		return v, fmt.Errorf("version %s of %s: %w", e.desc.Digest, e.name, err)
	}
	data, err := vs.blobs.readBlob(e.desc.Digest, maxManifestBytes)
	if err != nil {
		return wrong(err)
	}
	if err := v.read(data); err != nil {
		return wrong(err)
	}
	config, err := vs.blobs.readBlob(v.manifest.Config.Digest, maxManifestBytes)
	if err != nil {
		return wrong(err)
	}
	v.Facts, v.Created = factsOf(v.manifest.Config.MediaType, config)
	if v.Record, err = vs.record(v.Files); err != nil {
		return wrong(err)
	}
	v.Files = slices.DeleteFunc(v.Files, func(f File) bool { return f.Role == recorded })
	v.folder = vs.view(&v)
	return v, nil
}

// read takes in what the manifest says.
func (v *Version) read(manifest []byte) (err error) {
	if v.manifest, err = parseManifest(manifest); err != nil {
		return err
	}
	if v.Files, err = filesOf(v.manifest); err != nil {
		return err
	}
	for _, f := range v.Files {
		v.Size += f.Size
	}
	return nil
}

// record reads the record among the files, if there is one.
func (vs *Versions) record(files []File) (rec Record, err error) {
	i := slices.IndexFunc(files, func(f File) bool { return f.Role == recorded })
	if i < 0 {
		return rec, nil
	}
	data, err := vs.blobs.readBlob(files[i].Digest, maxRecordBytes)
	if err != nil {
		return rec, err
	}
	if err := json.Unmarshal(data, &rec); err != nil {
		return rec, fmt.Errorf("%w: its record: %w", ErrFormat, err)
	}
	return rec, nil
}

// readBlob reads a small blob, and compares its digest.
func (b *blobs) readBlob(d digest.Digest, limit int64) ([]byte, error) {
	if err := checkDigest(d); err != nil {
		return nil, err
	}
	data, err := readSmall(b.blobPath(d), limit)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s is missing", ErrCorrupt, d)
	}
	if err != nil {
		return nil, err
	}
	if got := digest.FromBytes(data); got != d {
		return nil, fmt.Errorf("%w: the bytes of %s have the digest %s", ErrCorrupt, d, got)
	}
	return data, nil
}

// view gives the folder of links by name, and makes it where it is not there. It appears whole: split GGUF files and what
// lies beside a classical model are found by their names. Empty where the folder cannot be made, as on a disk that is
// read only: then a model in one file is opened by its digest.
func (vs *Versions) view(v *Version) string {
	path := vs.path(viewsFolder, v.Digest.Encoded())
	if isThere(path) {
		return path
	}
	if err := os.MkdirAll(vs.path(viewsFolder), 0o755); err != nil {
		return ""
	}
	folder, err := os.MkdirTemp(vs.path(viewsFolder), newPrefix+"*")
	if err != nil {
		return ""
	}
	defer func() { _ = os.RemoveAll(folder) }() // under its own name it stays
	if err := os.Chmod(folder, 0o755); err != nil {
		return ""
	}
	for _, f := range v.Files {
		target := filepath.Join("..", "..", blobsFolder, f.Digest.Algorithm().String(), f.Digest.Encoded())
		if err := os.Symlink(target, filepath.Join(folder, f.Name)); err != nil {
			return ""
		}
	}
	if err := os.Rename(folder, path); err != nil && !isThere(path) {
		return ""
	}
	return path
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Held is a version that this process uses: its files are not removed until it is released or the process ends.
type Held struct {
	Version
	lease *lease
}

// Release lets the version be removed.
func (h *Held) Release() error { return h.lease.Close() }

// Load finds a version, keeps it from being removed, and checks its files: the bytes of each are compared with its digest
// once, and again only when the file's size, time or inode has changed. ErrCorrupt names what is wrong.
func (vs *Versions) Load(ctx context.Context, text string, progress Progress) (*Held, error) {
	v, err := vs.Resolve(text)
	if err != nil {
		return nil, err
	}
	held, err := vs.hold(ctx, v)
	if err != nil {
		return nil, err
	}
	if err := vs.check(ctx, v, false, progress); err != nil {
		return nil, errors.Join(err, held.Release())
	}
	vs.touch(v.Digest)
	return held, nil
}

// hold announces the use of a version, and makes sure that it was not removed meanwhile.
func (vs *Versions) hold(ctx context.Context, v Version) (*Held, error) {
	l, err := vs.blobs.newLease(ctx, v.digests()...)
	if err != nil {
		return nil, err
	}
	ix, err := vs.journal.readIndex()
	if err == nil {
		if _, ok := ix.entries[v.Digest]; !ok {
			err = fmt.Errorf("%w: %s was removed just now", ErrNotFound, v.Digest)
		}
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &Held{v, l}, nil
}

// digests are those of all blobs of a version.
func (v *Version) digests() []digest.Digest {
	list := []digest.Digest{v.Digest, v.manifest.Config.Digest}
	for _, layer := range v.manifest.Layers {
		list = append(list, layer.Digest)
	}
	return list
}

// Verify reads all files of a version and compares their digests, whatever is remembered of them.
func (vs *Versions) Verify(ctx context.Context, v Version, progress Progress) error {
	return vs.check(ctx, v, true, progress)
}

func (vs *Versions) check(ctx context.Context, v Version, force bool, progress Progress) error {
	if progress == nil {
		progress = func(int64, int64) {}
	}
	blobs := append([]ocispec.Descriptor{v.manifest.Config, v.desc}, v.manifest.Layers...)
	var total, done int64
	for _, b := range blobs {
		total += b.Size
	}
	var errs []error
	for _, b := range blobs {
		before := done
		err := vs.blobs.checkBlob(ctx, b.Digest, b.Size, force, func(n int64) { done += n; progress(done, total) })
		done = before + b.Size
		if err != nil && !errors.Is(err, ErrCorrupt) {
			return err
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s: %w; pull or import the model again, which replaces what is corrupt", v.Name, err)
	}
	return nil
}

// touch notes that a version is used now. Its order among others decides what the cache evicts first.
func (vs *Versions) touch(d digest.Digest) {
	path := vs.path(usedFolder, d.Encoded())
	now := vs.now()
	if err := os.Chtimes(path, now, now); errors.Is(err, fs.ErrNotExist) {
		if f, err := os.Create(filepath.Clean(path)); err == nil {
			_ = f.Close()
			_ = os.Chtimes(path, now, now)
		}
	}
}
