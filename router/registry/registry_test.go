package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

func open(t *testing.T, dir string) *Registry {
	t.Helper()
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	r.Actor = "test"
	return r
}

// write makes a file and gives its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// imported makes a version with one file of weights.
func imported(t *testing.T, r *Registry, name, weights string) Version {
	t.Helper()
	v, err := r.Import(t.Context(), Import{Name: name, Files: []Source{{Role: Weights, Path: write(t, "model.gguf", weights)}}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func blobsIn(t *testing.T, r *Registry) []string {
	t.Helper()
	entries, err := os.ReadDir(r.path(blobsFolder, "sha256"))
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

func TestImportAndResolve(t *testing.T) {
	r := open(t, filepath.Join(t.TempDir(), "models"))
	if _, err := r.Resolve("chat"); !errors.Is(err, ErrNotFound) {
		t.Fatalf("of an empty folder: %v", err)
	}
	temperature := 0.7
	im := Import{
		Name: "chat:prod",
		Files: []Source{
			{Role: Weights, Path: write(t, "tiny.gguf", "weights")},
			{Role: Template, Path: write(t, "chat.jinja", "{{ x }}")},
		},
		Facts: Facts{Format: "gguf", Architecture: "llama", Parameters: "1.2B", Quantization: "Q4_K_M"},
		Record: Record{
			Sampling: &Sampling{Temperature: &temperature}, Safety: json.RawMessage(`{"deny":["x"]}`),
			Lineage: &Lineage{Source: "https://example.com/m", License: "Apache-2.0"}, Metrics: map[string]float64{"mmlu": 0.5},
			Approval: &Approval{By: "board", At: time.Unix(1e9, 0).UTC()},
		},
	}
	made, err := r.Import(t.Context(), im)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"chat:prod", "chat@prod", "chat@" + string(made.Digest), string(made.Digest), "chat@" + string(made.Digest)[:20]} {
		v, err := r.Resolve(text)
		if err != nil {
			t.Fatal(err)
		}
		if v.Digest != made.Digest || filepath.Base(v.Path()) != "tiny.gguf" || !slices.Equal(v.Aliases, []string{"chat:prod"}) {
			t.Errorf("%s is %+v", text, v)
		}
		if data, err := os.ReadFile(v.Path()); err != nil || string(data) != "weights" {
			t.Errorf("its weights are %q, %v", data, err)
		}
		if data, err := os.ReadFile(v.Paths(Template)[0]); err != nil || string(data) != "{{ x }}" {
			t.Errorf("its template is %q, %v", data, err)
		}
		if v.Facts != im.Facts || *v.Record.Sampling.Temperature != 0.7 || v.Record.Metrics["mmlu"] != 0.5 || v.Record.Approval.By != "board" || string(v.Record.Safety) != `{"deny":["x"]}` {
			t.Errorf("it says %+v, %+v", v.Facts, v.Record)
		}
	}
	// The digest is that of the content: on another machine the same version has it, and another record gives another one.
	im.Name = "other"
	again, err := open(t, t.TempDir()).Import(t.Context(), im)
	if err != nil {
		t.Fatal(err)
	}
	if again.Digest == made.Digest {
		t.Error("the name in the configuration does not count")
	}
	im.Name = "chat:else"
	if again, err = open(t, t.TempDir()).Import(t.Context(), im); err != nil || again.Digest != made.Digest {
		t.Errorf("elsewhere the digest is %s, %v; want %s", again.Digest, err, made.Digest)
	}
	im.Metrics = map[string]float64{"mmlu": 0.6}
	if again, err = r.Import(t.Context(), im); err != nil || again.Digest == made.Digest {
		t.Errorf("with other metrics the digest is the same (%v)", err)
	}
	for text, want := range map[string]string{
		"chat": "has the tags [else prod]", "nobody@" + string(made.Digest): "is a version of chat, not of nobody",
		"sha256:0000000000": "no version here has the digest",
	} {
		if _, err := r.Resolve(text); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// The layout is OCI's, and the types are those of ModelPack.
func TestLayoutIsWhatOtherToolsRead(t *testing.T) {
	r := open(t, t.TempDir())
	v := imported(t, r, "chat:a", "weights")
	if _, err := r.Tag(t.Context(), "chat:a", "chat:b"); err != nil {
		t.Fatal(err)
	}
	var ix ocispec.Index
	data, err := os.ReadFile(r.path("index.json"))
	if err != nil || json.Unmarshal(data, &ix) != nil || ix.SchemaVersion != 2 || ix.MediaType != ocispec.MediaTypeImageIndex || len(ix.Manifests) != 2 {
		t.Fatalf("index.json is %s, %v", data, err)
	}
	for i, want := range []string{"chat:a", "chat:b"} {
		if m := ix.Manifests[i]; m.Annotations[ocispec.AnnotationRefName] != want || m.Digest != v.Digest {
			t.Errorf("descriptor %d is %+v", i, m)
		}
	}
	var m ocispec.Manifest
	data, err = os.ReadFile(r.blobPath(v.Digest))
	if err != nil || json.Unmarshal(data, &m) != nil {
		t.Fatal(err)
	}
	if m.ArtifactType != "application/vnd.cncf.model.manifest.v1+json" || m.Config.MediaType != "application/vnd.cncf.model.config.v1+json" ||
		m.Layers[0].MediaType != "application/vnd.cncf.model.weight.v1.raw" || m.Layers[0].Annotations["org.cncf.model.filepath"] != "model.gguf" {
		t.Errorf("the manifest is %s", data)
	}
	var c modelConfig
	if data, err = os.ReadFile(r.blobPath(m.Config.Digest)); err != nil || json.Unmarshal(data, &c) != nil || c.ModelFS.Type != "layers" || c.ModelFS.DiffIDs[0] != m.Layers[0].Digest {
		t.Errorf("the configuration is %s", data)
	}
}

// place writes a blob as other tools do.
func placeBlob(t *testing.T, r *Registry, mediaType, data string) ocispec.Descriptor {
	t.Helper()
	d := digest.FromString(data)
	if err := r.create(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.blobPath(d), []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	return ocispec.Descriptor{MediaType: mediaType, Digest: d, Size: int64(len(data))}
}

func placeManifest(t *testing.T, r *Registry, name string, m ocispec.Manifest) {
	t.Helper()
	m.Versioned = specs.Versioned{SchemaVersion: 2}
	data, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	desc := placeBlob(t, r, m.MediaType, string(data))
	desc.Annotations = map[string]string{ocispec.AnnotationRefName: name}
	text, err := json.Marshal(ocispec.Index{Versioned: m.Versioned, Manifests: []ocispec.Descriptor{desc}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.path("index.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestForeignManifests(t *testing.T) {
	filepathed := func(d ocispec.Descriptor, name string) ocispec.Descriptor {
		d.Annotations = map[string]string{annotationFilepath: name}
		return d
	}
	for _, c := range []struct {
		name     string
		manifest func(t *testing.T, r *Registry) ocispec.Manifest
		facts    Facts
		path     string
		template bool
		wrong    string
	}{
		{"docker", func(t *testing.T, r *Registry) ocispec.Manifest {
			return ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest,
				Config: placeBlob(t, r, "application/vnd.docker.ai.model.config.v0.1+json",
					`{"config":{"format":"gguf","quantization":"Q4_K_M","parameters":"1.24 B","architecture":"llama","size":"1"},"descriptor":{"created":"2025-01-01T00:00:00Z"}}`),
				Layers: []ocispec.Descriptor{
					placeBlob(t, r, "application/vnd.docker.ai.gguf.v3", "weights"), placeBlob(t, r, "application/vnd.docker.ai.license", "MIT"),
					placeBlob(t, r, "application/vnd.docker.ai.gguf.v3.mmproj", "eyes"), placeBlob(t, r, "application/vnd.docker.ai.chat.template.jinja", "t"),
				}}
		}, Facts{"gguf", "llama", "1.24 B", "Q4_K_M"}, "model.gguf", true, ""},
		{"docker in pieces", func(t *testing.T, r *Registry) ocispec.Manifest {
			return ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest,
				Config: placeBlob(t, r, "application/vnd.docker.ai.model.config.v0.2+json", `{"config":{"format":"gguf","gguf":{"architecture":"qwen2","parameter_count":"7 B"}}}`),
				Layers: []ocispec.Descriptor{placeBlob(t, r, "application/vnd.docker.ai.gguf.v3", "a"), placeBlob(t, r, "application/vnd.docker.ai.gguf.v3", "b")}}
		}, Facts{"gguf", "qwen2", "7 B", ""}, "model-00001-of-00002.gguf", false, ""},
		{"ollama", func(t *testing.T, r *Registry) ocispec.Manifest {
			return ocispec.Manifest{MediaType: "application/vnd.docker.distribution.manifest.v2+json",
				Config: placeBlob(t, r, "application/vnd.docker.container.image.v1+json",
					`{"model_format":"gguf","model_family":"llama","model_families":["llama"],"model_type":"1.2B","file_type":"Q8_0","rootfs":{"type":"layers"}}`),
				Layers: []ocispec.Descriptor{
					placeBlob(t, r, "application/vnd.ollama.image.model", "weights"), placeBlob(t, r, "application/vnd.ollama.image.template", "{{ .Go }}"),
					placeBlob(t, r, "application/vnd.ollama.image.license", "MIT"),
				}}
		}, Facts{"gguf", "llama", "1.2B", "Q8_0"}, "model.gguf", false, ""},
		{"modelpack", func(t *testing.T, r *Registry) ocispec.Manifest {
			return ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest, ArtifactType: typeModelPack,
				Config: placeBlob(t, r, typeModelPackConfig, `{"descriptor":{"createdAt":"2025-01-01T00:00:00Z"},"modelfs":{"type":"layers","diffIds":[]},"config":{"format":"gguf","paramSize":"8b"}}`),
				Layers: []ocispec.Descriptor{
					filepathed(placeBlob(t, r, "application/vnd.cncf.model.weight.v1.raw", "weights"), "deep/../down/w.gguf"),
					filepathed(placeBlob(t, r, "application/vnd.cncf.model.weight.config.v1.raw", "t"), "chat_template.jinja"),
					filepathed(placeBlob(t, r, "application/vnd.cncf.model.doc.v1.raw", "r"), "../../README.md"),
				}}
		}, Facts{Format: "gguf", Parameters: "8b"}, "w.gguf", true, ""},
		{"archive", func(t *testing.T, r *Registry) ocispec.Manifest {
			return ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest, Config: placeBlob(t, r, typeModelPackConfig, `{}`),
				Layers: []ocispec.Descriptor{placeBlob(t, r, "application/vnd.cncf.model.weight.v1.tar", "tar")}}
		}, Facts{}, "", false, "raw layers"},
		{"a container", func(t *testing.T, r *Registry) ocispec.Manifest {
			return ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest, Config: placeBlob(t, r, ocispec.MediaTypeImageConfig, `{}`),
				Layers: []ocispec.Descriptor{placeBlob(t, r, ocispec.MediaTypeImageLayerGzip, "tar")}}
		}, Facts{}, "", false, "none of its 1 files are weights"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := open(t, t.TempDir())
			placeManifest(t, r, "some/model:v1", c.manifest(t, r))
			v, err := r.Resolve("some/model:v1")
			if c.wrong != "" {
				if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.wrong) {
					t.Errorf("%v, want %q", err, c.wrong)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if v.Facts != c.facts || filepath.Base(v.Path()) != c.path || (len(v.Paths(Template)) > 0) != c.template {
				t.Errorf("it is %+v", v)
			}
			for _, f := range v.Files {
				if _, err := os.Stat(filepath.Join(v.folder, f.Name)); err != nil || strings.ContainsAny(f.Name, `/\`) {
					t.Errorf("%+v: %v", f, err)
				}
			}
			if held, err := r.Load(t.Context(), "some/model:v1", nil); err != nil || held.Release() != nil {
				t.Errorf("load: %v", err)
			}
			before := len(blobsIn(t, r))
			if removed, err := r.Collect(t.Context()); err != nil || removed.Blobs != 0 || len(blobsIn(t, r)) != before {
				t.Errorf("Collect removed %+v, %v", removed, err)
			}
		})
	}
}

func TestCorruptBlobs(t *testing.T) {
	r := open(t, t.TempDir())
	v := imported(t, r, "chat", "weights of a model")
	blob := r.blobPath(v.Files[0].Digest)
	damage := func(text string) {
		t.Helper()
		if err := os.Chmod(blob, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(blob, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	load := func() error {
		held, err := r.Load(t.Context(), "chat", nil)
		if err == nil {
			return held.Release()
		}
		return err
	}
	if err := load(); err != nil {
		t.Fatal(err)
	}
	damage("weights of a modem")
	for name, err := range map[string]error{"load": load(), "verify": r.Verify(t.Context(), v, nil)} {
		if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), string(v.Files[0].Digest)) || !strings.Contains(err.Error(), "import the model again") {
			t.Errorf("%s: %v", name, err)
		}
	}
	damage("short")
	if err := load(); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "has 5 bytes") {
		t.Errorf("cut off: %v", err)
	}
	if err := os.Remove(blob); err != nil {
		t.Fatal(err)
	}
	if err := load(); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "is missing") {
		t.Errorf("gone: %v", err)
	}
	imported(t, r, "chat", "weights of a model")
	if err := load(); err != nil {
		t.Errorf("once it is imported again: %v", err)
	}
	// A change that keeps size, time and inode is what remembering cannot see, and verifying can.
	info, err := os.Stat(blob)
	if err != nil {
		t.Fatal(err)
	}
	damage("weights of a modem")
	if err := os.Chtimes(blob, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if err := load(); err != nil {
		t.Errorf("remembered: %v", err)
	}
	if err := r.Verify(t.Context(), v, nil); !errors.Is(err, ErrCorrupt) {
		t.Errorf("verified: %v", err)
	}
	if err := load(); !errors.Is(err, ErrCorrupt) {
		t.Errorf("after it was found corrupt: %v", err)
	}
}

func TestProgressOfChecks(t *testing.T) {
	r := open(t, t.TempDir())
	v := imported(t, r, "chat", strings.Repeat("w", 3<<20))
	var last, of int64
	steps := 0
	if err := r.Verify(t.Context(), v, func(done, total int64) {
		if done < last {
			t.Errorf("from %d to %d", last, done)
		}
		last, of = done, total
		steps++
	}); err != nil || last != of || last < 3<<20 || steps < 4 {
		t.Errorf("%d of %d bytes in %d steps, %v", last, of, steps, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	if err := r.Verify(ctx, v, nil); err == nil || !strings.Contains(err.Error(), "enough") {
		t.Errorf("canceled: %v", err)
	}
}

func TestRemoveAndCollect(t *testing.T) {
	r := open(t, t.TempDir())
	a := imported(t, r, "chat:a", "weights a")
	b := imported(t, r, "chat:b", "weights b")
	if _, err := r.Tag(t.Context(), "chat:a", "chat:prod"); err != nil {
		t.Fatal(err)
	}
	out, err := r.Remove(t.Context(), "chat:a")
	if err != nil || len(out.Versions) != 0 || out.Blobs != 0 {
		t.Fatalf("a version with another alias: %+v, %v", out, err)
	}
	if _, err := r.Remove(t.Context(), string(a.Digest)); err == nil || !strings.Contains(err.Error(), "chat:prod") {
		t.Errorf("by digest, with an alias: %v", err)
	}
	// The alias moves on: the version that it leaves stays for a way back, until it is collected.
	if _, err := r.Tag(t.Context(), "chat:b", "chat:prod"); err != nil {
		t.Fatal(err)
	}
	if v, err := r.Resolve(string(a.Digest)); err != nil || v.Name != "chat" || len(v.Aliases) != 0 {
		t.Errorf("without alias: %+v, %v", v, err)
	}
	if out, err = r.Collect(t.Context()); err != nil || !slices.Equal(out.Versions, []digest.Digest{a.Digest}) || out.Blobs != 3 {
		t.Errorf("collected %+v, %v", out, err)
	}
	if held, err := r.Load(t.Context(), "chat:prod", nil); err != nil || held.Digest != b.Digest || held.Release() != nil {
		t.Errorf("what is left: %v", err)
	}
	for _, alias := range []string{"chat:b", "chat:prod"} {
		if _, err := r.Remove(t.Context(), alias); err != nil {
			t.Fatal(err)
		}
	}
	if left := blobsIn(t, r); len(left) != 0 {
		t.Errorf("left are %v", left)
	}
	if list, err := r.List(); err != nil || len(list) != 0 {
		t.Errorf("listed are %v, %v", list, err)
	}
	if _, err := r.Remove(t.Context(), "chat:b"); !errors.Is(err, ErrNotFound) {
		t.Errorf("twice: %v", err)
	}
}

func TestHeldVersionsStay(t *testing.T) {
	r := open(t, t.TempDir())
	v := imported(t, r, "chat", "weights")
	held, err := r.Load(t.Context(), "chat", nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := r.Remove(t.Context(), "chat")
	if err != nil || len(out.Versions) != 0 || len(out.Kept) != 1 || out.Blobs != 0 {
		t.Fatalf("in use: %+v, %v", out, err)
	}
	if out, err = r.Collect(t.Context()); err != nil || len(out.Kept) != 1 || out.Blobs != 0 {
		t.Fatalf("in use: %+v, %v", out, err)
	}
	if _, err := os.ReadFile(held.Path()); err != nil {
		t.Error(err)
	}
	if err := held.Release(); err != nil {
		t.Fatal(err)
	}
	if out, err = r.Collect(t.Context()); err != nil || !slices.Equal(out.Versions, []digest.Digest{v.Digest}) || out.Bytes == 0 {
		t.Errorf("released: %+v, %v", out, err)
	}
	if leases, err := os.ReadDir(r.path(leasesFolder)); err != nil || len(leases) != 0 {
		t.Errorf("leases %v, %v", leases, err)
	}
}

func TestEvictsTheLeastRecentlyUsed(t *testing.T) {
	r := open(t, t.TempDir())
	clock := time.Unix(1e9, 0)
	r.now = func() time.Time { clock = clock.Add(time.Second); return clock }
	for _, name := range []string{"a", "b", "c", "d"} {
		if _, err := r.Import(t.Context(), Import{Name: name, From: "hub/" + name,
			Files: []Source{{Role: Weights, Path: write(t, "m.gguf", strings.Repeat(name, 1000))}}}); err != nil {
			t.Fatal(err)
		}
	}
	imported(t, r, "mine", strings.Repeat("m", 100000)) // is not the cache's
	held, err := r.Load(t.Context(), "b", nil)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := r.Load(t.Context(), "a", nil); err != nil || again.Release() != nil {
		t.Fatal(err)
	}
	// Oldest use first: c, d, b (in use), a.
	out, err := r.Evict(t.Context(), 4000, 1000, nil)
	if err != nil || !slices.Equal(out.Aliases, []string{"c:latest"}) {
		t.Fatalf("for one more: %+v, %v", out, err)
	}
	if out, err = r.Evict(t.Context(), 3000, 1000, []string{"d:latest"}); err != nil || !slices.Equal(out.Aliases, []string{"a:latest"}) {
		t.Fatalf("d stays: %+v, %v", out, err)
	}
	if out, err = r.Evict(t.Context(), 2000, 2000, nil); !errors.Is(err, ErrInUse) || !slices.Equal(out.Aliases, []string{"d:latest"}) {
		t.Fatalf("b is in use: %+v, %v", out, err)
	}
	if _, err = r.Evict(t.Context(), 2000, 2001, nil); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), "--models-cache-bytes") {
		t.Errorf("too large: %v", err)
	}
	if err := held.Release(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Resolve("mine"); err != nil {
		t.Error(err)
	}
}

func TestChangesAreAudited(t *testing.T) {
	r := open(t, t.TempDir())
	var told []Change
	fail := false
	r.Audit = func(c Change) error {
		if fail {
			return errors.New("the log is full")
		}
		told = append(told, c)
		return nil
	}
	a := imported(t, r, "chat:a", "a")
	b := imported(t, r, "chat:b", "b")
	fail = true
	_, err := r.Tag(t.Context(), "chat:b", "chat:a")
	if _, late := errors.AsType[*AuditError](err); !late {
		t.Fatalf("with a failing log: %v", err)
	}
	if v, err := r.Resolve("chat:a"); err != nil || v.Digest != b.Digest {
		t.Errorf("the alias did not move: %v", err)
	}
	fail = false
	// Another process, later.
	next := open(t, r.Dir())
	next.Audit = r.Audit
	if err := next.Deliver(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range told {
		got = append(got, fmt.Sprint(c.Sequence, " ", c.Action, " ", c.Object, " ", c.Actor))
	}
	want := []string{"1 model.add chat test", "2 model.tag chat:a test", "3 model.add chat test", "4 model.tag chat:b test", "5 model.tag chat:a test"}
	if !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
	if last := told[len(told)-1]; last.From != string(a.Digest) || last.To != string(b.Digest) {
		t.Errorf("the last is %+v", last)
	}
	// A line that a killed process left in halves does not hide what comes after.
	f, err := os.OpenFile(r.path(changesFile), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"sequence":6,"ti`); err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	if _, err := r.Tag(t.Context(), "chat:b", "chat:c"); err != nil {
		t.Fatal(err)
	}
	history, err := r.History()
	if err != nil || len(history) != 6 || history[5].Object != "chat:c" || history[5].Sequence != 6 {
		t.Errorf("history is %+v, %v", history, err)
	}
}

func TestFoldersOfOthersAreRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "thesis.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "thesis.txt") {
		t.Errorf("a folder with other files: %v", err)
	}
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "oci-layout"), []byte(`{"imageLayoutVersion":"9.0"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil {
		t.Error("a layout of another version")
	}
}

func TestWrongImports(t *testing.T) {
	r := open(t, t.TempDir())
	weights := write(t, "model.gguf", "w")
	for _, c := range []struct {
		im   Import
		want string
	}{
		{Import{Name: "chat"}, "needs weights"},
		{Import{Name: "../x", Files: []Source{{Role: Weights, Path: weights}}}, "is no reference"},
		{Import{Name: "sha256:0123456789", Files: []Source{{Role: Weights, Path: weights}}}, "is a digest"},
		{Import{Name: "chat", Files: []Source{{Role: Weights, Path: weights, Name: "a/b"}}}, "cannot be called"},
		{Import{Name: "chat", Files: []Source{{Role: Weights, Path: weights}, {Role: Doc, Path: weights}}}, "are called model.gguf"},
		{Import{Name: "chat", Files: []Source{{Role: "engine", Path: weights}}}, "has the role"},
		{Import{Name: "chat", Files: []Source{{Role: Weights, Path: t.TempDir()}}}, "is not a file"},
		{Import{Name: "chat", Files: []Source{{Role: Weights, Path: weights + ".gone"}}}, "no such file"},
	} {
		if _, err := r.Import(t.Context(), c.im); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.im, err, c.want)
		}
	}
	if list, err := r.List(); err != nil || len(list) != 0 {
		t.Errorf("listed are %v, %v", list, err)
	}
}

func TestReferences(t *testing.T) {
	hex := strings.Repeat("0123456789abcdef", 4)
	for text, want := range map[string]Ref{
		"chat": {Name: "chat", Tag: "latest"}, "chat:v1.2": {Name: "chat", Tag: "v1.2"}, "chat@canary": {Name: "chat", Tag: "canary"},
		"chat@sha256:" + hex: {Name: "chat", Digest: "sha256:" + hex}, "sha256:01234567": {Digest: "sha256:01234567"},
		"chat:v1@sha256:" + hex:               {Name: "chat", Digest: "sha256:" + hex},
		"registry.example.com:5000/a/b:t":     {Name: "registry.example.com:5000/a/b", Tag: "t"},
		"registry.example.com:5000/a/b":       {Name: "registry.example.com:5000/a/b", Tag: "latest"},
		"hf.co/Org-1/Model_x.2-GGUF:Q4_K_M":   {Name: "hf.co/Org-1/Model_x.2-GGUF", Tag: "Q4_K_M"},
		"localhost:5000/m@sha256:" + hex[:12]: {Name: "localhost:5000/m", Digest: "sha256:" + hex[:12]},
	} {
		got, err := ParseRef(text)
		if err != nil || got != want {
			t.Errorf("%s is %+v, %v; want %+v", text, got, err, want)
		}
		if again, err := ParseRef(got.String()); err != nil || again != got {
			t.Errorf("%s, printed and read again, is %+v, %v", text, again, err)
		}
	}
	for _, text := range []string{"", ":", "a:", ":a", "a b", "../a", "a//b", "/a", "a/", "a:b:c", "a@", "a@sha256:", "a@sha256:xyz", "a@sha256:ABCDEF0123", "a@sha512:" + hex,
		"sha256:0123", "a@sha256:" + hex + "0", strings.Repeat("a", 201), "a:" + strings.Repeat("b", 129), "a\x00b", "model.gguf/.."} {
		if got, err := ParseRef(text); err == nil {
			t.Errorf("%q is %+v", text, got)
		}
	}
}

func FuzzParseRef(f *testing.F) {
	f.Add("chat")
	f.Add("hf.co/ORG/REPO:Q4_K_M")
	f.Add("localhost:5000/a/b@sha256:0123456789abcdef")
	f.Add("a:b@c")
	f.Fuzz(func(t *testing.T, text string) {
		ref, err := ParseRef(text)
		if err != nil {
			return
		}
		if again, err := ParseRef(ref.String()); err != nil || again != ref {
			t.Errorf("%q is %+v, and printed and read again %+v, %v", text, ref, again, err)
		}
		if strings.Contains(ref.Name, "..") || strings.HasPrefix(ref.Name, "/") {
			t.Errorf("%q has the name %q", text, ref.Name)
		}
	})
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"schemaVersion":2,"config":{"digest":"sha256:`+strings.Repeat("a", 64)+`","mediaType":"application/vnd.cncf.model.config.v1+json","size":2},"layers":[{"digest":"sha256:`+
		strings.Repeat("b", 64)+`","size":5,"mediaType":"application/vnd.cncf.model.weight.v1.raw","annotations":{"org.cncf.model.filepath":"../a/../x.gguf"}}]}`), []byte(`{"config":{"format":"gguf"}}`))
	f.Fuzz(func(t *testing.T, manifest, config []byte) {
		m, err := parseManifest(manifest)
		if err == nil {
			files, err := filesOf(m)
			names := make(map[string]bool)
			for _, file := range files {
				if file.Name == "" || names[file.Name] || strings.ContainsAny(file.Name, `/\`) || strings.HasPrefix(file.Name, ".") {
					t.Errorf("a file is called %q among %v", file.Name, names)
				}
				names[file.Name] = true
			}
			if err != nil && !errors.Is(err, ErrFormat) {
				t.Error(err)
			}
		}
		for _, mediaType := range []string{typeModelPackConfig, prefixDockerConfig + "v0.1+json", typeOllamaConfigHack} {
			factsOf(mediaType, config)
		}
	})
}

func FuzzIndex(f *testing.F) {
	r := newRegistry("", func() time.Time { return time.Unix(1e9, 0) })
	ix := &index{entries: map[digest.Digest]*entry{}, aliases: map[string]digest.Digest{}}
	d := digest.FromString("x")
	ix.entries[d] = &entry{desc: ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: d, Size: 3}, name: "chat", added: time.Unix(1e9, 0)}
	r.move(ix, Ref{Name: "chat", Tag: "a"}, d)
	data, err := ix.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		ix, err := parseIndex(data)
		if err != nil {
			return
		}
		first, err := ix.encode()
		if err != nil {
			return
		}
		again, err := parseIndex(first)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		second, err := again.encode()
		if err != nil || !bytes.Equal(first, second) {
			t.Errorf("%s\n%s\n%v", first, second, err)
		}
	})
}
