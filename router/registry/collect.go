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
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"weir/internal/disk"
)

// Removed says what was given up and how much disk that freed.
type Removed struct {
	Aliases  []string        `json:"aliases,omitempty"`
	Versions []digest.Digest `json:"versions,omitempty"`
	Kept     []digest.Digest `json:"in_use,omitempty"` // versions without alias that running processes use
	Blobs    int             `json:"blobs"`
	Bytes    int64           `json:"bytes"`
}

// Collector removes versions, and what no version needs.
type Collector struct {
	*layout
	blobs    *blobs
	journal  *Journal
	versions *Versions
}

// Remove gives up an alias, and with its last alias the version. A reference by digest gives up a version that no alias
// has. The files that no other version has are removed, unless a running process uses them: then Collect removes them later.
func (c *Collector) Remove(ctx context.Context, text string) (Removed, error) {
	ref, err := ParseRef(text)
	if err != nil {
		return Removed{}, err
	}
	var out Removed
	err = c.journal.commit(ctx, func(ix *index) error {
		e, err := ix.find(ref)
		if err != nil {
			return err
		}
		d := e.desc.Digest
		if ref.Digest != "" {
			if aliases := ix.aliasesOf(d); len(aliases) > 0 {
				return fmt.Errorf("%s is what %s point at; remove or move these first", d, strings.Join(aliases, ", "))
			}
		} else {
			delete(ix.aliases, ref.String())
			out.Aliases = []string{ref.String()}
			c.journal.change(ix, Change{Action: "model.untag", Object: ref.String(), From: string(d)})
		}
		used, err := c.blobs.leased()
		if err != nil {
			return err
		}
		switch {
		case len(ix.aliasesOf(d)) > 0:
		case used[d]:
			out.Kept = []digest.Digest{d}
		default:
			c.drop(ix, e, &out)
		}
		return nil
	})
	if _, late := errors.AsType[*AuditError](err); err != nil && !late {
		return Removed{}, err
	}
	return out, errors.Join(err, c.sweep(ctx, &out))
}

// drop takes a version out of the index.
func (c *Collector) drop(ix *index, e *entry, out *Removed) {
	d := e.desc.Digest
	delete(ix.entries, d)
	for _, alias := range ix.aliasesOf(d) {
		delete(ix.aliases, alias)
		out.Aliases = append(out.Aliases, alias)
	}
	out.Versions = append(out.Versions, d)
	c.journal.change(ix, Change{Action: "model.remove", Object: e.name, From: string(d), Source: e.source})
}

// Collect gives up the versions that no alias has and no running process uses, and removes the files that no version has.
func (c *Collector) Collect(ctx context.Context) (Removed, error) {
	var out Removed
	err := c.journal.commit(ctx, func(ix *index) error {
		used, err := c.blobs.leased()
		if err != nil {
			return err
		}
		for _, e := range ix.sorted() {
			d := e.desc.Digest
			switch {
			case len(ix.aliasesOf(d)) > 0:
			case used[d]:
				out.Kept = append(out.Kept, d)
			default:
				c.drop(ix, e, &out)
			}
		}
		return nil
	})
	if _, late := errors.AsType[*AuditError](err); err != nil && !late {
		return out, err
	}
	return out, errors.Join(err, c.sweep(ctx, &out))
}

// Evict makes room for coming bytes: it gives up versions that were pulled, the least recently used first, until what
// stays fits in limit. Imported versions, those that processes use, and those that keep names stay. ErrInUse where that
// is not enough; 0 is no limit.
func (c *Collector) Evict(ctx context.Context, limit, coming int64, keep []string) (Removed, error) {
	var out Removed
	if limit <= 0 {
		return out, nil
	}
	if coming > limit {
		return out, fmt.Errorf("%w: the model has %d bytes, and pulled models may have %d together (--models-cache-bytes)", ErrInUse, coming, limit)
	}
	var total int64
	err := c.journal.commit(ctx, func(ix *index) error {
		used, err := c.blobs.leased()
		if err != nil {
			return err
		}
		pulled, err := c.pulled(ix, &total)
		if err != nil {
			return err
		}
		for _, v := range pulled {
			if total+coming <= limit {
				return nil
			}
			if used[v.Digest] || slices.ContainsFunc(v.Aliases, func(a string) bool { return slices.Contains(keep, a) }) {
				continue
			}
			c.drop(ix, ix.entries[v.Digest], &out)
			total -= v.Size
		}
		return nil
	})
	if _, late := errors.AsType[*AuditError](err); err != nil && !late {
		return out, err
	}
	err = errors.Join(err, c.sweep(ctx, &out))
	if err == nil && total+coming > limit {
		err = fmt.Errorf("%w: pulled models have %d bytes that are in use or preloaded, the new one has %d, and %d are allowed together (--models-cache-bytes)",
			ErrInUse, total, coming, limit)
	}
	return out, err
}

