package api

import (
	"bufio"
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttputil"
)

const patience = time.Minute // for what must happen; nothing waits this long when all is well

// handlerFunc is a Handler without requests of its own to drain.
type handlerFunc struct {
	handle  func(*fasthttp.RequestCtx)
	takes   func(*fasthttp.RequestHeader) bool // nil: everything
	drained atomic.Int32
	panics  atomic.Int32
	refused atomic.Int32
	fault   atomic.Pointer[Error] // of the last refusal

	onRefused func(*Error) // nil: nothing else is done

	uploads int64 // the largest body at /upload; 0: the server reads it
}

func (h *handlerFunc) Upload(head *fasthttp.RequestHeader) (int64, string) {
	if string(head.RequestURI()) == "/upload" {
		return h.uploads, "--most"
	}
	return 0, ""
}

func (h *handlerFunc) Takes(head *fasthttp.RequestHeader, _ *x509.Certificate) bool {
	return h.takes == nil || h.takes(head)
}
func (h *handlerFunc) Refused(_ *fasthttp.RequestCtx, e *Error) {
	h.fault.Store(e)
	h.refused.Add(1)
	if h.onRefused != nil {
		h.onRefused(e)
	}
}

func (h *handlerFunc) Handle(ctx *fasthttp.RequestCtx) { h.handle(ctx) }
func (h *handlerFunc) Drain(context.Context) error     { h.drained.Add(1); return nil }
func (h *handlerFunc) Panicked(any, []byte)            { h.panics.Add(1) }

// serve runs a server on a loopback port until the test ends.
func serve(t *testing.T, c Config, h *handlerFunc) (addr string, s *Server) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s = New(c, h)
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return ln.Addr().String(), s
}

func dial(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn) //nolint:forcetypeassert // dialled as tcp
}

func send(t *testing.T, c net.Conn, request string) {
	t.Helper()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
}

func get(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n" }

// waitFor fails the test when ch stays silent.
func waitFor[T any](t *testing.T, ch <-chan T, what string) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(patience):
		t.Fatalf("%s did not happen", what)
	}
}

func TestWatchFindsAHangUp(t *testing.T) {
	for _, tc := range []struct {
		name  string
		leave func(*net.TCPConn) error
	}{
		{"close", (*net.TCPConn).Close},
		{"half close", (*net.TCPConn).CloseWrite},
		{"reset", func(c *net.TCPConn) error { return errors.Join(c.SetLinger(0), c.Close()) }},
		{"pipelined request, then close", func(c *net.TCPConn) error {
			_, err := io.WriteString(c, get("/next"))
			return errors.Join(err, c.Close())
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			entered, left := make(chan struct{}), make(chan struct{})
			var once sync.Once
			addr, _ := serve(t, DefaultConfig(), &handlerFunc{handle: func(ctx *fasthttp.RequestCtx) {
				gone := Watch(ctx)
				once.Do(func() { close(entered) })
				select {
				case <-gone:
				case <-time.After(patience):
					t.Error("the hang-up was not found")
				}
				select {
				case <-left:
				default:
					close(left)
				}
			}})
			c := dial(t, addr)
			send(t, c, get("/"))
			waitFor(t, entered, "the request")
			if err := tc.leave(c); err != nil {
				t.Fatal(err)
			}
			waitFor(t, left, "the end of the handler")
		})
	}
}

// echoPath answers with the path, after a watch that found nothing.
func echoPath(t *testing.T) *handlerFunc {
	return &handlerFunc{handle: func(ctx *fasthttp.RequestCtx) {
		gone := Watch(ctx)
		if len(ctx.Path())%3 == 0 {
			select {
			case <-gone:
				t.Error("a living client counts as gone")
			case <-time.After(time.Millisecond):
			}
		}
		ctx.SetBody(append(ctx.Path(), ctx.PostBody()...))
	}}
}

