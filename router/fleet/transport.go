package fleet

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strconv"
	"sync"
	"time"

	"weir/internal/socket"
)

const (
	idleConns    = 256              // idle connections to a replica that are kept for later requests
	idleTime     = time.Minute      // how long they are kept
	atOnceBytes  = 64 << 10         // of a body that is written before the answer is looked at; every system's buffers take that
	maxHeadBytes = 1 << 20          // of an answer, interim ones counted
	maxInterim   = 8                // answers 1xx before one
	dialTimeout  = 5 * time.Second  // of a connection
	keepAlive    = 15 * time.Second // between probes of a connection without traffic
)

// transport sends requests by HTTP/1.1 without TLS in the goroutine of their caller. net/http's Transport hands each request to one goroutine
// and takes its answer from another, which took a fifth of the processor time of relaying a request. It still sends requests over TLS, and
// those with a body above atOnceBytes, which a server may refuse before it has read it.
type transport struct {
	rest *http.Transport

	mu   sync.Mutex
	idle []*pooledConn // idle connections, the one that was used last at the end
	ages *time.Timer
}

func newTransport(dial func(ctx context.Context, network, to string) (net.Conn, error), answerTimeout time.Duration) *transport {
	return &transport{rest: &http.Transport{
		DialContext: dial, ResponseHeaderTimeout: answerTimeout,
		MaxIdleConns: idleConns, MaxIdleConnsPerHost: idleConns, IdleConnTimeout: idleTime,
		TLSHandshakeTimeout: 10 * time.Second, ForceAttemptHTTP2: true,
		DisableCompression: true, // the client's own edge compresses
	}}
}

// RoundTrip implements http.RoundTripper. The request's context bounds the time to the answer's header, too.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "http" || req.ContentLength < 0 || req.ContentLength > atOnceBytes {
		return t.rest.RoundTrip(req)
	}
	for {
		l, err := t.take(req)
		if err != nil {
			return nil, err
		}
		res, again, err := t.exchange(l, req)
		if !again {
			return res, err
		}
		if req.Body != nil { // the server has closed the connection meanwhile, and seen nothing
			if req.Body, err = req.GetBody(); err != nil {
				return nil, err
			}
		}
	}
}

// exchange sends a request on a connection and waits for the answer's header. again: nothing of it was sent.
func (t *transport) exchange(l *pooledConn, req *http.Request) (res *http.Response, again bool, err error) {
	ctx := req.Context()
	if trace := httptrace.ContextClientTrace(ctx); trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{Conn: l.Conn, Reused: l.used})
	}
	stop := context.AfterFunc(ctx, func() { _ = l.Close() }) // which ends reads and writes
	n, err := l.send(req)
	if err == nil || n > 0 { // what refuses a request may close before it has read all of it
		var read error
		if res, read = l.answer(req); read == nil || err == nil {
			err = read
		}
	}
	if err != nil {
		again = l.used && n == 0 && stop()
		stop()
		_ = l.Close()
		if ctx.Err() != nil {
			return nil, false, context.Cause(ctx)
		}
		return nil, again, err
	}
	b := &pooledBody{inner: res.Body, link: l, transport: t, ctx: ctx, stop: stop, kept: !res.Close && !req.Close}
	if res.Body == http.NoBody {
		b.end(true)
		return res, false, nil
	}
	res.Body = b
	return res, false, nil
}

// take gives an idle connection, or a new one.
func (t *transport) take(req *http.Request) (*pooledConn, error) {
	address := req.URL.Host
	if req.URL.Port() == "" {
		address = net.JoinHostPort(req.URL.Hostname(), "80")
	}
	for {
		l := t.last(address)
		if l == nil {
			break
		}
		if q, ok := l.Conn.(socket.IdleChecker); ok && q.IsQuiet() && time.Since(l.rests) < idleTime {
			return l, nil
		}
		_ = l.Close() // the server has ended it
	}
	conn, err := t.rest.DialContext(req.Context(), "tcp", address)
	if err != nil {
		return nil, err
	}
	l := &pooledConn{Conn: conn, address: address}
	l.from = bufio.NewReader(l)
	return l, nil
}

// last takes the idle connection to an address that was used last; nil where there is none.
func (t *transport) last(address string) *pooledConn {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, l := range slices.Backward(t.idle) { // a replica has one address, or two with its admin listener
		if l.address == address {
			t.idle = slices.Delete(t.idle, i, i+1)
			return l
		}
	}
	return nil
}

