package api

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttputil"

	"weir/internal/memory"
)

// failing is a listener whose first Accepts fail.
type failing struct {
	net.Listener
	errs chan error
}

func (f *failing) Accept() (net.Conn, error) {
	select {
	case err := <-f.errs:
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", err)}
	default:
		return f.Listener.Accept()
	}
}

func TestAcceptOutlastsShortages(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &failing{ln, make(chan error, 8)}
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED,
		syscall.EMFILE} {
		f.errs <- e
	}
	config := DefaultConfig()
	var pauses []time.Duration
	config.Hooks.OnAcceptError = func(_ error, pause time.Duration) { pauses = append(pauses, pause) }
	s := New(config, echoPath(t))
	done := make(chan error, 1)
	go func() { done <- s.Serve(f) }()
	c := dial(t, ln.Addr().String())
	send(t, c, get("/a"))
	expectBody(t, bufio.NewReader(c), "/a")
	if len(pauses) != 6 || pauses[0] != minAcceptPause || pauses[5] != 32*minAcceptPause {
		t.Errorf("pauses %v", pauses)
	}

	f.errs <- syscall.EMFILE // found by the Accept after the next connection
	second := dial(t, ln.Addr().String())
	send(t, second, get("/b"))
	expectBody(t, bufio.NewReader(second), "/b")
	f.errs <- syscall.EBADF
	dial(t, ln.Addr().String())
	select {
	case err := <-done:
		if !errors.Is(err, syscall.EBADF) {
			t.Errorf("serve ended with %v", err)
		}
	case <-time.After(patience):
		t.Error("a broken listener is tried for ever")
	}
	_ = s.Shutdown(t.Context())
}

// Shutdown closes a listener whose Serve has just begun and closes it, too: neither is told that it was closed before.
func TestAListenerMayBeClosedTwice(t *testing.T) {
	l := newListener(fasthttputil.NewInmemoryListener(), DefaultConfig(), &memory.Budget{})
	for range 2 {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestPausingAcceptEndsAtClose(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &failing{ln, make(chan error, 100)}
	for range cap(f.errs) {
		f.errs <- syscall.EMFILE
	}
	config, pauses := DefaultConfig(), make(chan time.Duration, 1)
	config.Hooks.OnAcceptError = func(_ error, pause time.Duration) { pauses <- pause }
	l := newListener(f, config, &memory.Budget{})
	l.pause = time.Minute
	done := make(chan error, 1)
	go func() { _, err := l.Accept(); done <- err }()
	waitFor(t, pauses, "a pause")
	_ = l.Close()
	select {
	case err := <-done:
		if !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("closing does not end the pause")
	}
}

func TestSurplusConnectionsAreTurnedAway(t *testing.T) {
	t.Parallel()
	config := DefaultConfig()
	config.MaxConnections = 4
	var turned, evicted atomic.Int32
	config.Hooks.OnTurnedAway = func() { turned.Add(1) }
	config.Hooks.OnEvicted = func() { evicted.Add(1) }
	entered, release := make(chan struct{}, config.MaxConnections), make(chan struct{})
	addr, s := serve(t, config, &handlerFunc{handle: func(ctx *fasthttp.RequestCtx) {
		if string(ctx.Path()) == "/busy" {
			gone := Watch(ctx)
			entered <- struct{}{}
			select {
			case <-release:
			case <-gone:
				t.Error("a connection with a request was closed")
			}
		}
		ctx.SetBody(ctx.Path())
	}})
	var busy []*net.TCPConn
	for range 4 {
		c := dial(t, addr)
		send(t, c, get("/busy"))
		busy = append(busy, c)
	}
	for range busy {
		waitFor(t, entered, "a request")
	}
	restLonger(t, s, 0) // however long they take, requests are not evicted
	told := 0
	for range 3 * config.SurplusConnections {
		c := dial(t, addr)
		_, _ = io.WriteString(c, get("/surplus"))
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err == nil && res.StatusCode == 503 && res.Header.Get("Retry-After") == "1" && res.Header.Get("X-Should-Retry") == "true" && res.Close {
			told++
		}
		_ = c.Close()
	}
	if told != 3*config.SurplusConnections || int(turned.Load()) != told || evicted.Load() != 0 {
		t.Errorf("%d were told, %d turned away, %d evicted", told, turned.Load(), evicted.Load())
	}
	close(release)
	for _, c := range busy {
		expectBody(t, bufio.NewReader(c), "/busy")
	}
	_ = busy[0].Close()
	for end := time.Now().Add(patience); s.Stats().Connections == 4 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	c := dial(t, addr)
	send(t, c, get("/free"))
	expectBody(t, bufio.NewReader(c), "/free")
}

// restLonger has all connections of a server have rested for leastRest longer, once count of them rest.
func restLonger(t *testing.T, s *Server, count int) {
	t.Helper()
	for end := time.Now().Add(patience); !s.ageResting(count); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("of %d connections other than %d rest", s.Stats().Connections, count)
		}
	}
}

// ageResting is false where other than count connections rest.
func (s *Server) ageResting(count int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.listeners) == 0 {
		return false
	}
	l := s.listeners[0]
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.idle.Len() != count {
		return false
	}
	for c := range l.open {
		c.restedAt = c.restedAt.Add(-leastRest)
	}
	return true
}

// Connections that ask for nothing, or take for ever to, keep no client out.
func TestRestingConnectionsMakePlace(t *testing.T) {
	t.Parallel()
	config := DefaultConfig()
	config.MaxConnections = 8
	var turned, evicted atomic.Int32
	config.Hooks.OnTurnedAway = func() { turned.Add(1) }
	config.Hooks.OnEvicted = func() { evicted.Add(1) }
	addr, s := serve(t, config, echoPath(t))
	kept := dial(t, addr)
	br := bufio.NewReader(kept)
	for _, request := range []string{"", "GET / HTTP/1.1\r\nHo", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx"} {
		for range 2 {
			send(t, dial(t, addr), request)
		}
	}
	done := dial(t, addr)
	send(t, done, get("/done"))
	expectBody(t, bufio.NewReader(done), "/done")
	restLonger(t, s, 8)
	send(t, kept, get("/a")) // and rests for less than the others from here on
	expectBody(t, br, "/a")
	for range 6 {
		c := dial(t, addr)
		send(t, c, get("/new"))
		expectBody(t, bufio.NewReader(c), "/new")
	}
	send(t, kept, get("/b"))
	expectBody(t, br, "/b")
	if n := s.Stats().Connections; n != 8 || evicted.Load() != 6 || turned.Load() != 0 {
		t.Errorf("%d connections, %d evicted, %d turned away", n, evicted.Load(), turned.Load())
	}
}
