package api

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"

	"github.com/valyala/fasthttp"

	"weir/internal/memory"
)

// One address that takes all places with heads that it never ends keeps no other client out: what it holds makes place at once
// for another address, and for itself only after leastRest. Probes are answered meanwhile.
func TestOneAddressCannotTakeAllPlaces(t *testing.T) {
	config := DefaultConfig()
	config.MaxConnections = 8
	addr, _ := serve(t, config, &handlerFunc{handle: func(ctx *fasthttp.RequestCtx) { ctx.SetBody(ctx.Path()) }})
	const half = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Le"
	for range 8 {
		send(t, dial(t, addr), half)
	}
	for _, path := range []string{"/ready", "/v1/models", "/v1/models"} {
		from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
		c, err := from.DialContext(t.Context(), "tcp", addr)
		if err != nil {
			t.Skipf("there is no second address here: %v", err)
		}
		defer c.Close()
		send(t, c, get(path))
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if body, _ := io.ReadAll(io.LimitReader(res.Body, res.ContentLength)); res.StatusCode != http.StatusOK || string(body) != path {
			t.Errorf("%s of another address: %d %s", path, res.StatusCode, body)
		}
		send(t, dial(t, addr), half) // the place is taken again
	}
}

// Only an address with more than half of all places has to give one up before its time, and none for itself.
func TestWhoseConnectionsAreACrowd(t *testing.T) {
	config := DefaultConfig()
	config.MaxConnections = 6
	l := newListener(nil, config, memory.New(1<<20))
	rest := func(network string) *conn {
		c := &conn{network: netip.MustParseAddr(network)}
		l.open[c] = struct{}{}
		l.enlist(c)
		return c
	}
	newcomer, same := &conn{network: netip.MustParseAddr("10.0.0.9")}, &conn{network: netip.MustParseAddr("10.0.0.1")}
	rest("10.0.0.2")
	first := rest("10.0.0.1")
	rest("10.0.0.1")
	third := rest("10.0.0.1")
	if c := l.crowding(newcomer); c != nil {
		t.Errorf("three of six are a crowd: %v", c.network)
	}
	rest("10.0.0.1")
	if c := l.crowding(newcomer); c != first {
		t.Errorf("four of six: %v", c)
	}
	if c := l.crowding(same); c != nil {
		t.Errorf("an address pushes itself out: %v", c.network)
	}
	l.works(third)
	if c := l.crowding(newcomer); c != nil || len(l.resting) != 2 {
		t.Errorf("one of them has a request: %v, %v", c, l.resting)
	}
	for c := range l.open {
		l.forget(c)
	}
	if len(l.resting) != 0 || l.idle.Len() != 0 {
		t.Errorf("%v are left", l.resting)
	}
}

func TestNetworks(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.7:99": "192.0.2.7", "[::ffff:192.0.2.7]:99": "192.0.2.7", "[2001:db8:1:2:3:4:5:6]:99": "2001:db8:1:2::", "[fe80::1%eth0]:9": "fe80::",
	} {
		if got := networkOf(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(text))); got.String() != want {
			t.Errorf("%s is of %v, want %s", text, got, want)
		}
	}
	if got := networkOf(&net.UnixAddr{}); got.IsValid() {
		t.Errorf("%v", got)
	}
}
