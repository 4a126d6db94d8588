package hub

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	hex := strings.Repeat("0123456789abcdef", 4)
	h := New(func(string) string { return "" })
	for text, want := range map[string]Source{
		"hf.co/Org/Repo-GGUF:Q4_K_M":                   {Kind: HuggingFace, Name: "hf.co/Org/Repo-GGUF:Q4_K_M", Repository: "Org/Repo-GGUF", Tag: "Q4_K_M"},
		"hf.co/Org/Repo":                               {Kind: HuggingFace, Name: "hf.co/Org/Repo:latest", Repository: "Org/Repo"},
		"huggingface.co/Org/Repo:a/b.gguf":             {Kind: HuggingFace, Name: "hf.co/Org/Repo:b", Repository: "Org/Repo", Tag: "a/b.gguf"},
		"https://huggingface.co/Org/Repo":              {Kind: HuggingFace, Name: "hf.co/Org/Repo:latest", Repository: "Org/Repo"},
		"llama3.2:1b":                                  {Kind: OCI, Name: "llama3.2:1b", Reference: "registry.ollama.ai/library/llama3.2:1b"},
		"llama3.2":                                     {Kind: OCI, Name: "llama3.2:latest", Reference: "registry.ollama.ai/library/llama3.2:latest"},
		"someone/model:q8_0":                           {Kind: OCI, Name: "someone/model:q8_0", Reference: "registry.ollama.ai/someone/model:q8_0"},
		"ghcr.io/a/b/c:v1":                             {Kind: OCI, Name: "ghcr.io/a/b/c:v1", Reference: "ghcr.io/a/b/c:v1"},
		"localhost:5000/m":                             {Kind: OCI, Name: "localhost:5000/m:latest", Reference: "localhost:5000/m:latest"},
		"localhost/m@sha256:" + hex:                    {Kind: OCI, Name: "localhost/m:latest", Reference: "localhost/m@sha256:" + hex},
		"https://example.com/a/m.gguf?x=1":             {Kind: URL, Name: "m:latest", URL: "https://example.com/a/m.gguf?x=1"},
		"https://hf.co/Org/Repo/resolve/main/d/x.gguf": {Kind: HuggingFace, Name: "hf.co/Org/Repo:x", Repository: "Org/Repo", Tag: "d/x.gguf"},
	} {
		if got, err := h.Parse(text); err != nil || got != want {
			t.Errorf("%s is %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "a b", "hf.co/Org", "hf.co/Org/Repo/x", "hf.co/Org/Repo:", "hf.co/Org/Repo:../x.gguf", "a/b/c", "../x", "https://", "https://u:p@example.com/m.gguf",
		"https://example.com/", "a:", "a@", "a@canary", "a@sha256:0123", "0@ ", "a:b/c", ":x", strings.Repeat("a", 3000)} {
		if got, err := h.Parse(text); !errors.Is(err, ErrName) {
			t.Errorf("%.60q is %+v, %v", text, got, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("hf.co/Org/Repo:Q4_K_M")
	f.Add("llama3.2:1b")
	f.Add("https://example.com/m.gguf")
	f.Add("localhost:5000/a/b@sha256:00")
	h := New(func(string) string { return "" })
	f.Fuzz(func(t *testing.T, text string) {
		s, err := h.Parse(text)
		if err != nil {
			return
		}
		if s.Name == "" || strings.Contains(s.Repository, "..") && strings.Contains(s.Repository, "/../") || strings.ContainsAny(s.Reference, " \n") {
			t.Errorf("%q is %+v", text, s)
		}
	})
}

func TestContentRanges(t *testing.T) {
	if r, err := ParseContentRange("bytes 5-9/10"); err != nil || r != (ContentRange{5, 9, 10}) {
		t.Errorf("%+v, %v", r, err)
	}
	for _, text := range []string{"", "bytes", "bytes */10", "bytes 5-9/*", "bytes 9-5/10", "bytes 5-10/10", "items 0-1/2", "bytes -5/10", "bytes 0-18446744073709551615/10", "bytes 0-0/1 ", "bytes +0-0/1"} {
		if r, err := ParseContentRange(text); !errors.Is(err, ErrRange) {
			t.Errorf("%q is %+v", text, r)
		}
	}
}

func FuzzContentRange(f *testing.F) {
	f.Add("bytes 0-0/1")
	f.Add("bytes */5")
	f.Fuzz(func(t *testing.T, text string) {
		if r, err := ParseContentRange(text); err == nil && (r.First < 0 || r.First > r.Last || r.Last >= r.Size) {
			t.Errorf("%q is %+v", text, r)
		}
	})
}

// standIn is a hub with Hugging Face's API, which sends who asks for files to another host.
type standIn struct {
	hub, cdn *httptest.Server
	mu       sync.Mutex // of files and etag, where a test changes them while files are read
	files    map[string][]byte
	token    string // that private repositories ask for

	requests atomic.Int64 // to the other host
	sent     atomic.Int64 // bytes of files
	leaked   atomic.Bool  // a token came to the other host
	// fault, if set, may answer a request to the other host itself.
	fault func(w http.ResponseWriter, r *http.Request, n int64) bool
	etag  atomic.Value
	plain bool // the other host has no ranges
}

func newStandIn(t *testing.T, files map[string][]byte) *standIn {
	s := &standIn{files: files}
	s.etag.Store("one")
	s.cdn = httptest.NewServer(http.HandlerFunc(s.serveFile))
	s.hub = httptest.NewServer(http.HandlerFunc(s.serveHub))
	t.Cleanup(s.hub.Close)
	t.Cleanup(s.cdn.Close)
	return s
}

func (s *standIn) serveHub(w http.ResponseWriter, r *http.Request) {
	if s.token != "" && r.Header.Get("Authorization") != "Bearer "+s.token {
		http.Error(w, `{"error":"Invalid credentials"}`, http.StatusUnauthorized)
		return
	}
	rest, api := strings.CutPrefix(r.URL.Path, "/api/models/Org/Repo/")
	file, resolve := strings.CutPrefix(r.URL.Path, "/Org/Repo/resolve/abc123/")
	switch {
	case api && rest == "revision/main":
		fmt.Fprint(w, `{"id":"Org/Repo","sha":"abc123","siblings":[]}`)
	case api && rest == "tree/abc123":
		s.serveTree(w, r)
	case resolve && s.files[file] != nil:
		http.Redirect(w, r, s.cdn.URL+"/"+file, http.StatusFound)
	default:
		http.NotFound(w, r)
	}
}

// serveTree gives the list in two pages.
func (s *standIn) serveTree(w http.ResponseWriter, r *http.Request) {
	var page []map[string]any
	for name, data := range s.files {
		if (name < "m") == (r.URL.Query().Get("cursor") != "") {
			continue
		}
		entry := map[string]any{"type": "file", "path": name, "size": len(data), "oid": "f00"}
		if strings.HasSuffix(name, ".gguf") {
			sum := sha256.Sum256(data)
			entry["lfs"] = map[string]any{"oid": hex.EncodeToString(sum[:]), "size": len(data), "pointerSize": 134}
		}
		page = append(page, entry)
	}
	if r.URL.Query().Get("cursor") == "" {
		w.Header().Set("Link", fmt.Sprintf(`<%s/api/models/Org/Repo/tree/abc123?recursive=true&cursor=x>; rel="next"`, s.hub.URL))
	}
	_ = json.NewEncoder(w).Encode(page)
}

func (s *standIn) serveFile(w http.ResponseWriter, r *http.Request) {
	n := s.requests.Add(1)
	if r.Header.Get("Authorization") != "" {
		s.leaked.Store(true)
	}
	if s.fault != nil && s.fault(w, r, n) {
		return
	}
	s.mu.Lock()
	data, etag := s.files[strings.TrimPrefix(r.URL.Path, "/")], s.etag.Load()
	s.mu.Unlock()
	if s.plain {
		r.Header.Del("Range")
		_, _ = w.Write(data)
		return
	}
	w.Header().Set("ETag", fmt.Sprintf(`"%s"`, etag))
	http.ServeContent(&countingWriter{w, &s.sent}, r, "", time.Time{}, bytes.NewReader(data))
}

type countingWriter struct {
	http.ResponseWriter
	n *atomic.Int64
}

func (w *countingWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.n.Add(int64(n))
	return n, err
}

func (s *standIn) client(token string) *Hub {
	h := New(func(name string) string {
		return map[string]string{"HF_ENDPOINT": s.hub.URL + "/", "HF_TOKEN": token}[name]
	})
	h.pause = time.Millisecond
	return h
}

func random(n int) []byte {
	data := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(data)
	return data
}

func list(t *testing.T, s *standIn, h *Hub, name string) Listing {
	t.Helper()
	source, err := h.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	l, err := h.List(t.Context(), source)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func downloader(h *Hub) *Downloader {
	return &Downloader{Do: h.Client.Do, ChunkBytes: 64 << 10, Pause: time.Millisecond}
}

func TestListChoosesFiles(t *testing.T) {
	s := newStandIn(t, map[string][]byte{
		"README.md": nil, "m-Q4_K_M.gguf": []byte("a"), "m-Q8_0.gguf": []byte("b"), "mmproj-m-F16.gguf": []byte("c"), "a-iq4_xs.gguf": []byte("e"),
		"big/m-F16-00001-of-00002.gguf": []byte("1"), "big/m-F16-00002-of-00002.gguf": []byte("2"), "sub/x-Q5_K_M-00001-of-00003.gguf": []byte("y"),
		"one/m-Q6_K.gguf": []byte("6"), "two/m-Q6_K.gguf": []byte("6"),
	})
	h := s.client("")
	for tag, want := range map[string]string{
		"": "m-Q4_K_M.gguf", ":latest": "m-Q4_K_M.gguf", ":Q8_0": "m-Q8_0.gguf", ":q8_0": "m-Q8_0.gguf", ":IQ4_XS": "a-iq4_xs.gguf",
		":F16": "m-F16-00001-of-00002.gguf m-F16-00002-of-00002.gguf", ":two/m-Q6_K.gguf": "m-Q6_K.gguf",
	} {
		var names []string
		l := list(t, s, h, "hf.co/Org/Repo"+tag)
		for _, f := range l.Files {
			names = append(names, f.Name)
			if f.SHA256 == "" || f.Size == 0 || !strings.Contains(f.URL, "/resolve/abc123/") {
				t.Errorf("%+v", f)
			}
		}
		if got := strings.Join(names, " "); got != want || l.Revision != "abc123" {
			t.Errorf("%s is %s of %s, want %s", tag, got, l.Revision, want)
		}
	}
	for tag, want := range map[string]string{
		":Q2_K": "it has F16, IQ4_XS, Q4_K_M, Q5_K_M, Q6_K, Q8_0", ":Q6_K": "more than one file for Q6_K: one/m-Q6_K, two/m-Q6_K", ":Q5_K_M": "is split into 00003 files, and the repository has 1",
		":no.gguf": "has no file for no.gguf",
	} {
		source, _ := h.Parse("hf.co/Org/Repo" + tag)
		if _, err := h.List(t.Context(), source); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", tag, err, want)
		}
	}
}

func TestRefusalsOfTheHub(t *testing.T) {
	s := newStandIn(t, map[string][]byte{"m-Q4_0.gguf": []byte("w")})
	s.token = "right"
	for token, want := range map[string]string{"": "set HF_TOKEN", "wrong": "accept its terms"} {
		h := s.client(token)
		source, _ := h.Parse("hf.co/Org/Repo")
		_, err := h.List(t.Context(), source)
		if status, ok := errors.AsType[*StatusError](err); !ok || status.Status != 401 || !strings.Contains(err.Error(), want) {
			t.Errorf("token %q: %v, want %q", token, err, want)
		}
		if err != nil && token != "" && strings.Contains(err.Error(), "Bearer "+token) {
			t.Errorf("the token stands in %v", err)
		}
	}
	h := s.client("right")
	source, _ := h.Parse("hf.co/Org/Nothing")
	if _, err := h.List(t.Context(), source); err == nil || !strings.Contains(err.Error(), "there is no repository Org/Nothing") {
		t.Errorf("no repository: %v", err)
	}
	l := list(t, s, h, "hf.co/Org/Repo")
	if _, err := downloader(h).Get(t.Context(), l.Files[0], filepath.Join(t.TempDir(), "f"), func(int64, int64) {}); err != nil || s.leaked.Load() {
		t.Errorf("the token went to the other host: %v, %v", s.leaked.Load(), err)
	}
}

func TestRedirectWithoutTLSIsRefused(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "x") }))
	defer plain.Close()
	secure := httptest.NewTLSServer(http.RedirectHandler(plain.URL, http.StatusFound))
	defer secure.Close()
	client := secure.Client()
	client.CheckRedirect = checkRedirect
	d := &Downloader{Do: client.Do, Pause: time.Millisecond}
	if _, err := d.Get(t.Context(), File{URL: secure.URL, Name: "f"}, filepath.Join(t.TempDir(), "f"), func(int64, int64) {}); err == nil || !strings.Contains(err.Error(), "without TLS") {
		t.Error(err)
	}
}

