package api

import (
	"net"
	"sync"
	"time"
)

// listener wraps what it accepts and remembers it until closed, so that a
// shutdown can end connections that their peers keep open.
type listener struct {
	net.Listener
	writeTimeout time.Duration

	mu   sync.Mutex
	open map[*conn]struct{}
}

func newListener(ln net.Listener, writeTimeout time.Duration) *listener {
	return &listener{Listener: ln, writeTimeout: writeTimeout, open: make(map[*conn]struct{})}
}

// Accept waits for the next connection.
func (l *listener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := newConn(nc, l.writeTimeout, l.forget)
	l.mu.Lock()
	l.open[c] = struct{}{}
	l.mu.Unlock()
	return c, nil
}

func (l *listener) forget(c *conn) {
	l.mu.Lock()
	delete(l.open, c)
	l.mu.Unlock()
}

// closeAll ends every open connection.
func (l *listener) closeAll() {
	l.mu.Lock()
	open := make([]*conn, 0, len(l.open))
	for c := range l.open {
		open = append(open, c)
	}
	l.mu.Unlock()
	for _, c := range open {
		_ = c.Close() // the peer is told nothing; there is nobody to report to
	}
}