// pulled are the versions that can be had again, the least recently used first, and the sum of their sizes.
func (c *Collector) pulled(ix *index, total *int64) ([]Version, error) {
	var list []Version
	for _, e := range ix.sorted() {
		if e.source == "" {
			continue
		}
		v, err := c.versions.version(ix, e)
		if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrFormat) {
			return nil, err
		}
		list = append(list, v)
		*total += v.Size
	}
	slices.SortStableFunc(list, func(a, b Version) int { return cmp.Or(a.Used.Compare(b.Used), a.Added.Compare(b.Added)) })
	return list, nil
}

// partAge is how long the beginning of a broken download waits to be resumed.
const partAge = 7 * 24 * time.Hour

// sweep removes the files that neither a version nor a running process has.
func (c *Collector) sweep(ctx context.Context, out *Removed) error {
	unlock, err := c.lock(ctx, true)
	if err != nil {
		return err
	}
	defer unlock()
	ix, err := c.journal.readIndex()
	if err != nil {
		return err
	}
	live, err := c.blobs.leased()
	if err != nil {
		return err
	}
	if err := c.mark(ix, live); err != nil {
		return fmt.Errorf("nothing is removed from disk: %w", err)
	}
	var errs []error
	errs = append(errs, c.sweepFolder(filepath.Join(blobsFolder, string(digest.SHA256)), func(e fs.DirEntry) error {
		return c.sweepBlob(e, live, out)
	}))
	for _, folder := range []string{verifiedFolder, usedFolder, viewsFolder, signaturesFolder} {
		errs = append(errs, c.sweepFolder(folder, func(e fs.DirEntry) error {
			if live[digest.NewDigestFromEncoded(digest.SHA256, e.Name())] || c.isFresh(e) {
				return nil
			}
			return os.RemoveAll(c.path(folder, e.Name()))
		}))
	}
	errs = append(errs, c.sweepFolder(ingestFolder, c.sweepIngest))
	return errors.Join(errs...)
}

func (c *Collector) sweepFolder(folder string, each func(fs.DirEntry) error) error {
	entries, err := os.ReadDir(c.path(folder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var errs []error
	for _, e := range entries {
		if err := each(e); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (c *Collector) sweepBlob(e fs.DirEntry, live map[digest.Digest]bool, out *Removed) error {
	if live[digest.NewDigestFromEncoded(digest.SHA256, e.Name())] {
		return nil
	}
	info, err := e.Info()
	if err != nil {
		return err
	}
	if err := os.Remove(c.path(blobsFolder, string(digest.SHA256), e.Name())); err != nil {
		return err
	}
	out.Blobs++
	out.Bytes += info.Size()
	return nil
}

// isFresh reports whether a file or folder has just been begun by somebody who will give it its name.
func (c *Collector) isFresh(e fs.DirEntry) bool {
	info, err := e.Info()
	return err == nil && strings.HasPrefix(e.Name(), newPrefix) && c.now().Sub(info.ModTime()) < time.Hour
}

// sweepIngest removes what is not being written any more: copies at once, for they cannot be gone on with, and beginnings of
// downloads when they are old.
func (c *Collector) sweepIngest(e fs.DirEntry) error {
	path := c.path(ingestFolder, e.Name())
	info, err := e.Info()
	if err != nil {
		return err
	}
	if strings.HasPrefix(e.Name(), "pull-") {
		if c.now().Sub(info.ModTime()) < partAge {
			return nil
		}
	}
	f, err := disk.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() // with the lock, which somebody who has just begun the file waits for
	if dead, err := disk.TryLock(f, false); err != nil || !dead {
		return err
	}
	return os.RemoveAll(path)
}

// mark adds all blobs that the index reaches. Manifests of other tools are followed, too; one that cannot be read stops
// the removal of anything, for it is not known what it needs.
func (c *Collector) mark(ix *index, live map[digest.Digest]bool) error {
	todo := slices.Clone(ix.foreign)
	for _, e := range ix.entries {
		todo = append(todo, e.desc)
	}
	for len(todo) > 0 {
		desc := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if live[desc.Digest] && !isManifest(desc.MediaType) {
			continue
		}
		live[desc.Digest] = true
		if !isManifest(desc.MediaType) && desc.MediaType != ocispec.MediaTypeImageIndex {
			continue
		}
		data, err := c.blobs.readBlob(desc.Digest, maxManifestBytes)
		if err != nil {
			return err
		}
		var doc struct {
			Config    ocispec.Descriptor
			Layers    []ocispec.Descriptor
			Manifests []ocispec.Descriptor
		}
		if err := json.Unmarshal(data, &doc); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrFormat, desc.Digest, err)
		}
		live[doc.Config.Digest] = true
		for _, layer := range doc.Layers {
			live[layer.Digest] = true
		}
		todo = append(todo, doc.Manifests...)
	}
	return nil
}