func TestKeepAliveSurvivesTheWatch(t *testing.T) {
	t.Parallel()
	addr, _ := serve(t, DefaultConfig(), echoPath(t))
	c := dial(t, addr)
	br := bufio.NewReader(c)
	for i := range 200 {
		path := "/" + strings.Repeat("x", i%50)
		send(t, c, get(path))
		expectBody(t, br, path)
		if i%40 == 0 {
			time.Sleep(5 * time.Millisecond) // the server waits in Read
		}
	}
}

func expectBody(t *testing.T, br *bufio.Reader, want string) {
	t.Helper()
	res, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil || string(body) != want {
		t.Fatalf("got %.60q, %v; want %.60q", body, err, want)
	}
}

// Requests are cut at every place, so that the watch takes in parts of them,
// and some are larger than what it takes in.
func TestPipeliningSurvivesTheWatch(t *testing.T) {
	t.Parallel()
	addr, _ := serve(t, DefaultConfig(), echoPath(t))
	c := dial(t, addr)
	var all bytes.Buffer
	var want []string
	for i := range 300 {
		path := fmt.Sprintf("/%d", i)
		body := strings.Repeat("b", (i%7)*1500)
		fmt.Fprintf(&all, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
		want = append(want, path+body)
	}
	go func() {
		size := 1
		for all.Len() > 0 {
			if _, err := c.Write(all.Next(size)); err != nil {
				return
			}
			if size = size*3 + 1; size > 20000 {
				size = 1
				time.Sleep(time.Millisecond)
			}
		}
	}()
	br := bufio.NewReader(c)
	for _, w := range want {
		expectBody(t, br, w)
	}
}

func TestIdleTimeoutHoldsAfterTheWatch(t *testing.T) {
	config := DefaultConfig()
	config.IdleTimeout = 50 * time.Millisecond
	addr, _ := serve(t, config, echoPath(t))
	c := dial(t, addr)
	send(t, c, get("/a"))
	br := bufio.NewReader(c)
	expectBody(t, br, "/a")
	if _, err := br.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("an idle connection ended with %v, want EOF", err)
	}
}

// blob is an endless body stream that tells when it was closed.
type blob struct {
	closed chan struct{}
	bytes  int // -1 is endless
}

func (b *blob) Read(p []byte) (int, error) {
	if b.bytes == 0 {
		return 0, io.EOF
	}
	if b.bytes > 0 {
		p = p[:min(len(p), b.bytes)]
		b.bytes -= len(p)
	}
	return len(p), nil
}

func (b *blob) Close() error { close(b.closed); return nil }

func TestWriteDeadlineEndsAReaderThatStopped(t *testing.T) {
	t.Parallel()
	config := DefaultConfig()
	config.WriteTimeout = 100 * time.Millisecond
	body := &blob{closed: make(chan struct{}), bytes: -1}
	addr, _ := serve(t, config, &handlerFunc{handle: func(ctx *fasthttp.RequestCtx) { ctx.SetBodyStream(body, -1) }})
	send(t, dial(t, addr), get("/"))
	waitFor(t, body.closed, "closing the stream of a reader that stopped")
}

// One write deadline must not cover a whole large response.
func TestSlowReaderIsNotCut(t *testing.T) {
	t.Parallel()
	config := DefaultConfig()
	config.WriteTimeout = 2 * time.Second
	const size = 6 << 20
	addr, _ := serve(t, config, &handlerFunc{handle: func(ctx *fasthttp.RequestCtx) { ctx.SetBody(make([]byte, size)) }})
	c := dial(t, addr)
	if err := c.SetReadBuffer(32 << 10); err != nil {
		t.Fatal(err)
	}
	send(t, c, get("/"))
	res, err := http.ReadResponse(bufio.NewReaderSize(c, 4<<10), nil)
	if err != nil {
		t.Fatal(err)
	}
	total, buf := 0, make([]byte, 64<<10)
	for {
		n, err := res.Body.Read(buf)
		total += n
		if err != nil {
			break
		}
		if total%(1<<20) < n {
			time.Sleep(400 * time.Millisecond) // six of these are more than one deadline
		}
	}
	if total != size {
		t.Errorf("a slow reader got %d of %d bytes", total, size)
	}
}

