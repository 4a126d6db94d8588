package api

import (
	"errors"
	"fmt"
	"io"

	"github.com/valyala/fasthttp"
)

const firstBodyBytes = 4 << 10 // first size of a body's buffer, which doubles as bytes arrive

// readBody reads the body of a request, at most MaxRequestBytes of it. The buffer
// grows with the bytes that have arrived, whatever length the header declares, and
// is left to the garbage collector: a pool of buffers would keep the largest ones.
// Where readBody fails, the connection must be closed.
func (s *Server) readBody(ctx *fasthttp.RequestCtx) *Error {
	stream := bodyStream(ctx)
	if stream == nil {
		return nil
	}
	declared := ctx.Request.Header.ContentLength()
	most := s.config.MaxRequestBytes + 1 // one more tells that a chunked body is too large
	if declared >= 0 {
		most = declared
	}
	var body []byte
	for {
		if len(body) == cap(body) && len(body) < most {
			var fault *Error
			if body, fault = grow(ctx, body, min(most, max(firstBodyBytes, 2*cap(body)))); fault != nil {
				return fault
			}
		}
		n, err := stream.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case len(body) > s.config.MaxRequestBytes:
			return s.tooLarge()
		case errors.Is(err, io.EOF) && len(body) < declared:
			return unreadable(io.ErrUnexpectedEOF)
		case errors.Is(err, io.EOF):
			ctx.Request.SetBodyRaw(body)
			return nil
		case err != nil:
			return unreadable(err)
		}
	}
}

// grow moves a body into a larger buffer, if the budget has room for it.
func grow(ctx *fasthttp.RequestCtx, body []byte, size int) ([]byte, *Error) {
	c := connOf(ctx)
	memory, ok := c.charge(size)
	if !ok {
		return nil, Refuse("server_is_overloaded",
			"the request bodies of all connections use all of their memory (--http-body-memory-bytes); retry, or send less at once")
	}
	grown := memory[:copy(memory, body)]
	c.refund(cap(body))
	return grown, nil
}

// ReleaseBody gives back the memory of a request's body. A handler that runs for
// long calls it once it has parsed the body; values that it copied stay valid. The
// server calls it at the end of Handle in any case.
func ReleaseBody(ctx *fasthttp.RequestCtx) {
	ctx.Request.ResetBody()
	connOf(ctx).refundAll()
}

// unreadable is the refusal of a request that broke off or is no HTTP.
func unreadable(err error) *Error {
	var small *fasthttp.ErrSmallBuffer
	switch {
	case errors.As(err, &small):
		return Refuse("header_too_large", "request line and header fields are larger than this server takes (--http-max-header-bytes)")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return Refuse("malformed_request", "the request body ended before its length")
	case isTimeout(err):
		return Refuse("request_timeout", "the request did not arrive in time (--http-read-timeout)")
	}
	return Refuse("malformed_request", "the bytes on this connection are not a valid HTTP/1.1 request")
}

// ReadDecoded reads what a request's body decodes to, at most limit bytes of it. The
// memory counts against the bodies' budget until the body is released.
func ReadDecoded(ctx *fasthttp.RequestCtx, r io.Reader, limit int) ([]byte, *Error) {
	var plain []byte
	for {
		if len(plain) == cap(plain) {
			var fault *Error
			if plain, fault = grow(ctx, plain, min(max(firstBodyBytes, 2*cap(plain)), limit+1)); fault != nil {
				return nil, fault
			}
		}
		n, err := r.Read(plain[len(plain):cap(plain)])
		plain = plain[:len(plain)+n]
		switch {
		case len(plain) > limit:
			return nil, Refuse("request_too_large",
				fmt.Sprintf("the request body decodes to more than the %d bytes that this server takes (--http-max-request-bytes)", limit))
		case errors.Is(err, io.EOF):
			return plain, nil
		case err != nil:
			return nil, Refuse("malformed_request", fmt.Sprintf("the request body cannot be decoded: %v", err))
		}
	}
}
