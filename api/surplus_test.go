package api

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/valyala/fasthttp"
)

// A flood of requests that never end takes every place, those of surplus connections included.
// A probe of the server's health is answered all the same, and others are told why they are not.
func TestHealthIsAnsweredWhereAllPlacesAreTaken(t *testing.T) {
	t.Parallel()
	config := DefaultConfig()
	config.MaxConnections, config.SurplusConnections = 4, 2
	var turned atomic.Int32
	config.Hooks.OnTurnedAway = func() { turned.Add(1) }
	entered, release := make(chan struct{}, 4), make(chan struct{})
	addr, _ := serve(t, config, &handlerFunc{handle: func(ctx *fasthttp.RequestCtx) {
		if string(ctx.Path()) == "/busy" {
			entered <- struct{}{}
			<-release
		}
		ctx.SetBody(ctx.Path())
	}})
	defer close(release)
	for range 4 {
		send(t, dial(t, addr), get("/busy"))
		waitFor(t, entered, "a request")
	}
	var half []net.Conn
	for range 10 {
		c := dial(t, addr)
		send(t, c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Le")
		half = append(half, c)
	}
	for _, probe := range []string{"/health", "/ready", "/health"} {
		c := dial(t, addr)
		send(t, c, get(probe))
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("a probe got %v", err)
		}
		if body, _ := io.ReadAll(res.Body); res.StatusCode != 200 || string(body) != probe || !res.Close {
			t.Errorf("a probe got %d %q, close %v", res.StatusCode, body, res.Close)
		}
	}
	c := dial(t, addr)
	send(t, c, get("/v1/models"))
	if res, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || res.StatusCode != 503 || res.Header.Get("Retry-After") != "1" {
		t.Errorf("another request got %v %v", res, err)
	}
	for _, c := range half {
		_, _ = io.ReadAll(c) // each is closed or told, though it never ends its request
	}
	if n := turned.Load(); n != 11 {
		t.Errorf("%d were turned away, want the ten halves and one request", n)
	}
}