func TestPanicIsAnsweredAndTheServerGoesOn(t *testing.T) {
	h := &handlerFunc{handle: func(ctx *fasthttp.RequestCtx) {
		if string(ctx.Path()) == "/panic" {
			ctx.Response.Header.Set("X-Half", "done")
			panic("a bug")
		}
	}}
	addr, _ := serve(t, DefaultConfig(), h)
	for _, tc := range []struct {
		path   string
		status int
	}{{"/panic", 500}, {"/fine", 200}} {
		c := dial(t, addr)
		send(t, c, get(tc.path))
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		if res.StatusCode != tc.status || res.Header.Get("X-Half") != "" {
			t.Errorf("%s: %v %s", tc.path, res, body)
		}
		if tc.status == 500 && !strings.Contains(string(body), `"code":"internal_error"`) {
			t.Errorf("%s: %s", tc.path, body)
		}
	}
	if n := h.panics.Load(); n != 1 {
		t.Errorf("%d panics were reported, want 1", n)
	}
}

func TestLimitsAnswerWithTheirOwnStatus(t *testing.T) {
	t.Parallel()
	config := DefaultConfig()
	config.MaxRequestBytes = 2000
	config.MaxHeaderBytes = 2048
	addr, _ := serve(t, config, echoPath(t))
	config.ReadTimeout = 100 * time.Millisecond
	hasty, _ := serve(t, config, echoPath(t))
	for _, tc := range []struct {
		name, request string
		status        int
		code          string
	}{
		{"header too large", "GET / HTTP/1.1\r\nHost: x\r\nX-A: " + strings.Repeat("a", 4000) + "\r\n\r\n", 431, "header_too_large"},
		{"body too large", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2001\r\n\r\n", 413, "request_too_large"},
		{"chunks too large", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n7d1\r\n" +
			strings.Repeat("a", 2001) + "\r\n0\r\n\r\n", 413, "request_too_large"},
		{"header too slow", "GET / HTTP/1.1\r\nHo", 408, "request_timeout"},
		{"body too slow", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc", 408, "request_timeout"},
		{"not http", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, "malformed_request"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			to := addr
			if tc.status == 408 {
				to = hasty
			}
			c := dial(t, to)
			send(t, c, tc.request)
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(res.Body)
			if res.StatusCode != tc.status || !strings.Contains(string(body), `"code":"`+tc.code+`"`) {
				t.Errorf("got %d %s, want %d %s", res.StatusCode, body, tc.status, tc.code)
			}
		})
	}
}

// Two readings of one byte stream are how requests are smuggled past a proxy.
// Whatever this server answers, the second request must not be served.
var smuggling = []struct{ name, request string }{
	{"length twice", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Length: 44\r\n\r\n"},
	{"length list", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0, 44\r\n\r\n"},
	{"length with sign", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +0\r\n\r\n"},
	{"length negative", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n"},
	{"length hex", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0x0\r\n\r\n"},
	{"length overflow", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 18446744073709551616\r\n\r\n"},
	{"space before colon", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length : 0\r\n\r\n"},
	{"chunked not last", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"},
	{"coding unknown", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"},
	{"coding twice", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n"},
	{"length and coding", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
	{"coding in HTTP/1.0", "POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
	{"chunk size with sign", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n+0\r\n\r\n"},
	{"chunk size with prefix", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n"},
	{"chunk line ends bare", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\na\n0\n\n"},
	{"header line ends bare", "POST / HTTP/1.1\r\nHost: x\nX: y\r\nContent-Length: 0\r\n\r\n"},
	{"head ends bare", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\n"},
	{"blank behind the coding", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked \r\n\r\n0\r\n\r\n"},
	{"blank behind a chunk size", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1 \r\na\r\n0\r\n\r\n"},
	{"tab behind the last chunk size", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\t\r\n\r\n"},
	{"chunk too long for its size", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n"},
	{"extension with bare line end", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0;\nx\r\n\r\n"},
	{"folded header", "POST / HTTP/1.1\r\nHost: x\r\nX: a\r\n Content-Length: 44\r\nContent-Length:\r\n 0\r\n\r\n"},
	{"coding folded", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"},
	{"coding with space before colon",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding : chunked\r\nContent-Length: 44\r\n\r\n0\r\n\r\n"},
	{"length in a trailer", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 44\r\n\r\n"},
	{"chunk size too large", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff0\r\n\r\n"},
	{"chunk size empty", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n\r\n0\r\n\r\n"},
	{"chunk without its end", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na0\r\n\r\n"},
	{"length too short for a refused body", "POST /refused HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n"},
	{"refused chunks", "POST /refused HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
	{"refused with expectation", "POST /refused HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n"},
	{"too large", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 8388609\r\n\r\n"},
	{"null in header", "POST / HTTP/1.1\r\nHost: x\r\nX: a\x00b\r\nContent-Length: 0\r\n\r\n"},
}

func TestSmugglingCorpus(t *testing.T) {
	var mu sync.Mutex
	served := map[string]int{}
	h := &handlerFunc{handle: func(ctx *fasthttp.RequestCtx) {
		mu.Lock()
		served[string(ctx.Path())]++
		mu.Unlock()
	}}
	h.takes = func(head *fasthttp.RequestHeader) bool { return string(head.RequestURI()) != "/refused" }
	addr, _ := serve(t, DefaultConfig(), h)
	for i, tc := range smuggling {
		t.Run(tc.name, func(t *testing.T) {
			c := dial(t, addr)
			path := fmt.Sprintf("/smuggled%d", i)
			send(t, c, tc.request+get(path))
			if err := c.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			answer, _ := io.ReadAll(c)
			mu.Lock()
			defer mu.Unlock()
			if served[path] > 0 {
				t.Errorf("the second request was served; answers:\n%s", answer)
			}
		})
	}
}

// A Serve that begins while the server is shut down, or after that, ends as one that has served.
func TestShutdownEndsAServeThatHasJustBegun(t *testing.T) {
	for range 200 {
		s := New(DefaultConfig(), &handlerFunc{})
		ln := fasthttputil.NewInmemoryListener()
		done := make(chan error, 1)
		go func() { done <- s.Serve(ln) }()
		if err := s.Shutdown(context.Background()); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
		late := fasthttputil.NewInmemoryListener()
		if err := s.Serve(late); err != nil {
			t.Errorf("serve behind the shutdown: %v", err)
		}
		if _, err := late.Accept(); err == nil {
			t.Error("the late listener is open")
		}
	}
}

func TestShutdownEndsIdleAndStuckConnections(t *testing.T) {
	t.Parallel()
	config := DefaultConfig()
	config.CloseTimeout = 300 * time.Millisecond
	entered := make(chan struct{})
	release := make(chan struct{})
	h := &handlerFunc{handle: func(ctx *fasthttp.RequestCtx) {
		if string(ctx.Path()) == "/stuck" {
			close(entered)
			<-Watch(ctx)
			<-release
		}
	}}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(config, h)
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	idle, stuck := dial(t, ln.Addr().String()), dial(t, ln.Addr().String())
	send(t, idle, get("/idle"))
	br := bufio.NewReader(idle)
	if _, err := http.ReadResponse(br, nil); err != nil {
		t.Fatal(err)
	}
	send(t, stuck, get("/stuck"))
	waitFor(t, entered, "the stuck request")
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	for name, c := range map[string]io.Reader{"idle": br, "stuck": stuck} {
		if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("the %s connection is open after shutdown", name)
		}
	}
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if h.drained.Load() != 1 {
		t.Error("the handler was not drained")
	}
	if _, err := net.DialTimeout("tcp", ln.Addr().String(), time.Second); err == nil {
		t.Error("the listener still accepts")
	}
}

func TestWatchLeavesNoGoroutines(t *testing.T) {
	addr, _ := serve(t, DefaultConfig(), &handlerFunc{handle: func(ctx *fasthttp.RequestCtx) {
		Watch(ctx)
		ctx.SetBody(ctx.Path())
	}})
	warm := dial(t, addr)
	send(t, warm, get("/"))
	expectBody(t, bufio.NewReader(warm), "/")
	before := runtime.NumGoroutine()
	for i := range 50 {
		c := dial(t, addr)
		send(t, c, get("/xx"))
		if i%2 == 0 {
			expectBody(t, bufio.NewReader(c), "/xx")
		}
		_ = c.Close()
	}
	deadline := time.Now().Add(patience)
	for runtime.NumGoroutine() > before+8 { // idle workers of the pool stay a while
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<16)
			t.Fatalf("%d goroutines, %d before\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestConfigNamesTheWrongSetting(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Config){
		"read_timeout":      func(c *Config) { c.ReadTimeout = 0 },
		"write_timeout":     func(c *Config) { c.WriteTimeout = -1 },
		"max_header_bytes":  func(c *Config) { c.MaxHeaderBytes = 1 },
		"max_request_bytes": func(c *Config) { c.MaxRequestBytes = 0 },
		"max_connections":   func(c *Config) { c.MaxConnections = 0 },
	} {
		c := DefaultConfig()
		change(&c)
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), name+" ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A client that closes its connection while it sends a request has hung up: its request was not malformed. Before there is
// a request, no client is told.
func TestAHangUpIsNotAMalformedRequest(t *testing.T) {
	for _, tc := range []struct {
		name, sent string
		request    bool // there was one
	}{
		{"in the request line", "POST /v1/ch", false},
		{"in the header", "POST / HTTP/1.1\r\nHost: x\r\nCont", false},
		{"before the body", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n", false}, // which fasthttp does not tell from the header
		{"in the body", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf", true},
		{"before a chunk", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", true},
		{"in a chunk's size", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1", true},
		{"in a chunk", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf", true},
		{"behind a chunk", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf", true},
		{"before the last chunk", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", true},
		{"in an upload before the last chunk", "POST /upload HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", false},
		{"in an upload", "POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf", false}, // which its handler is told
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := uploading(1 << 20)
			addr, _ := serve(t, DefaultConfig(), h)
			c := dial(t, addr)
			send(t, c, tc.sent)
			if err := c.CloseWrite(); err != nil { // the other half shows what was said
				t.Fatal(err)
			}
			wantError(t, c, statusHungUp, "client_closed_request")
			if n := h.refused.Load(); n != 0 != tc.request || tc.request && h.fault.Load().Code != "client_closed_request" {
				t.Errorf("%d refusals were told, the last one %v", n, h.fault.Load())
			}
		})
	}
}

// A reset connection is a hang-up, too.
func TestAResetIsNotAMalformedRequest(t *testing.T) {
	began := make(chan struct{}, 1)
	h := uploading(1 << 20)
	h.takes = func(*fasthttp.RequestHeader) bool {
		select {
		case began <- struct{}{}:
		default:
		}
		return true
	}
	told := make(chan *Error, 1)
	h.onRefused = func(e *Error) { told <- e }
	addr, _ := serve(t, DefaultConfig(), h)
	c := dial(t, addr)
	send(t, c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf")
	waitFor(t, began, "the request's head")
	if err := c.SetLinger(0); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	select {
	case e := <-told:
		if e.Code != "client_closed_request" {
			t.Errorf("a reset is told as %s", e.Code)
		}
	case <-time.After(patience):
		t.Fatal("the hook was not called")
	}
}
