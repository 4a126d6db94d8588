package edge

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"weir/api"
)

// echo answers with the body of a request as its protocol reads it.
type echo struct{ spoken }

type echoed struct{ told }

func (e *echo) Find(string) (Endpoint, Params) { return e, Params{} }
func (e *echo) Begin(x *Exchange) Call         { return &echoed{told{&e.spoken, x}} }
func (c *echoed) Serve() *api.Error {
	h := &c.x.Ctx.Request.Header
	if len(h.Peek("Content-Encoding")) > 0 || h.ContentLength() != len(c.x.Ctx.PostBody()) {
		return api.Refuse("internal_error", "the head says something else than the body")
	}
	c.x.Ctx.Response.SetBody(c.x.Ctx.PostBody())
	return nil
}

func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.String()
}

// TestMuxDecodesBodies: protocols read bodies as if they had come without a coding, and no more of them than the server takes.
func TestMuxDecodesBodies(t *testing.T) {
	m := NewMux(MuxConfig{MaxRequestBytes: 4 << 10}, &echo{spoken{route: Route{Pattern: "/", Open: true}}})
	text := `{"a": 1}`
	most := strings.Repeat(" ", 4<<10)
	for _, tc := range []struct {
		coding, body string
		status       int
		says         string
	}{
		{"gzip", zipped(text), 200, text},
		{" GZip ", zipped(text), 200, text},
		{"gzip", zipped("") + zipped(text), 200, text},
		{"gzip", zipped(most), 200, most},
		{"gzip", zipped(most + " "), 413, "decodes to more than the 4096 bytes"},
		{"gzip", zipped(text)[:12], 400, "cannot be decoded"},
		{"gzip", zipped(text) + "more", 400, "cannot be decoded"},
		{"gzip", text, 400, "is no gzip"},
		{"gzip", "", 200, ""},
		{"identity", text, 200, text},
		{"br", text, 415, `\"br\" is not supported; send gzip, deflate and zstd`},
		{"gzip, gzip", zipped(zipped(text)), 415, "not supported"},
	} {
		ctx := asking("POST", "/", "")
		ctx.Request.Header.Set("Content-Encoding", tc.coding)
		ctx.Request.SetBodyString(tc.body)
		ctx.Request.Header.SetContentLength(len(tc.body))
		if tc.body == "" {
			ctx.Request.Header.Del("Content-Encoding")
		}
		m.Handle(ctx)
		if got := string(ctx.Response.Body()); ctx.Response.StatusCode() != tc.status || !strings.Contains(got, tc.says) {
			t.Errorf("%s of %d bytes: %d %.200s, want %d %.80s", tc.coding, len(tc.body), ctx.Response.StatusCode(), got, tc.status, tc.says)
		}
	}
}

// FuzzDecode: whatever a client sends under the name of a coding, it is read within bounds or refused.
func FuzzDecode(f *testing.F) {
	f.Add("gzip", []byte(zipped("{}")))
	f.Add("zstd", []byte("\x28\xb5\x2f\xfd"))
	f.Add("deflate", []byte("\x78\x9c"))
	f.Fuzz(func(t *testing.T, name string, body []byte) {
		var ctx fasthttp.RequestCtx
		ctx.Request.Header.Set("Content-Encoding", name)
		ctx.Request.SetBody(body)
		fault := decode(&ctx, 1<<16)
		if got := len(ctx.PostBody()); fault == nil && got > max(1<<16, len(body)) {
			t.Fatalf("%d bytes were let through", got)
		}
	})
}