// Whatever a server does on the way, the bytes at the end are the right ones, and what came is not asked for again.
func TestDownloadsThroughFaults(t *testing.T) {
	data := random(1 << 20)
	var asked sync.Map
	cut := func(w http.ResponseWriter, r *http.Request, share int) bool {
		rec := httptest.NewRecorder()
		rec.Header().Set("ETag", `"one"`)
		http.ServeContent(rec, r, "", time.Time{}, bytes.NewReader(data))
		maps.Copy(w.Header(), rec.Header())
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes()[:rec.Body.Len()/share])
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
		panic(http.ErrAbortHandler)
	}
	for name, fault := range map[string]func(w http.ResponseWriter, r *http.Request, n int64) bool{
		"none": nil,
		"cuts": func(w http.ResponseWriter, r *http.Request, n int64) bool { return n%3 == 0 && cut(w, r, 2) },
		"500s": func(w http.ResponseWriter, r *http.Request, _ int64) bool { // each range once
			_, again := asked.LoadOrStore(r.Header.Get("Range"), true)
			if !again {
				http.Error(w, "busy", http.StatusInternalServerError)
			}
			return !again
		},
		"rate limit": func(w http.ResponseWriter, _ *http.Request, n int64) bool {
			if n%4 == 2 {
				w.Header().Set("Retry-After", "0")
				http.Error(w, "slow down", http.StatusTooManyRequests)
			}
			return n%4 == 2
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStandIn(t, map[string][]byte{"m-Q4_0.gguf": data})
			s.fault = fault
			h := s.client("")
			path := filepath.Join(t.TempDir(), "f")
			var last atomic.Int64
			sum, err := downloader(h).Get(t.Context(), list(t, s, h, "hf.co/Org/Repo").Files[0], path, func(done, total int64) {
				last.Store(done)
				if total != int64(len(data)) {
					t.Errorf("of %d bytes", total)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(path)
			want := sha256.Sum256(data)
			if err != nil || !bytes.Equal(got, data) || sum != hex.EncodeToString(want[:]) || last.Load() != int64(len(data)) {
				t.Errorf("%d bytes, %v, told %d", len(got), err, last.Load())
			}
			if _, err := os.Stat(path + stateSuffix); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the note of what is there stays: %v", err)
			}
			t.Logf("%d requests, %d bytes", s.requests.Load(), s.sent.Load())
		})
	}
}

