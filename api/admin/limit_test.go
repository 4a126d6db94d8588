package admin

import (
	"errors"
	"net"
	"net/http"
	"testing"
	"time"
)

func TestLimitLeavesTheSurplusWaiting(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := Limit(ln, 2)
	accepted := make(chan net.Conn, 3)
	ended := make(chan error, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				ended <- err
				return
			}
			accepted <- c
		}
	}()
	for range 3 {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	first, second := <-accepted, <-accepted
	select {
	case <-accepted:
		t.Fatal("a third connection was accepted")
	case <-time.After(50 * time.Millisecond):
	}
	_ = first.Close()
	_ = first.Close() // its place is given back once
	third := <-accepted
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("a waiting Accept ended with %v", err)
	}
	_, _ = second.Close(), third.Close()
}

// TestConnectionsThatAskForNothing: those that send no request, and those whose requests were answered, keep no other one out.
func TestConnectionsThatAskForNothing(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := Limit(ln, 2)
	l.leastRest = 0
	server := &http.Server{ConnState: l.Follow, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	for range 4 {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	for range 4 { // each keeps its connection
		client := &http.Client{Transport: &http.Transport{}, Timeout: 10 * time.Second}
		defer client.CloseIdleConnections()
		answer, err := client.Get("http://" + ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
	}
}
