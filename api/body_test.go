package api

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/reference"

	"github.com/valyala/fasthttp"
)

// answer reads one response.
func answer(t *testing.T, c io.Reader) (*http.Response, string) {
	t.Helper()
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

func wantError(t *testing.T, c io.Reader, status int, code string) *http.Response {
	t.Helper()
	res, body := answer(t, c)
	if res.StatusCode != status || !strings.Contains(body, `"code":"`+code+`"`) {
		t.Errorf("got %d %s, want %d %s", res.StatusCode, body, status, code)
	}
	return res
}

func heapBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A promise of bytes costs the client nothing, so it may not cost us memory.
func TestDeclaredBodiesTakeNoMemory(t *testing.T) {
	const clients, begun = 100, 2000
	addr, s := serve(t, DefaultConfig(), echoPath(t))
	before := heapBytes()
	var all []*net.TCPConn
	for i := range clients {
		c := dial(t, addr)
		send(t, c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 8388608\r\n\r\n"+strings.Repeat("x", i%2*begun))
		all = append(all, c)
	}
	for end := time.Now().Add(patience); s.Stats().BodyBytes < clients/2*begun && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if grew := heapBytes() - before; grew > clients*100<<10 {
		t.Errorf("%d requests without their bodies hold %d KiB", clients, grew>>10)
	}
	for _, c := range all {
		_ = c.Close()
	}
	settled(t, s)
}

// settled waits until no body is held any more.
func settled(t *testing.T, s *Server) {
	t.Helper()
	for end := time.Now().Add(patience); s.Stats().BodyBytes != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d bytes of bodies were never given back", s.Stats().BodyBytes)
		}
	}
}

