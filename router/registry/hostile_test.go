package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"weir/internal/reference"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// hostile is a registry that answers as its test wants.
type hostile struct {
	*httptest.Server
	manifest []byte
	blobs    map[digest.Digest][]byte
	more     map[digest.Digest]int // bytes that a blob has behind those that it should have
}

func newHostile(t *testing.T) *hostile {
	t.Helper()
	h := &hostile{blobs: map[digest.Digest][]byte{}, more: map[digest.Digest]int{}}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, id, isBlob := strings.Cut(r.URL.Path, "/blobs/")
		if !isBlob {
			w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
			w.Header().Set("Docker-Content-Digest", digest.FromBytes(h.manifest).String())
			w.Header().Set("Content-Length", strconv.Itoa(len(h.manifest)))
			_, _ = w.Write(h.manifest)
			return
		}
		data, ok := h.blobs[digest.Digest(id)]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = w.Write(data)
		for n := h.more[digest.Digest(id)]; n > 0; n -= 1 << 16 { // an endless body, in chunks
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *hostile) layer(data, name string) ocispec.Descriptor {
	d := digest.FromString(data)
	h.blobs[d] = []byte(data)
	desc := ocispec.Descriptor{MediaType: "application/vnd.cncf.model.weight.v1.raw", Digest: d, Size: int64(len(data))}
	if name != "" {
		desc.Annotations = map[string]string{annotationFilepath: name}
	}
	return desc
}

func (h *hostile) offer(t *testing.T, layers ...ocispec.Descriptor) {
	t.Helper()
	config := h.layer("{}", "")
	config.MediaType = typeModelPackConfig
	data, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: typeModelPack, Config: config, Layers: layers,
	})
	if err != nil {
		t.Fatal(err)
	}
	h.manifest = data
}

func (h *hostile) pull(t *testing.T, r *Registry) (Version, error) {
	t.Helper()
	return r.Pull(t.Context(), Pull{Reference: strings.TrimPrefix(h.URL, "http://") + "/team/chat:v1", Name: "chat"})
}

// A registry that names files in other folders writes none there: every file of a version lies in its own folder, under a
// name of its own.
func TestNamesOfHostileLayers(t *testing.T) {
	h := newHostile(t)
	names := []string{
		"../../../../escape", "/etc/escape", `..\..\escape`, "..", ".", "", ".hidden", "a/../../escape", "nul\x00byte", "new\nline", strings.Repeat("long", 100), "same", "same",
	}
	var layers []ocispec.Descriptor
	for i, name := range names {
		layers = append(layers, h.layer(fmt.Sprint("weights ", i), name))
	}
	h.offer(t, layers...)
	folder := t.TempDir()
	r := open(t, filepath.Join(folder, "deep", "models"))
	v, err := h.pull(t, r)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for i, f := range v.Files {
		if filepath.Base(f.Name) != f.Name || strings.HasPrefix(f.Name, ".") || strings.ContainsAny(f.Name, "\\/\x00\n") || seen[f.Name] {
			t.Errorf("%q became %q", names[i], f.Name)
		}
		seen[f.Name] = true
		if target, err := filepath.EvalSymlinks(filepath.Join(v.folder, f.Name)); err != nil || !strings.HasPrefix(target, folder) {
			t.Errorf("%q leads to %s, %v", f.Name, target, err)
		}
	}
	_ = filepath.WalkDir(folder, func(path string, _ os.DirEntry, _ error) error {
		if strings.Contains(filepath.Base(path), "escape") && !strings.HasPrefix(path, v.folder) {
			t.Errorf("a file was written to %s", path)
		}
		return nil
	})
}

