package openai

import (
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// TestDialectsTakeCodedBodies: each path answers a body that is coded as the body that is not.
func TestDialectsTakeCodedBodies(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	var zip, deflated, z strings.Builder
	for path, body := range map[string]string{
		routeChat:        `{"model":"test-model","messages":[{"role":"user","content":"ping"}],"max_tokens":4}`,
		routeCompletions: `{"model":"test-model","prompt":"ping","max_tokens":4}`,
		routeResponses:   `{"model":"test-model","input":"ping","store":false}`,
		routeMessages:    `{"model":"test-model","max_tokens":4,"messages":[{"role":"user","content":"ping"}]}`,
		routeNative:      `{"prompt":"ping","n_predict":4}`,
		routeTokenize:    `{"model":"test-model","prompt":"ping"}`,
		"/api/chat":      `{"model":"test-model","stream":false,"messages":[{"role":"user","content":"ping"}]}`,
		"/api/generate":  `{"model":"test-model","stream":false,"prompt":"ping"}`,
		"/v1/decisions":  `{"model":"test-model","input":"ping","questions":[{"type":"predicate","instructions":"Is it?"}]}`,
	} {
		status, plain := r.post(path, body)
		if status != 200 && path != "/v1/decisions" { // which the fake engine cannot answer
			t.Errorf("%s: %d %s", path, status, plain)
		}
		zip.Reset()
		deflated.Reset()
		z.Reset()
		zipper, deflater := gzip.NewWriter(&zip), zlib.NewWriter(&deflated)
		zs, err := zstd.NewWriter(&z)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = zipper.Write([]byte(body))
		_, _ = deflater.Write([]byte(body))
		_, _ = zs.Write([]byte(body))
		for _, w := range []interface{ Close() error }{zipper, deflater, zs} {
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		}
		for coding, data := range map[string]string{"gzip": zip.String(), "deflate": deflated.String(), "zstd": z.String()} {
			if res, text := r.do("POST", path, "Content-Encoding: "+coding+"\r\n", data); res.StatusCode != status {
				t.Errorf("%s with %s: %d, and %d without: %s", path, coding, res.StatusCode, status, text)
			}
		}
	}
}