func TestBodiesArriveWhole(t *testing.T) {
	config := DefaultConfig()
	config.MaxRequestBytes = 200_000
	addr, s := serve(t, config, &handlerFunc{handle: func(ctx *fasthttp.RequestCtx) { ctx.SetBody(ctx.PostBody()) }})
	c := dial(t, addr)
	br := bufio.NewReader(c)
	for _, size := range []int{0, 1, 2, 4095, 4096, 4097, 8192, 65536, 65537, 199_999, 200_000} {
		body := strings.Repeat("0123456789abcdef", size/16+1)[:size]
		send(t, c, fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", size, body))
		expectBody(t, br, body)
		for _, chunk := range []int{1 + size/3, size} {
			send(t, c, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
			for rest := body; rest != ""; rest = rest[min(chunk, len(rest)):] {
				send(t, c, fmt.Sprintf("%x\r\n%s\r\n", min(chunk, len(rest)), rest[:min(chunk, len(rest))]))
			}
			send(t, c, "0\r\nX-Trailer: y\r\n\r\n")
			expectBody(t, br, body)
		}
	}
	settled(t, s)
}

func TestBodyMemoryIsBounded(t *testing.T) {
	config := DefaultConfig()
	config.MaxRequestBytes, config.BodyMemoryBytes = 256<<10, 1<<20
	if err := config.Validate(); err != nil {
		t.Fatal(err)
	}
	addr, s := serve(t, config, &handlerFunc{handle: func(ctx *fasthttp.RequestCtx) { ctx.SetBody(ctx.PostBody()[:1]) }})
	var slow []*net.TCPConn
	var refused atomic.Int64
	begin := func() { // a body without its last byte
		c := dial(t, addr)
		send(t, c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 262144\r\n\r\n")
		go func() { _, _ = c.Write(make([]byte, 262143)) }()
		go func() {
			if _, err := c.Read(make([]byte, 12)); err == nil {
				refused.Add(1)
			}
		}()
		slow = append(slow, c)
	}
	arrived := func() { // until each body is refused or here
		t.Helper()
		for end := time.Now().Add(patience); s.Stats().BodyBytes != (int64(len(slow))-refused.Load())*262144; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("of %d bodies %d were refused; the others hold %d bytes", len(slow), refused.Load(), s.Stats().BodyBytes)
			}
		}
	}
	for range 40 {
		begin()
	}
	arrived()
	if used := s.Stats().BodyBytes; used > config.BodyMemoryBytes*3/4 {
		t.Errorf("%d bodies hold %d bytes of %d", int64(len(slow))-refused.Load(), used, config.BodyMemoryBytes)
	}
	for before := refused.Load(); refused.Load() == before; arrived() { // bodies that came together may have refused one another
		begin()
	}

	large, small := dial(t, addr), dial(t, addr)
	send(t, large, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 262144\r\n\r\n"+strings.Repeat("l", 262144))
	if res := wantError(t, large, 503, "server_is_overloaded"); res.Header.Get("Retry-After") == "" {
		t.Error("the refusal does not say when to come back")
	}
	send(t, small, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n"+strings.Repeat("s", 60000))
	if res, body := answer(t, small); res.StatusCode != 200 || body != "s" {
		t.Errorf("uploads keep a small request out: %d %s", res.StatusCode, body)
	}
	for _, c := range slow {
		_ = c.Close()
	}
	settled(t, s)
}

// The client sends all of a body before it reads, as Python does; without an
// end that lingers it finds its connection reset, and no answer.
func TestRefusalOfALargeBodyCanBeRead(t *testing.T) {
	reference.Slow(t)
	t.Parallel()
	addr, _ := serve(t, DefaultConfig(), echoPath(t))
	mega := strings.Repeat("m", 1<<20)
	for _, tc := range []struct {
		name, head, before, after string // around each megabyte
		status                    int
		code                      string
	}{
		{"length", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 20971520\r\n\r\n", "", "", 413, "request_too_large"},
		{"chunks", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", "100000\r\n", "\r\n", 413, "request_too_large"},
		{"not http", "\x16\x03\x01\r\n\r\n", "", "", 400, "malformed_request"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for range reference.Repeats(3, 10, 10) {
				c := dial(t, addr)
				send(t, c, tc.head)
				for range 20 {
					send(t, c, tc.before+mega+tc.after)
				}
				wantError(t, c, tc.status, tc.code)
				_ = c.Close()
			}
		})
	}
}

// Who goes on for ever is cut all the same.
func TestLingeringEnds(t *testing.T) {
	t.Parallel()
	config := DefaultConfig()
	config.MaxRequestBytes = 1 << 10
	addr, s := serve(t, config, echoPath(t))
	c := dial(t, addr)
	send(t, c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n")
	wantError(t, c, 413, "request_too_large")
	sent := 0
	for chunk := make([]byte, 1<<10); sent < 32<<20; {
		n, err := c.Write(chunk)
		if sent += n; err != nil {
			break
		}
	}
	if sent >= 32<<20 {
		t.Error("a refused client may send without end")
	}
	silent := dial(t, addr)
	send(t, silent, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n")
	for end := time.Now().Add(patience); s.Stats().Connections > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a refused client that stays silent keeps its connection")
		}
	}
}

// A handler that refuses by the head gets no body, and the client its answer
// before it has sent one.
func TestHeadRefusesBeforeTheBody(t *testing.T) {
	h := echoPath(t)
	h.takes = func(head *fasthttp.RequestHeader) bool { return bytes.Equal(head.RequestURI(), []byte("/yes")) }
	h.handle = func(ctx *fasthttp.RequestCtx) {
		if !h.takes(&ctx.Request.Header) {
			if len(ctx.PostBody()) > 0 {
				t.Error("the body of a refused request was read")
			}
			(&Error{Status: 401, Code: "no"}).Write(ctx)
			return
		}
		ctx.SetBody(ctx.PostBody())
	}
	addr, _ := serve(t, DefaultConfig(), h)
	for _, extra := range []string{"Content-Length: 8000000\r\n", "Transfer-Encoding: chunked\r\n",
		"Content-Length: 8000000\r\nExpect: 100-continue\r\n"} {
		c := dial(t, addr)
		send(t, c, "POST /no HTTP/1.1\r\nHost: x\r\n"+extra+"\r\n")
		if res := wantError(t, c, 401, "no"); !res.Close {
			t.Errorf("%q: a connection with an unread body was kept", extra)
		}
	}

	c := dial(t, addr)
	br := bufio.NewReader(c)
	send(t, c, "POST /yes HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-Continue\r\n\r\n")
	if line, err := br.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if _, err := br.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	send(t, c, "ok"+get("/no"))
	expectBody(t, br, "ok")
	if res, err := http.ReadResponse(br, nil); err != nil || res.StatusCode != 401 || res.Close {
		t.Errorf("a pipelined request without a body: %v, %v", res, err)
	}

	old := dial(t, addr)
	send(t, old, "POST /yes HTTP/1.0\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\nok")
	if all, err := io.ReadAll(old); err != nil || strings.Contains(string(all), "100 Continue") ||
		!strings.HasSuffix(string(all), "\r\n\r\nok") {
		t.Errorf("HTTP/1.0 got %q, %v", all, err)
	}
}

func TestStreamsToHTTP10HaveNoChunks(t *testing.T) {
	closed := make(chan struct{}, 2)
	addr, _ := serve(t, DefaultConfig(), &handlerFunc{handle: func(ctx *fasthttp.RequestCtx) {
		gone := Watch(ctx)
		ctx.SetContentType("text/event-stream")
		ctx.Response.ImmediateHeaderFlush = true
		body, w := io.Pipe()
		ctx.SetBodyStream(&pipeBody{body, closed}, -1)
		endless := string(ctx.Path()) == "/endless" // a handler's context is another request's as soon as its stream has ended
		go func() {
			for i := range 3 {
				fmt.Fprintf(w, "data: %d\n\n", i)
			}
			if endless {
				<-gone
			}
			_ = w.Close()
		}()
	}})
	c := dial(t, addr)
	send(t, c, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
	all, err := io.ReadAll(c)
	head, body, _ := strings.Cut(string(all), "\r\n\r\n")
	if err != nil || body != "data: 0\n\ndata: 1\n\ndata: 2\n\n" || strings.Contains(head, "chunked") ||
		strings.Contains(head, "Content-Length") ||
		!strings.Contains(head, "Connection: close") || !strings.Contains(head, "text/event-stream") {
		t.Errorf("%v\n%s", err, all)
	}
	waitFor(t, closed, "closing the stream")

	c = dial(t, addr)
	send(t, c, "GET /endless HTTP/1.0\r\n\r\n")
	if _, err := bufio.NewReader(c).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	waitFor(t, closed, "closing the stream of a client that hung up")
}

type pipeBody struct {
	io.Reader
	closed chan<- struct{}
}

func (p *pipeBody) Close() error { p.closed <- struct{}{}; return nil }

func TestHeadIsChecked(t *testing.T) {
	addr, _ := serve(t, DefaultConfig(), echoPath(t))
	for _, tc := range []struct {
		request string
		status  int
		code    string
	}{
		{"GET / HTTP/9.9\r\nHost: x\r\n\r\n", 505, "http_version_not_supported"},
		{"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505, "http_version_not_supported"},
		{"POST / HTTP/1.2\r\nHost: x\r\nContent-Length: 9999\r\n\r\n", 505, "http_version_not_supported"},
		{"GET / HTTP/1.1\r\n\r\n", 400, "malformed_request"},
		{"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400, "malformed_request"},
		{"GET / HTTP/1.1\r\nHost: x\r\nExpect: other\r\n\r\n", 417, "expectation_failed"},
		{"POST / HTTP/1.1\r\nHost: x\r\nExpect: other\r\nContent-Length: 9\r\n\r\n", 417, "expectation_failed"},
		{"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 8388609\r\n\r\n", 413, "request_too_large"},
		{"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "malformed_request"},
	} {
		c := dial(t, addr)
		send(t, c, tc.request)
		wantError(t, c, tc.status, tc.code)
	}
}

// A client that sends many requests at once, some refused by their head, gets their
// answers in order, up to the first that leaves a body unread.
func TestRefusalsInAPipeline(t *testing.T) {
	h := echoPath(t)
	h.takes = func(head *fasthttp.RequestHeader) bool { return !bytes.Equal(head.RequestURI(), []byte("/no")) }
	addr, s := serve(t, DefaultConfig(), h)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			var all strings.Builder
			for i := range 50 {
				fmt.Fprintf(&all, "POST /%d HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", i)
			}
			all.WriteString("POST /no HTTP/1.1\r\nHost: x\r\nContent-Length: 41\r\n\r\nPOST /smuggled HTTP/1.1\r\nHost: x\r\n\r\n" +
				strings.Repeat(get("/behind"), 20))
			go func() { _, _ = io.WriteString(c, all.String()) }()
			br := bufio.NewReader(c)
			for i := range 51 {
				res, err := http.ReadResponse(br, nil)
				if err != nil {
					t.Errorf("response %d: %v", i, err)
					return
				}
				body, _ := io.ReadAll(res.Body)
				if want := fmt.Sprintf("/%dhello", i); i < 50 && string(body) != want {
					t.Errorf("response %d is %q", i, body)
				}
			}
			if rest, err := io.ReadAll(br); err != nil || len(rest) > 0 {
				t.Errorf("behind the refusal came %q, %v", rest, err)
			}
		})
	}
	wg.Wait()
	settled(t, s)
}

// Buffers that no body needs any more are resident until they are collected. With a collector
// that never runs by itself, a hundred large uploads one after the other stay within the budget.
func TestFreedBodiesCountUntilCollected(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	config := DefaultConfig()
	config.MaxRequestBytes, config.BodyMemoryBytes = 1<<20, 8<<20
	var most int64
	addr, s := serve(t, config, &handlerFunc{handle: func(ctx *fasthttp.RequestCtx) {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		most = max(most, int64(m.HeapAlloc))
		ctx.SetBody(ctx.PostBody()[:1])
	}})
	before := heapBytes()
	body := bytes.Repeat([]byte("b"), 1<<20)
	c := dial(t, addr)
	br := bufio.NewReader(c)
	for range 100 {
		send(t, c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1048576\r\n\r\n")
		if _, err := c.Write(body); err != nil {
			t.Fatal(err)
		}
		expectBody(t, br, "b")
	}
	if grew := most - before; grew > config.BodyMemoryBytes+2<<20 {
		t.Errorf("bodies took %d KiB, their budget is %d KiB", grew>>10, config.BodyMemoryBytes>>10)
	}
	settled(t, s)
}
