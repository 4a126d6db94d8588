package servertest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Gate lets transfers of large bodies pass by drops from their middle on, until it is opened, and counts what it has sent.
type Gate struct {
	Open func()
	Sent atomic.Int64 // bytes
	wait chan struct{}
}

// NewGate is a gate that is shut until the test opens it, or ends.
func NewGate(t *testing.T) *Gate {
	g := &Gate{wait: make(chan struct{})}
	g.Open = sync.OnceFunc(func() { close(g.wait) })
	t.Cleanup(g.Open)
	return g
}

// Half is a writer whose first bytes pass at once.
func (g *Gate) Half(w http.ResponseWriter, r *http.Request, size int) http.ResponseWriter {
	return &gated{w, r.Context(), g, size / 2}
}

type gated struct {
	http.ResponseWriter
	ctx  context.Context //nolint:containedctx // of the request
	gate *Gate
	left int
}

func (w *gated) Write(b []byte) (written int, err error) {
	const drop = 1 << 10
	for len(b) > 0 && err == nil {
		n := len(b)
		if w.left <= 0 {
			select {
			case <-w.gate.wait:
			case <-w.ctx.Done():
			case <-time.After(100 * time.Millisecond):
				n = min(n, drop)
			}
		}
		n, err = w.ResponseWriter.Write(b[:n])
		_ = http.NewResponseController(w.ResponseWriter).Flush() // it is on its way
		w.gate.Sent.Add(int64(n))
		w.left -= n
		written, b = written+n, b[n:]
	}
	return written, err
}

func (w *gated) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// FakeHub speaks Hugging Face's API for one repository with one file, as weir and huggingface_hub ask it.
func FakeHub(g *Gate, repository, file string, content []byte) http.Handler {
	const revision = "0123456789abcdef0123456789abcdef01234567"
	sum := sha256.Sum256(content)
	digest := hex.EncodeToString(sum[:])
	mux := http.NewServeMux()
	entry := fmt.Sprintf(`{"type":"file","oid":"%s","size":%d,"path":%q,"lfs":{"oid":"%s","size":%d,"pointerSize":134}}`, revision, len(content), file, digest, len(content))
	info := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"_id":"1","id":%q,"modelId":%q,"sha":"%s","private":false,"disabled":false,"gated":false,"downloads":0,"likes":0,"tags":["gguf"],"siblings":[{"rfilename":%q,"size":%d}]}`,
			repository, repository, revision, file, len(content))
	}
	mux.HandleFunc("GET /api/models/"+repository, info)
	mux.HandleFunc("GET /api/models/"+repository+"/revision/{revision}", info)
	mux.HandleFunc("GET /api/models/"+repository+"/tree/{revision}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, "["+entry+"]")
	})
	serve := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Repo-Commit", revision)
		w.Header().Set("X-Linked-Etag", `"`+digest+`"`)
		w.Header().Set("X-Linked-Size", strconv.Itoa(len(content)))
		w.Header().Set("ETag", `"`+digest+`"`)
		if r.Method == http.MethodGet && r.Header.Get("Range") != "bytes=0-0" {
			w = g.Half(w, r, len(content))
		}
		http.ServeContent(w, r, file, time.Unix(1, 0), bytes.NewReader(content))
	}
	mux.HandleFunc("/"+repository+"/resolve/{revision}/"+file, serve)
	mux.HandleFunc("/files/"+file, serve) // of no repository
	return mux
}

// HubOf is the hub's stand-in, which holds nothing back.
func HubOf(t *testing.T, name string, data []byte) *httptest.Server {
	t.Helper()
	g := NewGate(t)
	g.Open()
	s := httptest.NewServer(FakeHub(g, "Org/Repo", name, data))
	t.Cleanup(s.Close)
	return s
}
