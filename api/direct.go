package api

import (
	"github.com/valyala/fasthttp"

	"weir/internal/socket"
)

// Direct is the connection of a client whose answer is a stream, for the stream to write chunks to it while the server waits in its Read.
// That is between two Reads: what the earlier ones gave has left the server by then.
type Direct struct {
	conn *conn
	try  socket.TryWriter // nil: the stream can only be read
}

// DirectOf gives the connection of a request. Only one by HTTP/1.1 without TLS, from this package's listener, can be written to.
func DirectOf(ctx *fasthttp.RequestCtx) Direct {
	c := connOf(ctx)
	if c == nil || c.secure != nil || !ctx.Request.Header.IsHTTP11() || ctx.IsHead() {
		return Direct{}
	}
	try, _ := c.Conn.(socket.TryWriter)
	return Direct{c, try}
}

// Can reports whether the connection can be written to.
func (d Direct) Can() bool { return d.try != nil }

// TryWrite writes as much of p as there is room for; less of it is no error.
func (d Direct) TryWrite(p []byte) (int, error) {
	n, err := d.try.TryWrite(p)
	if err != nil {
		err = d.conn.lost(err)
	}
	return n, err
}

// Write writes all of p, and waits for a slow client as long as any answer does.
func (d Direct) Write(p []byte) (int, error) { return d.conn.Write(p) }
