package socket

import (
	"net"
	"testing"
	"time"
)

// A connection tells of its end once, whatever lies before it unread, and not of one that is its own.
func TestEndsAreTold(t *testing.T) {
	for name, end := range map[string]func(peer *net.TCPConn){
		"closed":      func(peer *net.TCPConn) { _ = peer.Close() },
		"half closed": func(peer *net.TCPConn) { _ = peer.CloseWrite() },
		"reset":       func(peer *net.TCPConn) { _ = peer.SetLinger(0); _ = peer.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			quick, peer := pair(t)
			told := make(chan struct{}, 2)
			if !quick.(EndNotifier).OnEnd(func() { told <- struct{}{} }) {
				t.Fatal("a connection cannot tell of its end")
			}
			if _, err := peer.Write([]byte("unread")); err != nil {
				t.Fatal(err)
			}
			end(peer)
			select {
			case <-told:
			case <-time.After(10 * time.Second):
				t.Fatal("the end was not told")
			}
			_ = quick.Close()
			if len(told) != 0 {
				t.Error("told twice")
			}
		})
	}
}

// A connection that was closed tells nothing, and leaves nothing behind.
func TestClosedConnectionsTellNoEnd(t *testing.T) {
	quick, peer := pair(t)
	if !quick.(EndNotifier).OnEnd(func() { t.Error("told of an end of its own") }) {
		t.Fatal("a connection cannot tell of its end")
	}
	_ = quick.Close()
	_ = peer.Close()
	if quick.(EndNotifier).OnEnd(func() {}) {
		t.Error("a closed connection was asked")
	}
	e := allEnds()
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.tell) != 0 {
		t.Errorf("%d functions are left", len(e.tell))
	}
}
