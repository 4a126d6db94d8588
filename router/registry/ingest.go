package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/opencontainers/go-digest"

	"weir/internal/disk"
)

// ingest brings the blobs of one version in. None is collected before the version is in index.json, or the ingest is closed.
type ingest struct {
	registry *Registry
	lease    *lease
}

func (r *Registry) newIngest(ctx context.Context) (*ingest, error) {
	l, err := r.blobs.newLease(ctx)
	if err != nil {
		return nil, err
	}
	return &ingest{r, l}, nil
}

func (in *ingest) Close() error { return in.lease.Close() }

// add copies a file into a blob and gives its digest and size.
func (in *ingest) add(ctx context.Context, src io.Reader, done func(int64)) (digest.Digest, int64, error) {
	f, err := in.create()
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = os.Remove(f.Name()) }() // as a blob it stays
	digester := digest.SHA256.Digester()
	var size int64
	err = copyCounted(ctx, io.MultiWriter(f, digester.Hash()), src, func(n int64) { size += n; done(n) })
	if err == nil {
		err = in.place(ctx, f, digester.Digest())
	}
	return digester.Digest(), size, errors.Join(err, f.Close())
}

// create makes a file with a lock, which tells Collect that somebody is still writing. Before it has the lock, another process may take the
// file for one that a dead process has left, and remove it: then there is another one.
func (in *ingest) create() (*os.File, error) {
	for {
		f, err := disk.CreateTemp(in.registry.path(ingestFolder), "import-")
		if err != nil {
			return nil, err
		}
		locked, err := disk.TryLock(f, true)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if _, err := os.Lstat(f.Name()); locked && err == nil {
			return f, nil
		}
		_ = f.Close()
	}
}

// addBytes makes a small blob.
func (in *ingest) addBytes(ctx context.Context, data []byte) error {
	_, _, err := in.add(ctx, bytes.NewReader(data), func(int64) {})
	return err
}

// place makes a file whose digest is known a blob: synced before it gets its name, so that a blob is whole whenever the
// machine stops. It takes the place of a blob with that digest: the one that is there may be corrupt.
func (in *ingest) place(ctx context.Context, f *os.File, d digest.Digest) error {
	if err := errors.Join(f.Chmod(0o444), f.Sync()); err != nil {
		return err
	}
	if err := in.lease.add(ctx, d); err != nil {
		return err
	}
	r := in.registry
	if err := os.Rename(f.Name(), r.blobPath(d)); err != nil {
		return err
	}
	if err := disk.SyncFolder(r.path(blobsFolder, string(digest.SHA256))); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	r.blobs.remember(d, info)
	return nil
}

// has announces the use of a blob and reports whether it is here, with the right bytes.
func (in *ingest) has(ctx context.Context, d digest.Digest, size int64) (bool, error) {
	if err := in.lease.add(ctx, d); err != nil {
		return false, err
	}
	err := in.registry.blobs.checkBlob(ctx, d, size, false, func(int64) {})
	if errors.Is(err, ErrCorrupt) {
		return false, nil
	}
	return err == nil, err
}

// publish makes a version, whose blobs are all here, visible under an alias, in one step.
func (in *ingest) publish(ctx context.Context, e *entry, ref Ref) error {
	r := in.registry
	err := r.commit(ctx, func(ix *index) error {
		d := e.desc.Digest
		if old, ok := ix.entries[d]; ok {
			if old.source == "" {
				e.source = "" // what was imported stays imported: it may be nowhere else
			}
		} else {
			e.added = r.now()
			r.change(ix, Change{Action: "model.add", Object: e.name, To: string(d), Source: e.source})
		}
		if old, ok := ix.entries[d]; ok {
			old.source = e.source
		} else {
			ix.entries[d] = e
		}
		if ref.Tag != "" {
			r.move(ix, ref, d)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("add %s: %w", e.name, err)
	}
	r.touch(e.desc.Digest)
	return nil
}

// Tag points an alias NAME:TAG at the version that a reference names, in one step. Requests in other processes find the
// old version before it and the new one after it, and never none.
func (r *Registry) Tag(ctx context.Context, version, alias string) (Version, error) {
	from, err := ParseRef(version)
	if err != nil {
		return Version{}, err
	}
	to, err := ParseRef(alias)
	if err != nil {
		return Version{}, err
	}
	if to.Digest != "" {
		return Version{}, fmt.Errorf("%s is a digest, which never moves; give NAME:TAG", alias)
	}
	var ix *index
	var found *entry
	err = r.commit(ctx, func(next *index) error {
		ix = next
		if found, err = next.find(from); err != nil {
			return err
		}
		r.move(next, to, found.desc.Digest)
		return nil
	})
	if found == nil {
		return Version{}, err
	}
	v, readErr := r.version(ix, found)
	v.Name = to.Name
	return v, errors.Join(err, readErr)
}
