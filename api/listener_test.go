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
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &failing{ln, make(chan error, 8)}
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED, syscall.EMFILE} {
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

func TestPausingAcceptEndsAtClose(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &failing{ln, make(chan error, 100)}
	for range cap(f.errs) {
		f.errs <- syscall.EMFILE
	}
	l := newListener(f, DefaultConfig(), &budget{})
	l.pause = time.Minute
	done := make(chan error, 1)
	go func() { _, err := l.Accept(); done <- err }()
	time.Sleep(20 * time.Millisecond)
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
	config := DefaultConfig()
	config.MaxConnections = 4
	var turned atomic.Int32
	config.Hooks.OnTurnedAway = func() { turned.Add(1) }
	addr, s := serve(t, config, &handlerFunc{handle: func(ctx *fasthttp.RequestCtx) { ctx.SetBody(ctx.Path()) }})
	var first []*bufio.Reader
	var conns []*net.TCPConn
	for range 4 {
		c := dial(t, addr)
		send(t, c, get("/a"))
		br := bufio.NewReader(c)
		expectBody(t, br, "/a")
		first, conns = append(first, br), append(conns, c)
	}
	told := 0
	for range 3 * turnAwayLane {
		c := dial(t, addr)
		_, _ = io.WriteString(c, get("/surplus"))
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err == nil && res.StatusCode == 503 && res.Header.Get("Retry-After") == "1" && res.Close {
			told++
		}
		_ = c.Close()
	}
	if told < turnAwayLane || turned.Load() != 3*turnAwayLane {
		t.Errorf("%d were told, %d counted", told, turned.Load())
	}
	for i, c := range conns {
		send(t, c, get("/b"))
		expectBody(t, first[i], "/b")
	}
	_ = conns[0].Close()
	for end := time.Now().Add(patience); s.Stats().Connections == 4 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	c := dial(t, addr)
	send(t, c, get("/free"))
	expectBody(t, bufio.NewReader(c), "/free")
}
