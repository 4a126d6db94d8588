package edge

import (
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/valyala/fasthttp"
)

// Whole responses are compressed for clients that ask for it; streams never
// are, since their events must leave one by one. The encoders are used
// directly rather than through fasthttp's handler, which would take streams
// too and keeps goroutines of its own.

var zstdEncoder = sync.OnceValue(func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil // the options are constant; without an encoder responses go as they are
	}
	return e
})

var gzipWriters = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

// Compress replaces the body of a response if that is worth it, and the client takes it. A body that has a coding keeps it.
func Compress(ctx *fasthttp.RequestCtx, minBytes int) {
	body, h := ctx.Response.Body(), &ctx.Response.Header
	if len(body) < minBytes || len(body) == 0 || len(h.ContentEncoding()) > 0 {
		return
	}
	h.Add("Vary", "Accept-Encoding")
	coding := pickCoding(string(ctx.Request.Header.Peek("Accept-Encoding")))
	switch coding {
	case "zstd":
		e := zstdEncoder()
		if e == nil {
			return
		}
		body = e.EncodeAll(body, nil)
	case "gzip":
		body = gzipped(body)
	default:
		return
	}
	h.Set("Content-Encoding", coding)
	ctx.Response.SetBodyRaw(body)
}

func gzipped(body []byte) []byte {
	var out sliceWriter
	w, _ := gzipWriters.Get().(*gzip.Writer)
	defer gzipWriters.Put(w)
	w.Reset(&out)
	_, _ = w.Write(body) // a sliceWriter takes everything
	_ = w.Close()
	return out
}

// sliceWriter is an io.Writer without errors.
type sliceWriter []byte

func (s *sliceWriter) Write(p []byte) (int, error) {
	*s = append(*s, p...)
	return len(p), nil
}

// pickCoding chooses from an Accept-Encoding header (RFC 9110, 12.5.3): what
// the client likes best of zstd and gzip, zstd where it has no preference;
// "" is neither.
func pickCoding(accept string) string {
	best, weight := "", 0.0
	for item := range strings.SplitSeq(accept, ",") {
		name, rest, _ := strings.Cut(item, ";")
		name = strings.ToLower(strings.TrimSpace(name))
		if name != "zstd" && name != "gzip" {
			continue
		}
		if q := qvalue(rest); q > weight || q == weight && q > 0 && name == "zstd" {
			best, weight = name, q
		}
	}
	return best
}

// qvalue reads ";q=0.5"; 1 where there is none.
func qvalue(parameters string) float64 {
	name, value, found := strings.Cut(parameters, "=")
	if !found || !strings.EqualFold(strings.TrimSpace(name), "q") {
		return 1
	}
	q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if err != nil || q < 0 || q > 1 {
		return 0
	}
	return q
}
