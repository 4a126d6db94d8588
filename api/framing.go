package api

import (
	"bytes"

	"github.com/valyala/fasthttp"
)

// ambiguous tells requests whose end a proxy in front may see elsewhere than
// fasthttp does: a length beside a transfer coding (RFC 9112, 6.3: such a
// connection must not be kept), and folded header lines (5.2: refuse them).
// The parser itself refuses the other known forms; the tests have a corpus.
func ambiguous(h *fasthttp.RequestHeader) bool {
	length, coding := false, false
	for line := range bytes.Lines(h.RawHeaders()) {
		if line[0] == ' ' || line[0] == '\t' {
			return true
		}
		name, _, _ := bytes.Cut(line, []byte{':'})
		length = length || bytes.EqualFold(name, []byte("Content-Length"))
		coding = coding || bytes.EqualFold(name, []byte("Transfer-Encoding"))
	}
	return length && coding
}

func refuseAmbiguous(ctx *fasthttp.RequestCtx) {
	ctx.SetConnectionClose()
	(&Error{Status: fasthttp.StatusBadRequest, Type: TypeInvalidRequest, Code: "malformed_request",
		Message: "the request's length can be read in two ways; send one Content-Length or one Transfer-Encoding, and no folded header lines"}).Write(ctx)
}
