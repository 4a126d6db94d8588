package api

import (
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/valyala/fasthttp"

	"weir/internal/memory"
)

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
	body, err := memoryOf(ctx).Read(stream, declared+1, s.config.MaxRequestBytes)
	switch {
	case errors.Is(err, memory.ErrNoRoom):
		return NoMemory("the request bodies of all connections use")
	case errors.Is(err, memory.ErrNeverFits):
		return neverFits(err)
	case errors.Is(err, memory.ErrTooLarge):
		return s.tooLarge()
	case err == nil && len(body) < declared:
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return unreadable(ctx, err)
	}
	ctx.Request.SetBodyRaw(body)
	return nil
}

// memoryOf is what a request holds of the memory of bodies.
func memoryOf(ctx *fasthttp.RequestCtx) *memory.Share {
	if c := connOf(ctx); c != nil {
		return &c.bodies
	}
	return new(memory.Share)
}

// NoMemory refuses a request because others use up the memory of bodies.
func NoMemory(who string) *Error {
	return Refuse("server_is_overloaded", who+" all of their memory (--http-body-memory-bytes); retry, or send less at once")
}

// neverFits refuses a request whose body, sent and decoded, is too large for the memory of all bodies.
func neverFits(err error) *Error {
	return Refuse("request_too_large", err.Error()+"; send less at once, send the body without a content encoding, or raise --http-body-memory-bytes")
}

// ReleaseBody gives back the memory of a request's body. A handler that runs for
// long calls it once it has parsed the body; values that it copied stay valid. The
// server calls it at the end of Handle in any case.
func ReleaseBody(ctx *fasthttp.RequestCtx) {
	ctx.Request.ResetBody()
	memoryOf(ctx).Release()
}

// unreadable is the refusal of a request that did not arrive whole or is no HTTP.
func unreadable(ctx *fasthttp.RequestCtx, err error) *Error {
	var small *fasthttp.ErrSmallBuffer
	switch {
	case errors.As(err, &small):
		return Refuse("header_too_large", "request line and header fields are larger than this server takes (--http-max-header-bytes)")
	case hungUp(err), connOf(ctx).isGone():
		return Refuse("client_closed_request", "the connection was closed before the request had arrived whole")
	case isTimeout(err):
		return Refuse("request_timeout", "the request did not arrive in time (--http-read-timeout)")
	}
	return Refuse("malformed_request", "the bytes on this connection are not a valid HTTP/1.1 request")
}

// hungUp reports whether reading failed because the client closed the connection, or it broke; fasthttp hides this in some of its
// errors (conn.isGone). A client that has closed its sending half only still reads what it is answered.
func hungUp(err error) bool {
	var broken *net.OpError
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &broken) && !broken.Timeout()
}

// ReadDecoded reads what a request's body decodes to, at most limit bytes of it. The
// memory counts against the bodies' budget until the body is released.
func ReadDecoded(ctx *fasthttp.RequestCtx, r io.Reader, limit int) ([]byte, *Error) {
	plain, err := memoryOf(ctx).Read(r, 0, limit)
	switch {
	case errors.Is(err, memory.ErrNoRoom):
		return nil, NoMemory("the request bodies of all connections use")
	case errors.Is(err, memory.ErrNeverFits):
		return nil, neverFits(err)
	case errors.Is(err, memory.ErrTooLarge):
		return nil, Refuse("request_too_large",
			fmt.Sprintf("the request body decodes to more than the %d bytes that this server takes (--http-max-request-bytes)", limit))
	case err != nil:
		return nil, Refuse("malformed_request", fmt.Sprintf("the request body cannot be decoded: %v", err))
	}
	return plain, nil
}
