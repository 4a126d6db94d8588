package api

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"
)

// handshakeTimeout is what a client gets for its part of the TLS handshake, or
// Config.ReadTimeout where that is less.
const handshakeTimeout = 10 * time.Second

// Why handshakes fail: the values of Hooks.OnHandshakeError's why.
const (
	HandshakeTimeout = "timeout"    // the client took too long
	HandshakeHangup  = "hangup"     // the client or the network closed the connection
	HandshakePlain   = "plain_http" // HTTP without TLS
	HandshakeRefused = "refused"    // one side did not take what the other offered, certificates included
	HandshakeGarbage = "garbage"    // no TLS at all
)

// speakTLS makes the connection one over TLS. The first Read does the handshake, in
// the connection's own goroutine; until then the listener counts the connection as
// one without a request.
func (c *conn) speakTLS(config *tls.Config, timeout time.Duration) {
	c.secure = tls.Server(c.raw, config)
	c.Conn, c.greeting = c.secure, true
	c.greetingTime = min(timeout, handshakeTimeout)
}

// greet does the handshake. A failure reads as the connection's end, because there is
// no request that could be refused.
func (c *conn) greet() error {
	c.greeting = false
	end := time.Now().Add(c.greetingTime)
	if err := c.raw.SetDeadline(end); err != nil {
		return io.EOF
	}
	if err := c.secure.Handshake(); err != nil {
		c.greetingFailed(err)
		return io.EOF
	}
	if err := c.raw.SetWriteDeadline(time.Time{}); err != nil {
		return io.EOF
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.raw.SetReadDeadline(c.readDeadline)
}

func (c *conn) greetingFailed(err error) {
	why := handshakeFault(err)
	if c.listener != nil && c.listener.config.Hooks.OnHandshakeError != nil {
		c.listener.config.Hooks.OnHandshakeError(why, err)
	}
	if why == HandshakePlain {
		if c.raw.SetWriteDeadline(time.Now().Add(tellTime)) == nil {
			newConn(c.raw, nil).tell(plainRefusal)
		}
	}
}

// plainRefusal is the whole response to HTTP without TLS.
var plainRefusal = []byte("HTTP/1.1 400 Bad Request\r\nServer: weir\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n" +
	"This port speaks HTTPS and was sent an HTTP request; use https:// in the URL.\n")

// tell sends a whole answer and closes. Whether the peer could read it does not
// matter.
func (c *conn) tell(answer []byte) {
	c.lingerBytes, c.lingerTime = 64<<10, tellTime
	c.lingers.Store(true)
	_, _ = c.Write(answer)
	_ = c.Close()
}

func handshakeFault(err error) string {
	if record, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		if looksLikeHTTP(record.RecordHeader) {
			return HandshakePlain
		}
		return HandshakeGarbage
	}
	broken, failed := errors.AsType[*net.OpError](err) // alerts of either side are told like this, too
	switch {
	case isTimeout(err):
		return HandshakeTimeout
	case failed && (broken.Op == "remote error" || broken.Op == "local error"):
		return HandshakeRefused
	case failed, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return HandshakeHangup
	}
	return HandshakeRefused
}

// looksLikeHTTP knows a request by how its method begins.
func looksLikeHTTP(begin [5]byte) bool {
	switch string(begin[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "PATCH", "DELET", "OPTIO", "CONNE", "TRACE":
		return true
	}
	return false
}

// notify tells a TLS client that the connection's end is meant, so that it does not
// take the end for a cut. A shutdown, which closes resting connections one after the
// other, does not wait for clients to take that in.
func (c *conn) notify() {
	if c.secure == nil || c.listener != nil && c.listener.stopping.Load() {
		return
	}
	select {
	case <-c.gone:
	default:
		_ = c.secure.CloseWrite() // 5 s at most; whether the peer could read it does not matter
	}
}
