package registry

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"weir/internal/reference"

	"github.com/opencontainers/go-digest"
)

// takingRegistry takes uploads, and may kill who sends one of them.
type takingRegistry struct {
	*httptest.Server
	mu        sync.Mutex
	blobs     map[string][]byte // by digest
	manifests map[string][]byte // by tag or digest
	sent      int               // uploads of blobs and manifests that have begun
	killAt    int               // the upload in whose middle the sender dies; 0: none
	kill      func()
}

func newTakingRegistry(t *testing.T, killAt int, kill func()) *takingRegistry {
	f := &takingRegistry{blobs: make(map[string][]byte), manifests: make(map[string][]byte), killAt: killAt, kill: kill}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *takingRegistry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	last := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	switch r.Method {
	case http.MethodPost:
		w.Header().Set("Location", r.URL.Path+"upload")
		w.WriteHeader(http.StatusAccepted)
	case http.MethodPut:
		f.take(w, r, last)
	default:
		f.mu.Lock()
		data, ok := f.blobs[last]
		if strings.Contains(r.URL.Path, "/manifests/") {
			data, ok = f.manifests[last]
			w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
		}
		f.mu.Unlock()
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(data)))
		w.Header().Set("Docker-Content-Digest", string(digest.FromBytes(data)))
		_, _ = w.Write(data)
	}
}

// has is what is there, and how many uploads have begun.
func (f *takingRegistry) has() (manifests, blobs, sent int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.manifests), len(f.blobs), f.sent
}

// take takes an upload whole, or not at all.
func (f *takingRegistry) take(w http.ResponseWriter, r *http.Request, last string) {
	f.mu.Lock()
	f.sent++
	dies := f.sent == f.killAt
	f.mu.Unlock()
	if dies {
		_, _ = io.CopyN(io.Discard, r.Body, r.ContentLength/2)
		f.kill()
		panic(http.ErrAbortHandler)
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return // its sender is gone
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if strings.Contains(r.URL.Path, "/manifests/") {
		f.manifests[last], f.manifests[string(digest.FromBytes(data))] = data, data
	} else {
		f.blobs[r.URL.Query().Get("digest")] = data
	}
	w.WriteHeader(http.StatusCreated)
}

// A push whose process is killed in the middle of any of its uploads leaves nothing that can be pulled and a folder that works, and
// the next push sends only what is not there yet.
func TestKilledPushGoesOn(t *testing.T) {
	reference.Slow(t)
	here := open(t, t.TempDir())
	weights := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(weights, noise(1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	made, err := here.Import(t.Context(), Import{Name: "chat:v1", Files: []Source{{Role: Weights, Path: weights}, {Role: Template, Path: write(t, "c.jinja", "t")}}})
	if err != nil {
		t.Fatal(err)
	}
	uploads := 2 + len(made.manifest.Layers) // the configuration, the layers, the manifest
	for at := 1; at <= uploads; at++ {
		var sender *exec.Cmd
		started := make(chan struct{})
		f := newTakingRegistry(t, at, func() {
			<-started
			_ = sender.Process.Kill() // how it ended is looked at below
		})
		there := strings.TrimPrefix(f.URL, "http://") + "/models/chat:v1"
		sender = process(t, here.Dir(), "push "+there)
		sender.Stderr = nil
		if err := sender.Start(); err != nil {
			t.Fatal(err)
		}
		close(started)
		if err := sender.Wait(); err == nil || sender.ProcessState.ExitCode() != -1 {
			t.Fatalf("upload %d: the sender was to be killed: %v", at, err)
		}
		if manifests, blobs, _ := f.has(); manifests != 0 || blobs != at-1 {
			t.Errorf("upload %d: %d manifests and %d blobs are there", at, manifests, blobs)
		}
		if _, err := open(t, t.TempDir()).Pull(t.Context(), Pull{Reference: there, Name: "chat"}); err == nil {
			t.Errorf("upload %d: half a push can be pulled", at)
		}
		if _, err := here.Push(t.Context(), "chat:v1", there, Remote{}, noProgress); err != nil {
			t.Fatal(err)
		}
		if _, _, sent := f.has(); sent != uploads+1 {
			t.Errorf("upload %d: %d uploads of both pushes, want %d and the one that was cut", at, sent, uploads)
		}
		r := open(t, t.TempDir())
		v, err := r.Pull(t.Context(), Pull{Reference: there, Name: "chat"})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Verify(t.Context(), v, nil); err != nil || v.Digest != made.Digest {
			t.Errorf("upload %d: %s, want %s, %v", at, v.Digest, made.Digest, err)
		}
	}
	if err := here.Verify(t.Context(), made, nil); err != nil {
		t.Error(err)
	}
}