func TestInterruptedDownloadGoesOn(t *testing.T) {
	data := random(2 << 20)
	s := newStandIn(t, map[string][]byte{"m-Q4_0.gguf": data})
	h := s.client("")
	file := list(t, s, h, "hf.co/Org/Repo").Files[0]
	path := filepath.Join(t.TempDir(), "f")
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := downloader(h).Get(ctx, file, path, func(done, _ int64) {
		if done > 1<<20 {
			cancel()
		}
	}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	var st state
	note, err := os.ReadFile(path + stateSuffix)
	if err != nil || json.Unmarshal(note, &st) != nil {
		t.Fatal(err)
	}
	had := int64(0)
	for _, n := range st.Have {
		had += n
	}
	if had < 1<<20 {
		t.Fatalf("noted are %d bytes", had)
	}
	s.sent.Store(0)
	if _, err := downloader(h).Get(t.Context(), file, path, func(int64, int64) {}); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, data) {
		t.Error("other bytes", err)
	}
	if sent, rest := s.sent.Load(), int64(len(data))-had; sent != rest+1 { // and the first byte, which is asked for the size
		t.Errorf("sent were %d bytes, and %d were missing", sent, rest)
	}
}

func TestChangedFileBeginsAgain(t *testing.T) {
	old, data := random(1<<20), bytes.Repeat([]byte("new"), 1<<18)
	s := newStandIn(t, map[string][]byte{"file.gguf": old})
	d := downloader(s.client(""))
	path := filepath.Join(t.TempDir(), "f")
	file := File{URL: s.cdn.URL + "/file.gguf", Name: "file.gguf"}
	var once sync.Once
	if _, err := d.Get(t.Context(), file, path, func(done, _ int64) {
		if done > 1<<18 {
			once.Do(func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.etag.Store("two")
				s.files["file.gguf"] = data
			})
		}
	}); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes of a mixture, %v", len(got), err)
	}
}

