package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Source is a file that becomes part of a version.
type Source struct {
	Role Role
	Path string
	Name string // under which the version has it; empty: the path's
}

// Import is a version to be made.
type Import struct {
	Name  string // NAME:TAG, or NAME for NAME:latest
	Files []Source
	Facts Facts
	Record
	Created  *time.Time // nil: it is not said, so that the same files give the same version on every machine
	From     string     // where the files were pulled from; empty: they are this machine's own
	Progress Progress
}

// Import copies files into a new version and points an alias at it. The same files and record give the same version
// again. Nothing is visible before all is on disk; blobs that a process leaves behind that is killed before are
// removed by Collect.
func (r *Registry) Import(ctx context.Context, im Import) (Version, error) {
	ref, err := ParseRef(im.Name)
	if err != nil {
		return Version{}, err
	}
	if ref.Digest != "" {
		return Version{}, fmt.Errorf("%s is a digest, which follows from the files; give NAME:TAG", im.Name)
	}
	if err := im.checkFiles(); err != nil {
		return Version{}, err
	}
	in, err := r.newIngest(ctx)
	if err != nil {
		return Version{}, err
	}
	defer in.Close()
	e, err := in.importAll(ctx, ref.Name, &im)
	if err != nil {
		return Version{}, fmt.Errorf("import %s: %w", im.Name, err)
	}
	return r.finish(ctx, in, e, ref)
}

// checkFiles refuses what the version could not hold, before anything is copied.
func (im *Import) checkFiles() error {
	taken := make(map[string]bool)
	weights := 0
	for i, f := range im.Files {
		if f.Name == "" {
			im.Files[i].Name = filepath.Base(f.Path)
		}
		name := im.Files[i].Name
		clean := fileName(ocispec.Descriptor{Annotations: map[string]string{annotationFilepath: name}})
		switch {
		case clean != name:
			return fmt.Errorf("a file of a model cannot be called %.100q", name)
		case taken[name]:
			return fmt.Errorf("two files of a model are called %s; rename one", name)
		case !slices.Contains(roles, f.Role):
			return fmt.Errorf("%s has the role %q; there are %v", name, f.Role, roles)
		case f.Role == Weights:
			weights++
		}
		taken[name] = true
	}
	if weights == 0 {
		return errors.New("a version needs weights")
	}
	return nil
}

func (in *ingest) importAll(ctx context.Context, name string, im *Import) (*entry, error) {
	var total, done int64
	for _, f := range im.Files {
		info, err := os.Stat(f.Path)
		if err != nil {
			return nil, err
		}
		if !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%s is not a file", f.Path)
		}
		total += info.Size()
	}
	count := func(n int64) {
		done += n
		if im.Progress != nil {
			im.Progress(done, total)
		}
	}
	files := make([]File, 0, len(im.Files)+1)
	for _, f := range im.Files {
		d, size, err := in.addFile(ctx, f.Path, count)
		if err != nil {
			return nil, err
		}
		files = append(files, File{Role: f.Role, Name: f.Name, Digest: d, Size: size})
	}
	return in.seal(ctx, name, files, im)
}

func (in *ingest) addFile(ctx context.Context, path string, done func(int64)) (digest.Digest, int64, error) {
	f, err := openRegular(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	return in.add(ctx, io.Reader(f), done)
}

// seal makes manifest, configuration and record of files that are blobs.
func (in *ingest) seal(ctx context.Context, name string, files []File, im *Import) (*entry, error) {
	rec, err := json.Marshal(im.Record)
	if err != nil {
		return nil, fmt.Errorf("the record: %w", err)
	}
	if len(rec) > maxRecordBytes {
		return nil, fmt.Errorf("the record has %d bytes; %d are the most", len(rec), maxRecordBytes)
	}
	if string(rec) != "{}" {
		if err := in.addBytes(ctx, rec); err != nil {
			return nil, err
		}
		files = append(files, File{Role: recorded, Name: "weir.json", Digest: digest.FromBytes(rec), Size: int64(len(rec))})
	}
	manifest, config, err := newManifest(name, files, im.Facts, im.Record, im.Created)
	if err != nil {
		return nil, err
	}
	for _, data := range [][]byte{config, manifest} {
		if err := in.addBytes(ctx, data); err != nil {
			return nil, err
		}
	}
	return &entry{
		desc: ocispec.Descriptor{
			MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromBytes(manifest), Size: int64(len(manifest)), ArtifactType: typeModelPack,
		},
		name: name, source: im.From,
	}, nil
}
