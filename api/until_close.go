package api

import (
	"io"
	"net"
	"runtime/debug"

	"github.com/valyala/fasthttp"
)

// streamUntilClose sends a body stream to a client of HTTP/1.0, which knows
// no chunks: the connection's end is the body's end. fasthttp would send
// chunks, so the connection is taken over from it.
func (s *Server) streamUntilClose(ctx *fasthttp.RequestCtx) {
	response := &ctx.Response
	response.Header.Del(fasthttp.HeaderTransferEncoding)
	response.Header.SetContentLength(untilClose)
	withBody := !ctx.IsHead()
	ctx.HijackSetNoResponse(true)
	ctx.Hijack(func(c net.Conn) {
		defer func() {
			if v := recover(); v != nil {
				s.handler.Panicked(v, debug.Stack())
			}
		}()
		defer func() { _ = response.CloseBodyStream() }() // it tells the handler that the stream has ended
		if _, err := c.Write(response.Header.Header()); err != nil || !withBody {
			return
		}
		_, _ = io.Copy(c, response.BodyStream()) // who hung up is found by the watch
	})
}

// untilClose is fasthttp's content length of a body that the connection's end
// delimits.
const untilClose = -2