// What a registry sends too much of, or otherwise than it said, is refused, and nothing of it is there afterwards.
func TestHostileRegistries(t *testing.T) {
	for _, c := range []struct {
		name   string
		offer  func(t *testing.T, h *hostile)
		refuse string
	}{
		{"a manifest without an end", func(t *testing.T, h *hostile) {
			h.offer(t, h.layer("w", "w.gguf"))
			h.manifest = append(h.manifest[:len(h.manifest)-1], append([]byte(`,"annotations":{"a":"`), append([]byte(strings.Repeat("x", maxManifestBytes+1)), `"}}`...)...)...)
		}, ""},
		{"thousands of files", func(t *testing.T, h *hostile) {
			layer := h.layer("w", "w.gguf")
			layers := make([]ocispec.Descriptor, maxFiles+1)
			for i := range layers {
				layers[i] = layer
			}
			h.offer(t, layers...)
		}, "lists 1025 files"},
		{"an index of an index", func(_ *testing.T, h *hostile) {
			h.manifest = fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{"mediaType":"application/vnd.oci.image.index.v1+json","digest":%q,"size":9}]}`,
				digest.FromString("itself"))
		}, ""},
		{"an index of thousands", func(_ *testing.T, h *hostile) {
			one := fmt.Sprintf(`{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":%q,"size":9}`, digest.FromString("x"))
			h.manifest = fmt.Appendf(nil, `{"schemaVersion":2,"manifests":[%s]}`, strings.Join(append(make([]string, 0), strings.Split(strings.Repeat(one+"|", 9999)+one, "|")...), ","))
		}, "index of 10000 manifests"},
		{"other bytes than the digest says", func(t *testing.T, h *hostile) {
			l := h.layer("weights", "w.gguf")
			h.offer(t, l)
			h.blobs[l.Digest] = []byte("weirdos")
		}, "checksum"},
		{"a body without an end", func(t *testing.T, h *hostile) {
			l := h.layer("weights", "w.gguf")
			h.offer(t, l)
			h.more[l.Digest] = 1 << 40
		}, ""},
		{"fewer bytes than it says", func(t *testing.T, h *hostile) {
			l := h.layer("weights", "w.gguf")
			l.Size = 1 << 40
			h.offer(t, l)
		}, ""},
		{"a negative size", func(t *testing.T, h *hostile) {
			l := h.layer("weights", "w.gguf")
			l.Size = -1
			h.offer(t, l)
		}, "has -1 bytes"},
		{"a digest that is a path", func(t *testing.T, h *hostile) {
			l := h.layer("weights", "w.gguf")
			l.Digest = "sha256:../../../../etc/passwd"
			h.offer(t, l)
		}, "digest"},
		{"an archive, which may be a bomb", func(t *testing.T, h *hostile) {
			l := h.layer("weights", "w.tar")
			l.MediaType = "application/vnd.cncf.model.weight.v1.tar+gzip"
			h.offer(t, l)
		}, "archive"},
		{"JSON that is none", func(_ *testing.T, h *hostile) { h.manifest = []byte(`{"layers":`) }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHostile(t)
			c.offer(t, h)
			r := open(t, t.TempDir())
			if _, err := h.pull(t, r); err == nil || !strings.Contains(err.Error(), c.refuse) {
				t.Fatalf("%v, want %q", err, c.refuse)
			}
			if _, err := r.Resolve("chat"); !errors.Is(err, ErrNotFound) {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// Processes that write at once leave one of their versions, whole.
func TestConcurrentWritersOfOneName(t *testing.T) {
	reference.Slow(t)
	folder := t.TempDir()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			r := open(t, folder)
			for n := range 5 {
				if _, err := r.Import(t.Context(), Import{Name: "chat:prod", Files: []Source{{Role: Weights, Path: write(t, "w.gguf", fmt.Sprint("weights ", i, n))}}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	r := open(t, folder)
	held, err := r.Load(t.Context(), "chat:prod", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.Verify(t.Context(), held.Version, nil), held.Release()); err != nil {
		t.Error(err)
	}
	if list, err := r.List(); err != nil || len(list) != 40 {
		t.Errorf("%d versions, %v", len(list), err)
	}
}
