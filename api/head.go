package api

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/valyala/fasthttp"
)

// fasthttp calls headerReceived when a request's header is there, and reads
// the body behind it unless the header asks for 100-continue. For a request
// that its head alone gets refused, headerReceived therefore pretends that the
// client asked: then expect answers, and not one byte of the body is read.
// HTTP/1.0 has no such question: fasthttp takes the first byte of its bodies.

var expectField, originField = NewField(fasthttp.HeaderExpect), NewField(fasthttp.HeaderOrigin)

// headerReceived decides whether the body of a request is worth reading.
func (s *Server) headerReceived(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
	asked := expectField.Of(h)
	switch {
	case !speaks(h):
		h.SetContentLength(0) // fasthttp would wait for the first byte of the body, to which it answers 100 in HTTP/1.1 alone
	case expectsOther(h):
		other := string(asked)
		h.Set(fasthttp.HeaderExpect, continues)
		h.Add(fasthttp.HeaderExpect, other) // by which refusal knows it
	case announcesBody(h) && !s.takes(h, nil) && !s.asksPeer(h), h.IsHTTP11() && len(asked) > 0:
		h.Set(fasthttp.HeaderExpect, continues)
	case len(asked) > 0:
		h.Del(fasthttp.HeaderExpect) // HTTP/1.0 knows no 1xx responses
	}
	return fasthttp.RequestConfig{}
}

// continues is the only expectation that there is (RFC 9110, 10.1.1).
const continues = "100-continue"

// expectsOther reports whether a request has an expectation that this server does not know.
func expectsOther(h *fasthttp.RequestHeader) bool {
	return slices.ContainsFunc(h.PeekAll(fasthttp.HeaderExpect), func(v []byte) bool {
		return !bytes.EqualFold(v, []byte(continues))
	})
}

// expect answers requests that are refused by their head; for the others it
// says that the body may come.
func (s *Server) expect(ctx *fasthttp.RequestCtx) int {
	if s.takes(&ctx.Request.Header, Peer(ctx)) {
		return fasthttp.StatusContinue
	}
	s.handle(ctx)
	linger(ctx)
	return ctx.Response.StatusCode()
}

func (s *Server) takes(h *fasthttp.RequestHeader, peer *x509.Certificate) bool {
	return s.refusal(h) == nil && s.handler.Takes(h, peer) && !s.declaresTooMuch(h)
}

// asksPeer reports whether the client's certificate may let a request pass that its
// head alone does not. fasthttp does not say whose header it has read, so handle
// decides, once it has the connection.
func (s *Server) asksPeer(h *fasthttp.RequestHeader) bool {
	return s.config.ClientCertificates && s.refusal(h) == nil && !s.declaresTooMuch(h)
}

// declaresTooMuch reports whether the Content-Length of a request is above what
// the server takes. A request that the handler refuses by its head, for a wrong
// key above all, is answered with the handler's refusal instead.
func (s *Server) declaresTooMuch(h *fasthttp.RequestHeader) bool {
	if most, _ := s.upload(h); most > 0 {
		return int64(h.ContentLength()) > most
	}
	return h.ContentLength() > s.config.MaxRequestBytes
}

func announcesBody(h *fasthttp.RequestHeader) bool {
	n := h.ContentLength()
	return n > 0 || n == chunkedLength
}

// chunkedLength is fasthttp's content length of a chunked body.
const chunkedLength = -1

// refusal is the error that a request is refused with because of its head, before
// the handler is asked; nil where the server has nothing against the head.
func (s *Server) refusal(h *fasthttp.RequestHeader) *Error {
	version := view(h.Protocol())
	switch {
	case !speaks(h):
		return Refuse("http_version_not_supported", fmt.Sprintf("this server does not speak %.16q; use HTTP/1.1", version))
	case ambiguous(h):
		return Refuse("malformed_request", "the request's length can be read in two ways; "+
			"send one Content-Length or one Transfer-Encoding without blanks behind it, and end header lines with CR LF without folding them")
	case version == "HTTP/1.1" && len(h.Host()) == 0:
		return Refuse("malformed_request", "the request has no Host header, which HTTP/1.1 asks for")
	case expectsOther(h):
		return Refuse("expectation_failed", "the request has an Expect header other than 100-continue, which is all that this server knows")
	}
	return s.config.Access.checkHead(h)
}

// speaks reports whether a request is of a version of HTTP that this server knows.
func speaks(h *fasthttp.RequestHeader) bool {
	version := view(h.Protocol())
	return version == "HTTP/1.1" || version == "HTTP/1.0"
}

// declaredTooMuch is the refusal of a request that declaresTooMuch.
func (s *Server) declaredTooMuch(h *fasthttp.RequestHeader) *Error {
	if most, setting := s.upload(h); most > 0 {
		return uploadTooLarge(most, setting)
	}
	return s.tooLarge()
}

func (s *Server) tooLarge() *Error {
	return Refuse("request_too_large", fmt.Sprintf("the request body is larger than the %d bytes that this server takes (--http-max-request-bytes)",
		s.config.MaxRequestBytes))
}

// ambiguous tells requests whose end a proxy in front may see elsewhere than
// fasthttp does: a length beside a transfer coding (RFC 9112, 6.3: such a
// connection must not be kept), folded header lines (5.2: refuse them), lines that
// end without a carriage return, and blanks behind the name of the coding.
// The parser itself refuses the other known forms; the tests have a corpus.
func ambiguous(h *fasthttp.RequestHeader) bool {
	length, coding := false, false
	for line := range bytes.Lines(h.RawHeaders()) {
		if line[0] == ' ' || line[0] == '\t' || !bytes.HasSuffix(line, []byte("\r\n")) {
			return true
		}
		name, value, _ := bytes.Cut(line[:len(line)-2], []byte{':'})
		if bytes.EqualFold(name, []byte("Transfer-Encoding")) && len(bytes.TrimRight(value, " \t")) != len(value) {
			return true
		}
		length = length || bytes.EqualFold(name, []byte("Content-Length"))
		coding = coding || bytes.EqualFold(name, []byte("Transfer-Encoding"))
	}
	return length && coding
}

// checkHead applies Check to a request's header, and to the authority of a
// target in absolute form, which outranks the Host header (RFC 9112, 3.2.2).
func (a *Access) checkHead(h *fasthttp.RequestHeader) *Error {
	method, origin := view(h.Method()), view(originField.Of(h))
	if target := view(h.RequestURI()); !strings.HasPrefix(target, "/") {
		if _, rest, absolute := strings.Cut(target, "://"); absolute {
			authority, _, _ := strings.Cut(rest, "/")
			if e := a.Check(method, authority, ""); e != nil {
				return e
			}
		}
	}
	host := view(h.Host())
	if a.LocalPages && changesState(method) && len(h.Peek(fasthttp.HeaderCookie)) > 0 && isLocalPage(origin) && !isOwnPage(origin, host) {
		return refuseOrigin(origin)
	}
	return a.Check(method, host, origin)
}

// view is b as a string, for a call that keeps none of it.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
