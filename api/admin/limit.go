package admin

import (
	"net"
	"sync"
)

// Limit bounds the connections of a listener that are open at once. Further
// ones wait in the kernel's backlog: scrapes are short, and a client that profiles
// can wait.
func Limit(ln net.Listener, connections int) net.Listener {
	return &limited{Listener: ln, places: make(chan struct{}, connections), closed: make(chan struct{})}
}

type limited struct {
	net.Listener
	places  chan struct{} // one value per open connection
	closed  chan struct{}
	closing sync.Once
}

func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.places <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	return &place{Conn: c, leave: sync.OnceFunc(func() { <-l.places })}, nil
}

func (l *limited) Close() error {
	l.closing.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// place is a connection that gives its place back when it is closed.
type place struct {
	net.Conn
	leave func()
}

func (p *place) Close() error {
	defer p.leave()
	return p.Conn.Close()
}
