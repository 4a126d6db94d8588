package api

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttputil"
)

// A shutdown ends as soon as the connections that rest between requests are closed: in virtual time, at once.
func TestShutdownWaitsForNothing(t *testing.T) {
	h := &handlerFunc{handle: func(ctx *fasthttp.RequestCtx) { ctx.SetBodyString("here") }}
	addr, _ := serve(t, DefaultConfig(), h)
	asked(t, dial(t, addr)) // fasthttp has started what it starts once per process, which must not begin in a bubble of virtual time
	for _, connections := range []int{0, 1, 5} {
		synctest.Test(t, func(t *testing.T) {
			s, ln := New(DefaultConfig(), h), fasthttputil.NewInmemoryListener()
			served := make(chan error, 1)
			go func() { served <- s.Serve(ln) }()
			for range connections {
				c, err := ln.Dial()
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				asked(t, c)
			}
			synctest.Wait()
			begun := time.Now()
			if err := s.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
			if took := time.Since(begun); took != 0 {
				t.Errorf("with %d connections it took %v", connections, took)
			}
			if err := <-served; err != nil {
				t.Error(err)
			}
			time.Sleep(time.Minute) // of virtual time, in which fasthttp's goroutines end
		})
	}
}

// asked sends a request, and reads its answer to the end.
func asked(t *testing.T, c net.Conn) {
	t.Helper()
	send(t, c, get("/"))
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if _, err := io.ReadAll(r.Body); err != nil {
		t.Fatal(err)
	}
}