func TestWrongChecksums(t *testing.T) {
	data := random(1 << 18)
	s := newStandIn(t, map[string][]byte{"m.gguf": data})
	d := downloader(s.client(""))
	path := filepath.Join(t.TempDir(), "f")
	file := File{URL: s.cdn.URL + "/m.gguf", Name: "m.gguf", Size: int64(len(data)), SHA256: strings.Repeat("0", 64)}
	if _, err := d.Get(t.Context(), file, path, func(int64, int64) {}); !errors.Is(err, ErrChecksum) || !strings.Contains(err.Error(), file.SHA256) {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Error("the wrong bytes stay")
	}
	file.Size++
	if _, err := d.Get(t.Context(), file, path, func(int64, int64) {}); !errors.Is(err, ErrChecksum) {
		t.Errorf("another size: %v", err)
	}
}

func TestServersWithoutRanges(t *testing.T) {
	data := random(1 << 18)
	s := newStandIn(t, map[string][]byte{"m.gguf": data, "empty.gguf": {}})
	s.plain = true
	d := downloader(s.client(""))
	for _, name := range []string{"m.gguf", "empty.gguf"} {
		path := filepath.Join(t.TempDir(), "f")
		if _, err := d.Get(t.Context(), File{URL: s.cdn.URL + "/" + name, Name: name}, path, func(int64, int64) {}); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, s.files[name]) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
}

