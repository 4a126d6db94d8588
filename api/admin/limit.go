package admin

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

// Places is a listener with a bound on the connections that are open at once. A connection beyond it gets the place of the one that has been
// without a request for the longest time, so that connections which ask for nothing keep no operator out. Where all have a request, it waits:
// scrapes are short, and a client that profiles can wait.
type Places struct {
	net.Listener
	free      chan struct{} // one value per open connection
	closed    chan struct{}
	closing   sync.Once
	leastRest time.Duration // before a place is taken away

	mu      sync.Mutex
	resting *list.List // of *place: connections without a request, the longest resting first
}

// Limit gives a listener so many places. Which connections rest is told to Follow.
func Limit(ln net.Listener, connections int) *Places {
	return &Places{Listener: ln, free: make(chan struct{}, connections), closed: make(chan struct{}), leastRest: time.Second, resting: list.New()}
}

// Accept waits for the next connection, and for a place for it.
func (l *Places) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	wait := time.NewTimer(0)
	defer wait.Stop()
	for {
		select {
		case l.free <- struct{}{}:
			return &place{Conn: c, of: l}, nil
		case <-l.closed:
			_ = c.Close() // it was told nothing yet
			return nil, net.ErrClosed
		case <-wait.C:
			l.takePlace()
			wait.Reset(max(l.leastRest/4, time.Millisecond))
		}
	}
}

// takePlace closes the connection that has rested longest, if one has rested long enough.
func (l *Places) takePlace() {
	l.mu.Lock()
	var longest *place
	if front := l.resting.Front(); front != nil {
		longest, _ = front.Value.(*place)
	}
	taken := longest != nil && time.Since(longest.since) >= l.leastRest
	l.mu.Unlock()
	if taken {
		_ = longest.Close() // it has no request to answer
	}
}

// Follow is told of the states of the listener's connections: it is an http.Server's ConnState.
func (l *Places) Follow(c net.Conn, state http.ConnState) {
	if over, ok := c.(*tls.Conn); ok {
		c = over.NetConn()
	}
	if p, ok := c.(*place); ok && p.of == l {
		p.rest(state == http.StateNew || state == http.StateIdle)
	}
}

// Close implements net.Listener.
func (l *Places) Close() error {
	l.closing.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// place is a connection that gives its place back when it is closed.
type place struct {
	net.Conn
	of    *Places
	left  sync.Once
	entry *list.Element // in the list of those that rest; nil: it does not. Guarded by of.mu
	since time.Time     // when it began to rest
}

// rest notes whether a connection is without a request.
func (p *place) rest(rests bool) {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	switch {
	case rests && p.entry == nil:
		p.since, p.entry = time.Now(), p.of.resting.PushBack(p)
	case !rests && p.entry != nil:
		p.of.resting.Remove(p.entry)
		p.entry = nil
	}
}

// Close implements net.Conn.
func (p *place) Close() error {
	err := p.Conn.Close()
	p.left.Do(func() {
		p.rest(false)
		<-p.of.free
	})
	return err
}
