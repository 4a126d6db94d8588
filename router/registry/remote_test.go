package registry

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"weir/internal/reference"
	"weir/router/registry/hub"
)

func noise(n int) []byte {
	data := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(data)
	return data
}

func noProgress(int64, int64) {}

// road is a way to a registry on which bodies may be cut; it counts their bytes.
type road struct {
	cut   func(n int64) bool // whether the body of the n-th blob breaks in its middle
	n     atomic.Int64
	bytes atomic.Int64
}

func (p *road) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil || !strings.Contains(req.URL.Path, "/blobs/") || req.Method != http.MethodGet {
		return resp, err
	}
	limit := int64(1 << 62)
	if p.cut != nil && resp.ContentLength > 1000 && p.cut(p.n.Add(1)) {
		limit = resp.ContentLength / 2
	}
	resp.Body = &cutBody{resp.Body, limit, &p.bytes}
	return resp, nil
}

type cutBody struct {
	io.ReadCloser
	left int64
	n    *atomic.Int64
}

func (b *cutBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	b.n.Add(int64(n))
	return n, err
}

func TestPushAndPullWithRealRegistry(t *testing.T) {
	reference.Slow(t)
	host := reference.Registry.Get(t)
	here := open(t, t.TempDir())
	weights := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(weights, noise(40<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	made, err := here.Import(t.Context(), Import{Name: "chat:v1", Files: []Source{{Role: Weights, Path: weights}, {Role: Template, Path: write(t, "c.jinja", "t")}},
		Record: Record{Metrics: map[string]float64{"a": 1}}})
	if err != nil {
		t.Fatal(err)
	}
	there := fmt.Sprintf("%s/t%d/chat:v1", host, time.Now().UnixNano())
	var sent int64
	if _, err := here.Push(t.Context(), "chat:v1", there, Remote{}, func(done, _ int64) { sent = done }); err != nil || sent < 40<<20 {
		t.Fatalf("%d bytes, %v", sent, err)
	}
	if _, err := here.Push(t.Context(), "chat:v1", there, Remote{}, noProgress); err != nil { // everything is there already
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other.gguf")
	if err := os.WriteFile(other, noise(1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := here.Import(t.Context(), Import{Name: "chat:v2", Files: []Source{{Role: Weights, Path: other}}}); err != nil {
		t.Fatal(err)
	}
	moved := there + "-moved"
	if _, err := here.Push(t.Context(), "chat:v1", moved, Remote{}, noProgress); err != nil {
		t.Fatal(err)
	}
	if _, err := here.Push(t.Context(), "chat:v2", moved, Remote{}, noProgress); !errors.Is(err, ErrTagTaken) || !strings.Contains(err.Error(), "is "+string(made.Digest)) {
		t.Errorf("a push over another version's tag: %v", err)
	}
	var before string
	if _, err := here.Push(t.Context(), "chat:v2", moved, Remote{Move: func(d string) bool { before = d; return true }}, noProgress); err != nil || before != string(made.Digest) {
		t.Errorf("a tag that may move: %v, from %s", err, before)
	}
	byDigest := there[:strings.LastIndex(there, ":")] + "@" + string(made.Digest)
	for name, cut := range map[string]func(int64) bool{
		"no cuts": nil, "every other body is cut": func(n int64) bool { return n%2 == 1 }, "all bodies are cut, at first": func(n int64) bool { return n < 12 },
	} {
		t.Run(name, func(t *testing.T) {
			way := &road{cut: cut}
			r := open(t, t.TempDir())
			v, err := r.Pull(t.Context(), Pull{Reference: byDigest, Name: "chat:mine", Remote: Remote{Transport: way}})
			if err != nil {
				t.Fatal(err)
			}
			if v.Digest != made.Digest || v.Source != byDigest || v.Record.Metrics["a"] != 1 || len(v.Paths(Template)) != 1 {
				t.Errorf("it is %+v", v)
			}
			if err := r.Verify(t.Context(), v, nil); err != nil {
				t.Error(err)
			}
			if n := way.bytes.Load(); n > made.Size+made.Size/50 {
				t.Errorf("%d bytes came for %d", n, made.Size)
			}
			way.bytes.Store(0)
			if _, err := r.Pull(t.Context(), Pull{Reference: there, Name: "chat:again", Remote: Remote{Transport: way}}); err != nil || way.bytes.Load() != 0 {
				t.Errorf("again: %d bytes, %v", way.bytes.Load(), err)
			}
		})
	}
	_, err = open(t, t.TempDir()).Pull(t.Context(), Pull{Reference: there + "x", Name: "chat"})
	if !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "has no") {
		t.Errorf("another tag: %v", err)
	}
}

// A pull that a killed process began is gone on with by the next one.
func TestKilledPullGoesOn(t *testing.T) {
	reference.Slow(t)
	host := reference.Registry.Get(t)
	here := open(t, t.TempDir())
	weights := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(weights, noise(96<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := here.Import(t.Context(), Import{Name: "chat:v1", Files: []Source{{Role: Weights, Path: weights}}}); err != nil {
		t.Fatal(err)
	}
	there := fmt.Sprintf("%s/t%d/chat:v1", host, time.Now().UnixNano())
	if _, err := here.Push(t.Context(), "chat:v1", there, Remote{}, noProgress); err != nil {
		t.Fatal(err)
	}
	r := open(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := r.Pull(ctx, Pull{Reference: there, Name: "chat", Progress: func(done, total int64) {
		if done > total/2 {
			cancel()
		}
	}}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if list, err := r.List(); err != nil || len(list) != 0 {
		t.Errorf("half a model is listed: %v, %v", list, err)
	}
	if removed, err := r.Collect(t.Context()); err != nil || removed.Bytes > 1000 {
		t.Errorf("the beginning was collected: %+v, %v", removed, err)
	}
	// Two processes at once, one on its own road.
	other := process(t, r.Dir(), "pull "+there)
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	way := &road{}
	v, err := r.Pull(t.Context(), Pull{Reference: there, Name: "chat", Remote: Remote{Transport: way}})
	if err := errors.Join(err, other.Wait()); err != nil {
		t.Fatal(err)
	}
	if err := r.Verify(t.Context(), v, nil); err != nil {
		t.Error(err)
	}
	if n := way.bytes.Load(); n > 60<<20 {
		t.Errorf("%d bytes came after half of them were here", n)
	}
	if left, err := os.ReadDir(r.path(ingestFolder)); err != nil || len(left) != 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

// fakeRegistry serves one manifest with its blobs.
type fakeRegistry struct {
	*httptest.Server
	manifest  []byte
	mediaType string
	blobs     map[string][]byte
	password  string
}

func newFakeRegistry(t *testing.T, m ocispec.Manifest, blobs ...string) *fakeRegistry {
	f := &fakeRegistry{blobs: make(map[string][]byte), mediaType: m.MediaType}
	for _, b := range blobs {
		f.blobs[string(digest.FromString(b))] = []byte(b)
	}
	m.SchemaVersion = 2
	var err error
	if f.manifest, err = json.Marshal(m); err != nil {
		t.Fatal(err)
	}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fakeRegistry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, password, _ := r.BasicAuth(); f.password != "" && password != f.password {
		w.Header().Set("WWW-Authenticate", `Basic realm="models"`)
		http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"who are you"}]}`, http.StatusUnauthorized)
		return
	}
	if strings.Contains(r.URL.Path, "/manifests/") {
		w.Header().Set("Content-Type", f.mediaType)
		_, _ = w.Write(f.manifest)
		return
	}
	data, ok := f.blobs[r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]]
	if !ok {
		http.NotFound(w, r)
		return
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}

func ollamaManifest(weights string) (ocispec.Manifest, string) {
	config := `{"model_format":"gguf","model_family":"llama","model_type":"1.2B","file_type":"Q8_0"}`
	desc := func(mediaType, data string) ocispec.Descriptor {
		return ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromString(data), Size: int64(len(data))}
	}
	return ocispec.Manifest{MediaType: typeDockerManifest, Config: desc(typeOllamaConfigHack, config),
		Layers: []ocispec.Descriptor{desc("application/vnd.ollama.image.model", weights)}}, config
}

func TestPullOfOllamaManifest(t *testing.T) {
	m, config := ollamaManifest("weights")
	f := newFakeRegistry(t, m, "weights", config)
	f.mediaType = "text/plain; charset=utf-8" // as that registry says
	r := open(t, t.TempDir())
	h := hub.New(func(name string) string {
		return map[string]string{"OLLAMA_REGISTRY": strings.TrimPrefix(f.URL, "http://")}[name]
	})
	s, err := h.Parse("llama3.2:1b")
	if err != nil {
		t.Fatal(err)
	}
	v, err := r.Pull(t.Context(), Pull{Reference: s.Reference, Name: s.Name})
	if err != nil {
		t.Fatal(err)
	}
	if v.Facts.Architecture != "llama" || v.Facts.Quantization != "Q8_0" || v.Name != "llama3.2" {
		t.Errorf("it is %+v", v)
	}
	if held, err := r.Load(t.Context(), "llama3.2:1b", nil); err != nil || held.Release() != nil {
		t.Error(err)
	}
}

func TestRefusalsOfRegistries(t *testing.T) {
	m, config := ollamaManifest("weights")
	f := newFakeRegistry(t, m, "weights", config)
	f.password = "right"
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	there := strings.TrimPrefix(f.URL, "http://") + "/team/chat:v1"
	pull := func(o Remote) error {
		_, err := open(t, t.TempDir()).Pull(t.Context(), Pull{Reference: there, Name: "chat", Remote: o})
		return err
	}
	for name, o := range map[string]Remote{"nobody": {}, "wrong": {Username: "u", Password: "wrong"}} {
		if err := pull(o); err == nil || !strings.Contains(err.Error(), "docker login") || strings.Contains(err.Error(), "wrong") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := pull(Remote{Username: "u", Password: "right"}); err != nil {
		t.Error(err)
	}
	login := fmt.Sprintf(`{"auths":{%q:{"auth":"dTpyaWdodA=="}}}`, strings.TrimPrefix(f.URL, "http://"))
	if err := os.WriteFile(filepath.Join(os.Getenv("DOCKER_CONFIG"), "config.json"), []byte(login), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := pull(Remote{}); err != nil {
		t.Errorf("with Docker's configuration: %v", err)
	}
	f.blobs[string(digest.FromString("weights"))] = []byte("weirdos")
	if err := pull(Remote{}); !errors.Is(err, hub.ErrChecksum) {
		t.Errorf("other bytes of a blob: %v", err)
	}
	f.manifest = []byte(`{"schemaVersion":2,"layers":[]}`)
	if err := pull(Remote{}); !errors.Is(err, ErrFormat) {
		t.Errorf("no model: %v", err)
	}
}

func TestFetchOfFiles(t *testing.T) {
	parts := map[string][]byte{"/a-00001-of-00002.gguf": noise(1 << 20), "/a-00002-of-00002.gguf": noise(1<<20 + 5)}
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(parts[r.URL.Path]))
	}))
	defer server.Close()
	r := open(t, t.TempDir())
	f := Fetch{Name: "hf.co/Org/Repo:Q8_0", Source: "hf.co/Org/Repo:Q8_0", Revision: "abc", Do: server.Client().Do,
		Describe: func(string) (Facts, error) { return Facts{Format: "gguf"}, nil }}
	for _, name := range []string{"/a-00001-of-00002.gguf", "/a-00002-of-00002.gguf"} {
		sum := sha256.Sum256(parts[name])
		f.Files = append(f.Files, hub.File{URL: server.URL + name, Name: name[1:], Size: int64(len(parts[name])), SHA256: hex.EncodeToString(sum[:])})
	}
	v, err := r.Fetch(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	if paths := v.Paths(Weights); len(paths) != 2 || filepath.Base(v.Path()) != "a-00001-of-00002.gguf" || v.Record.Lineage.Revision != "abc" {
		t.Errorf("it is %+v", v)
	}
	requests.Store(0)
	if again, err := r.Fetch(t.Context(), f); err != nil || again.Digest != v.Digest || requests.Load() != 0 {
		t.Errorf("again: %d requests, %v", requests.Load(), err)
	}
	// A file whose digest is not known.
	f.Name, f.Files = "mine", []hub.File{{URL: server.URL + "/a-00001-of-00002.gguf", Name: "m.gguf"}}
	if v, err = r.Fetch(t.Context(), f); err != nil || r.Verify(t.Context(), v, nil) != nil {
		t.Error(err)
	}
	f.Describe = func(string) (Facts, error) { return Facts{}, errors.New("it is a web page") }
	if _, err = r.Fetch(t.Context(), f); err == nil || !strings.Contains(err.Error(), "web page") {
		t.Error(err)
	}
}