func TestServersThatAreGivenUp(t *testing.T) {
	for name, fault := range map[string]func(w http.ResponseWriter, r *http.Request, n int64) bool{
		"404": func(w http.ResponseWriter, r *http.Request, _ int64) bool { http.NotFound(w, r); return true },
		"503": func(w http.ResponseWriter, _ *http.Request, _ int64) bool { w.WriteHeader(503); return true },
		"nonsense": func(w http.ResponseWriter, _ *http.Request, _ int64) bool {
			w.Header().Set("Content-Range", "bytes 7-3/2")
			w.WriteHeader(206)
			return true
		},
		"other bytes": func(w http.ResponseWriter, _ *http.Request, n int64) bool {
			w.Header().Set("Content-Range", "bytes 0-0/262144")
			w.WriteHeader(206)
			_, _ = io.WriteString(w, "x")
			return n > 0
		},
	} {
		s := newStandIn(t, map[string][]byte{"m.gguf": random(1 << 18)})
		s.fault = fault
		began := time.Now()
		_, err := downloader(s.client("")).Get(t.Context(), File{URL: s.cdn.URL + "/m.gguf", Name: "m.gguf"}, filepath.Join(t.TempDir(), "f"), func(int64, int64) {})
		if err == nil || time.Since(began) > 20*time.Second {
			t.Errorf("%s: %v after %v", name, err, time.Since(began))
		}
		if n := s.requests.Load(); name == "404" && n != 1 || n > 40 {
			t.Errorf("%s: %d requests", name, n)
		}
	}
}
