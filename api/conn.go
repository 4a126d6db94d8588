package api

import (
	"container/list"
	"crypto/tls"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"weir/internal/memory"
	"weir/internal/socket"
)

const (
	// readAheadBytes bounds what a watching connection takes in of the next,
	// pipelined requests. When it is full the watch ends and a hang-up is
	// found by a failing write instead.
	readAheadBytes = 4 << 10

	// writeStepBytes is how much one write of the transport is, which fails when it takes too long, so that
	// a large answer on a slow but living link is not cut.
	writeStepBytes = 64 << 10

	// lingerTime and lingerPause bound how long a refused client may go on
	// sending: in all, and without a byte.
	lingerTime  = 10 * time.Second
	lingerPause = time.Second
	dropBytes   = 32 << 10 // read at once meanwhile
)

// longAgo is a read deadline in the past, which ends a running Read at once.
var longAgo = time.Unix(1, 0)

// conn adds to a connection: Watch, a background read that finds a hang-up
// while a handler runs; writes by steps; the count of the memory
// that its request's body holds; and a close after which a refused client can
// still read the refusal (linger).
//
// Where the transport tells of its end (socket.EndNotifier), that is the watch, and nothing is read. Otherwise
// the connection's goroutine owns Read, Watch and the deadlines; the watching
// goroutine owns Conn.Read from Watch until the next Read has stopped it.
// What it took in is handed to that Read, so keep-alive and pipelining work
// as without it. A peer that closes its sending half counts as gone, as in
// net/http.
type conn struct {
	net.Conn             // what the server speaks over: raw, or secure
	raw      net.Conn    // the transport, which ends whatever is spoken over it, and bounds each write
	secure   *tls.Conn   // nil: no TLS
	forget   func(*conn) // called once, by the first Close

	bodies memory.Share // what the request that is read or handled holds; owned by the connection's goroutine

	listener *listener     // nil: not counted
	busy     atomic.Bool   // from a request's arrival until the server reads on
	resting  *list.Element // of the listener's list while not busy; guarded by its lock
	restedAt time.Time     // guarded by the listener's lock
	network  netip.Addr    // of the peer; see networkOf

	surplus    *list.Element // of the listener's surplus connections; nil: it has a place. Set before the connection is served
	settled    atomic.Bool   // a surplus connection's probe is answered, or it was told of as turned away
	hurryUntil time.Time     // no read deadline is later; zero: no hurry. Guarded by mu

	greeting     bool          // the TLS handshake is still to come; owned by the connection's goroutine
	greetingTime time.Duration // most time for it

	lingers     atomic.Bool
	lingerBytes int64         // most that is taken in and dropped
	lingerTime  time.Duration // most time for that

	gone      chan struct{}          // closed when the peer has hung up
	hungUp    atomic.Pointer[func()] // called then; nil: nothing is
	goneOnce  sync.Once
	closeOnce sync.Once

	mu           sync.Mutex
	stopped      chan struct{} // closed by the watching goroutine at its end; nil when none runs
	stopping     bool
	readDeadline time.Time // what the server asked for; applied when no watch runs
	ahead        []byte    // bytes read ahead, not yet handed to Read
	aheadErr     error     // what ended the read-ahead, other than our own stop
	first        [1]byte   // spares the buffer for peers that send nothing
	asked, tells bool      // the transport was asked to tell of a hang-up; it does
}

func newConn(c net.Conn, forget func(*conn)) *conn {
	return &conn{Conn: c, raw: c, forget: forget, gone: make(chan struct{}), lingerTime: lingerTime}
}

// connOf is a request's connection; nil if it does not come from this
// package's listener.
func connOf(ctx *fasthttp.RequestCtx) *conn {
	c, ok := ctx.Conn().(interface{ self() *conn })
	if !ok {
		return nil
	}
	return c.self()
}

func (c *conn) self() *conn { return c }

// Watch starts looking for a hang-up on the connection of a request, and
// returns a channel that is closed when there is one. The watch ends by
// itself when the server reads the next request. For a connection that does
// not come from this package's listener it returns nil, which never fires.
func Watch(ctx *fasthttp.RequestCtx) <-chan struct{} {
	c := connOf(ctx)
	if c == nil {
		return nil
	}
	return c.watch()
}

// OnHangUp is Watch for who wants to be called. f is called at most once, must not block, and may be called until the server reads the
// connection's next request.
func OnHangUp(ctx *fasthttp.RequestCtx, f func()) {
	c := connOf(ctx)
	if c == nil {
		return
	}
	c.hungUp.Store(&f)
	select {
	case <-c.watch():
		c.tellHungUp()
	default:
	}
}

func (c *conn) tellHungUp() {
	if f := c.hungUp.Swap(nil); f != nil {
		(*f)()
	}
}

func (c *conn) watch() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.transportTells() || c.stopped != nil || c.aheadErr != nil || len(c.ahead) >= readAheadBytes {
		return c.gone
	}
	// A deadline left from reading this request must not end the watch.
	if err := c.Conn.SetReadDeadline(time.Time{}); err != nil {
		c.markGone()
		return c.gone
	}
	c.stopped, c.stopping = make(chan struct{}), false
	go c.readAhead(c.stopped)
	return c.gone
}

