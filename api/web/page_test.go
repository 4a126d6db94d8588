package web

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

func get(t *testing.T, page *Page, target string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	page.ServeHTTP(w, r)
	return w.Result()
}

func read(t *testing.T, r io.Reader) string {
	t.Helper()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestPage(t *testing.T) {
	assets := "/playground/assets/" + everything().version
	for _, tc := range []struct {
		target, encoding, match string
		status                  int
		kind, coding, keep      string
	}{
		{"/playground", "", "", 303, "", "", "no-store"},
		{"/playground/", "", "", 200, "text/html; charset=utf-8", "", "no-cache"},
		{"/playground/", "gzip, br, zstd", "", 200, "text/html; charset=utf-8", "zstd", "no-cache"},
		{"/playground/", "", `W/"x", "playground-` + everything().version + `"`, 304, "text/html; charset=utf-8", "", "no-cache"},
		{assets + "/lib/ui.js", "gzip, zstd;q=0", "", 200, "text/javascript; charset=utf-8", "gzip", "public, max-age=31536000, immutable"},
		{assets + "/lib/style.css", "br", "", 200, "text/css; charset=utf-8", "", "public, max-age=31536000, immutable"},
		{assets + "/lib/README.md", "", "", 404, "text/plain; charset=utf-8", "", "no-store"},
		{assets + "/playground/index.html", "", "", 404, "text/plain; charset=utf-8", "", "no-store"},
		{assets + "/../page.go", "", "", 404, "text/plain; charset=utf-8", "", "no-store"},
		{"/playground/assets/0123456789abcdef/lib/ui.js", "", "", 404, "text/plain; charset=utf-8", "", "no-store"},
	} {
		res := get(t, Playground, tc.target, "Accept-Encoding", tc.encoding, "If-None-Match", tc.match)
		h := res.Header
		if res.StatusCode != tc.status || h.Get("Content-Type") != tc.kind || h.Get("Content-Encoding") != tc.coding || h.Get("Cache-Control") != tc.keep {
			t.Errorf("%s (%s): %d %q %q %q, want %+v", tc.target, tc.encoding, res.StatusCode, h.Get("Content-Type"), h.Get("Content-Encoding"), h.Get("Cache-Control"), tc)
		}
		if policy := h.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'; script-src 'self'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: the policy is %q", tc.target, policy)
		}
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "no-referrer" || h.Get("Cross-Origin-Opener-Policy") != "same-origin" {
			t.Errorf("%s: the header lacks a guard: %v", tc.target, h)
		}
	}
}

func TestPageNamesItsFilesByVersion(t *testing.T) {
	body := read(t, get(t, Console, "/console/").Body)
	if !strings.Contains(body, `src="assets/`+everything().version+`/console/main.js"`) || strings.Contains(body, "{{") {
		t.Errorf("the page is\n%s", body)
	}
}

// Every coding gives the same bytes, and what is compressed is smaller.
func TestCodings(t *testing.T) {
	for name, f := range everything().files {
		packed := f.packed()
		if packed.gzip == nil || packed.zstd == nil {
			if len(f.plain) > 200 {
				t.Errorf("%s does not get smaller", name)
			}
			continue
		}
		g, err := gzip.NewReader(bytes.NewReader(packed.gzip))
		if err != nil {
			t.Fatal(err)
		}
		if read(t, g) != string(f.plain) {
			t.Errorf("%s: gzip gives other bytes", name)
		}
		z, err := zstd.NewReader(bytes.NewReader(packed.zstd), zstd.WithDecoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		if read(t, z) != string(f.plain) {
			t.Errorf("%s: zstd gives other bytes", name)
		}
		z.Close()
	}
}
