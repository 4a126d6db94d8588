package main

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	annotationCreated  = "org.opencontainers.image.created"
	annotationVersion  = "org.opencontainers.image.version"
	annotationRevision = "org.opencontainers.image.revision"
	annotationRefName  = "org.opencontainers.image.ref.name"
)

// image writes an OCI image layout, in one tar, of an index with an image for each binary, as the Containerfile says.
func (r *release) image(binaries []built) error {
	text, err := os.ReadFile(filepath.Join(r.source, "configs", "kubernetes", "Containerfile"))
	if err != nil {
		return err
	}
	recipe, err := parseContainerfile(text)
	if err != nil {
		return fmt.Errorf("Containerfile: %w", err)
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, b := range binaries {
		one, err := r.imageOf(b, recipe)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: one, Descriptor: v1.Descriptor{
			MediaType: types.OCIManifestSchema1, Platform: &v1.Platform{OS: b.system, Architecture: b.arch}}})
	}
	index = mutate.Annotations(index, r.annotations()).(v1.ImageIndex)
	folder := filepath.Join(r.work, "image")
	to, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	// A tag has no plus sign.
	tag := strings.ReplaceAll(r.number, "+", "-")
	if err := to.AppendIndex(index, layout.WithAnnotations(map[string]string{annotationRefName: tag})); err != nil {
		return err
	}
	return r.tarFolder(folder, "weir_"+r.number+"_image.tar")
}

func (r *release) annotations() map[string]string {
	return map[string]string{annotationCreated: r.at.Format("2006-01-02T15:04:05Z"), annotationVersion: r.number, annotationRevision: r.commit}
}

func (r *release) imageOf(b built, recipe recipe) (v1.Image, error) {
	var copies []file
	for _, c := range recipe.copies {
		f, err := r.copied(b, c)
		if err != nil {
			return nil, err
		}
		copies = append(copies, f)
	}
	compressed, err := tarGzip(copies, r.at)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(compressed)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	config := recipe.config
	config.Labels = r.annotations()
	maps.Copy(config.Labels, recipe.config.Labels)
	base, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		Architecture: b.arch, OS: b.system, Created: v1.Time{Time: r.at}, Config: config, RootFS: v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, err
	}
	base = mutate.ConfigMediaType(mutate.MediaType(base, types.OCIManifestSchema1), types.OCIConfigJSON)
	return mutate.Append(base, mutate.Addendum{Layer: layer, MediaType: types.OCILayer,
		History: v1.History{Created: v1.Time{Time: r.at}, CreatedBy: "configs/kubernetes/Containerfile"}})
}

// copied is a file of the image: the binary, the certificates of authorities, which a checkout does not have, or one of the checkout.
func (r *release) copied(b built, c copied) (file, error) {
	f := file{name: c.to, mode: 0o644}
	var err error
	switch c.from {
	case "weir":
		f.mode = 0o755
		f.data, err = os.ReadFile(b.path)
	case "ca-certificates.crt":
		f.data = authorities()
	default:
		f.data, err = os.ReadFile(filepath.Join(r.source, filepath.FromSlash(c.from)))
	}
	return f, err
}

// authorities are the certificates that Mozilla trusts without a condition, as PEM.
func authorities() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // to memory
		}
	}
	return b.Bytes()
}

// tarFolder packs a folder's files, in the order of their names.
func (r *release) tarFolder(folder, name string) error {
	var files []file
	err := filepath.WalkDir(folder, func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(at)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(folder, at)
		files = append(files, file{filepath.ToSlash(relative), 0o644, data})
		return err
	})
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := writeTar(&b, files, r.at); err != nil {
		return err
	}
	return r.put(name, b.Bytes())
}