// transportTells has the transport tell of a hang-up, from the first watch to the end of the connection, which takes no goroutine. Over TLS
// a peer hangs up in its own way. The caller holds mu.
func (c *conn) transportTells() bool {
	if !c.asked && c.secure == nil {
		c.asked = true
		if e, ok := c.Conn.(socket.EndNotifier); ok {
			c.tells = e.OnEnd(c.markGone)
		}
	}
	return c.tells
}

// readAhead runs until the peer hangs up, the buffer is full or stopWatch.
func (c *conn) readAhead(stopped chan struct{}) {
	defer close(stopped)
	buf := c.first[:]
	for {
		n, err := c.Conn.Read(buf)
		if !c.tookIn(buf[:n], err) {
			return
		}
		if len(buf) == 1 {
			buf = make([]byte, readAheadBytes)
		}
		buf = buf[:readAheadBytes-c.aheadBytes()]
		if len(buf) == 0 {
			return
		}
	}
}

// tookIn stores the result of one read ahead; false ends the watch.
func (c *conn) tookIn(p []byte, err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead = append(c.ahead, p...)
	if err != nil {
		if !c.stopping || !isTimeout(err) {
			c.aheadErr = err
			c.markGone()
		}
		return false
	}
	return !c.stopping
}

func (c *conn) aheadBytes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.ahead)
}

// stopWatch ends a running watch and puts the server's own read deadline
// back. Afterwards the caller owns Conn.Read.
func (c *conn) stopWatch() error {
	c.hungUp.Store(nil)
	c.mu.Lock()
	stopped := c.stopped
	if stopped == nil {
		c.mu.Unlock()
		return nil
	}
	c.stopping = true
	c.mu.Unlock()

	err := c.Conn.SetReadDeadline(longAgo)
	<-stopped

	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = nil
	if err != nil {
		return err
	}
	return c.Conn.SetReadDeadline(c.readDeadline)
}

// work marks the beginning of a request's handling, which ends when the server
// reads from the connection again, after the answer was written.
func (c *conn) work() {
	if c != nil && c.listener != nil && !c.busy.Swap(true) {
		c.listener.works(c)
	}
}

// Read hands out what a watch took in before it reads on.
func (c *conn) Read(p []byte) (int, error) {
	if c.busy.Swap(false) {
		c.listener.rests(c)
	}
	if c.greeting {
		if err := c.greet(); err != nil {
			c.markGone()
			return 0, err
		}
	}
	if err := c.stopWatch(); err != nil {
		return 0, err
	}
	c.mu.Lock()
	if len(c.ahead) > 0 {
		n := copy(p, c.ahead)
		c.ahead = c.ahead[n:]
		if len(c.ahead) == 0 {
			c.ahead = nil
		}
		c.mu.Unlock()
		return n, nil
	}
	err := c.aheadErr
	c.mu.Unlock()
	if err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p)
	if err != nil && !isTimeout(err) {
		c.markGone()
	}
	return n, err
}

// Write gives each step its own time; a failed write means a gone peer.
func (c *conn) Write(p []byte) (int, error) {
	done := 0
	for {
		step := p[done:min(done+writeStepBytes, len(p))]
		n, err := c.Conn.Write(step)
		done += n
		if err != nil {
			return done, c.lost(err)
		}
		if n < len(step) {
			return done, c.lost(io.ErrShortWrite)
		}
		if done == len(p) {
			return done, nil
		}
	}
}

func (c *conn) lost(err error) error {
	c.markGone()
	return err
}

// SetReadDeadline is kept for later while a watch runs.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.hurryUntil.IsZero() && (t.IsZero() || t.After(c.hurryUntil)) {
		t = c.hurryUntil
	}
	c.readDeadline = t
	if c.stopped != nil {
		return nil
	}
	return c.Conn.SetReadDeadline(t)
}

// SetDeadline sets both deadlines, the reading one as SetReadDeadline does.
func (c *conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// linger delays the close of a request's connection so that its client can read
// the answer. A connection that is closed while bytes lie unread is reset, and a
// reset throws away what the client has not read yet: the refusal.
func linger(ctx *fasthttp.RequestCtx) {
	ctx.SetConnectionClose()
	if c := connOf(ctx); c != nil {
		c.lingers.Store(true)
	}
}

// Close also ends a watch, since the read below it fails. A lingering
// connection first says that nothing more comes, and drops what the client
// still sends until that has ended too, or has been enough.
func (c *conn) Close() error {
	if c.lingers.CompareAndSwap(true, false) {
		c.drop()
	} else {
		c.notify()
	}
	return c.abort()
}

func (c *conn) drop() {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	buf := make([]byte, dropBytes)
	end := time.Now().Add(c.lingerTime)
	for left := c.lingerBytes; left > 0; {
		next := time.Now().Add(lingerPause)
		if next.After(end) {
			next = end
		}
		if c.SetReadDeadline(next) != nil {
			return
		}
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		left -= int64(n)
	}
}

// abort closes at once, without a word: closing what is spoken over TLS can take
// seconds.
func (c *conn) abort() error {
	err := c.raw.Close()
	c.markGone()
	c.closeOnce.Do(func() {
		if c.forget != nil {
			c.forget(c)
		}
	})
	return err
}

// isGone reports whether the peer has hung up, as far as is known.
func (c *conn) isGone() bool {
	if c == nil {
		return false
	}
	select {
	case <-c.gone:
		return true
	default:
		return false
	}
}

func (c *conn) markGone() {
	c.goneOnce.Do(func() {
		close(c.gone)
		c.tellHungUp()
	})
}