// put keeps a connection for a later request. One that cannot tell whether its server has ended it is not kept.
func (t *transport) put(l *pooledConn) {
	_, tells := l.Conn.(socket.IdleChecker)
	t.mu.Lock()
	defer t.mu.Unlock()
	if !tells || len(t.idle) >= idleConns || l.from.Buffered() > 0 {
		_ = l.Close()
		return
	}
	l.used, l.rests = true, time.Now()
	t.idle = append(t.idle, l)
	if t.ages == nil {
		t.ages = time.AfterFunc(idleTime, t.age)
	}
}

// age closes the connections that have rested for too long.
func (t *transport) age() {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for n < len(t.idle) && time.Since(t.idle[n].rests) >= idleTime {
		_ = t.idle[n].Close()
		n++
	}
	t.idle = append([]*pooledConn(nil), t.idle[n:]...)
	if t.ages = nil; len(t.idle) > 0 {
		t.ages = time.AfterFunc(idleTime-time.Since(t.idle[0].rests), t.age)
	}
}

// CloseIdleConnections closes what rests, as http.Client's does.
func (t *transport) CloseIdleConnections() {
	t.rest.CloseIdleConnections()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.idle {
		_ = l.Close()
	}
	t.idle = nil
}

// pooledConn is a connection of one request at a time.
type pooledConn struct {
	net.Conn
	address string
	from    *bufio.Reader // of the link itself
	left    int64         // that may be read
	used    bool          // by an earlier request
	rests   time.Time     // since when
}

var errLongHead = fmt.Errorf("the header of the answer is above %d bytes", maxHeadBytes)

// Read bounds the head of an answer.
func (l *pooledConn) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errLongHead
	}
	n, err := l.Conn.Read(p)
	l.left -= int64(n)
	return n, err
}

// requests are buffers that hold a whole one.
var requests = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// send writes a request by one call. n is what of it was written.
func (l *pooledConn) send(req *http.Request) (n int, err error) {
	b, _ := requests.Get().(*bytes.Buffer)
	defer func() {
		b.Reset()
		requests.Put(b)
	}()
	b.WriteString(req.Method)
	b.WriteByte(' ')
	b.WriteString(req.URL.RequestURI())
	b.WriteString(" HTTP/1.1\r\nHost: ")
	b.WriteString(req.URL.Host)
	b.WriteString("\r\n")
	if req.Body != nil || req.Method == http.MethodPost {
		b.WriteString("Content-Length: ")
		b.Write(strconv.AppendInt(b.AvailableBuffer(), req.ContentLength, 10))
		b.WriteString("\r\n")
	}
	if err = req.Header.Write(b); err != nil {
		return 0, err
	}
	b.WriteString("\r\n")
	if req.Body != nil {
		size, err := b.ReadFrom(req.Body)
		_ = req.Body.Close() // a buffer's
		if err == nil && size != req.ContentLength {
			err = fmt.Errorf("a request's body has %d bytes instead of %d", size, req.ContentLength)
		}
		if err != nil {
			return 0, err
		}
	}
	return l.Write(b.Bytes())
}

// answer reads the header of an answer, and those of interim ones before it.
func (l *pooledConn) answer(req *http.Request) (*http.Response, error) {
	l.left = maxHeadBytes
	for range maxInterim {
		res, err := http.ReadResponse(l.from, req)
		if err != nil {
			return nil, err
		}
		if res.StatusCode == http.StatusSwitchingProtocols {
			return nil, errors.New("the server switches protocols unasked")
		}
		if res.StatusCode >= http.StatusOK {
			l.left = math.MaxInt64
			return res, nil
		}
	}
	return nil, fmt.Errorf("the server sends more than %d interim answers", maxInterim)
}

// pooledBody is an answer's body, with the end of which its connection is free for the next request.
type pooledBody struct {
	inner     io.ReadCloser
	link      *pooledConn
	transport *transport
	ctx       context.Context //nolint:containedctx // of the request, which ends with the body
	stop      func() bool
	kept      bool
	once      sync.Once
}

func (b *pooledBody) Read(p []byte) (int, error) {
	n, err := b.inner.Read(p)
	if err != nil {
		b.end(errors.Is(err, io.EOF))
		if !errors.Is(err, io.EOF) && b.ctx.Err() != nil {
			err = context.Cause(b.ctx)
		}
	}
	return n, err
}

func (b *pooledBody) Close() error {
	b.end(false)
	return nil
}

func (b *pooledBody) end(whole bool) {
	b.once.Do(func() {
		if free := b.stop(); free && whole && b.kept {
			b.transport.put(b.link)
			return
		}
		_ = b.link.Close()
	})
}
