package api

import (
	"container/list"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"weir/internal/socket"
)

const (
	minAcceptPause = 5 * time.Millisecond
	maxAcceptPause = time.Second

	// turnAwayPlaces is how many surplus connections are answered with 503 at a
	// time. Each holds a descriptor until its client has read the answer; a
	// surplus connection beyond these is closed without an answer.
	turnAwayPlaces = 16

	// leastRest is how long a connection may rest, or take over sending a
	// request, before it may have to make place for a new one.
	leastRest = time.Second
)

// listener bounds the number of open connections and keeps a list of them, so
// that a shutdown can close those that their peers keep open. A temporary failure
// of accept, such as running out of descriptors, never ends the listener.
//
// When all places are taken, the connection that has been without a request
// for the longest time is closed for the new one, so that a flood of connections
// without requests locks nobody out. Where every connection has a request, the new
// one gets a 503 and is not left in the kernel's backlog, where its client would
// wait without knowing why and a load balancer would see no error.
type listener struct {
	net.Listener
	config Config
	bodies *budget

	pause       time.Duration // before the next Accept; owned by the accepting goroutine
	turningAway chan struct{} // holds a value for each connection that is being told 503
	closed      chan struct{}
	closing     sync.Once
	stopping    atomic.Bool // the server shuts down

	mu   sync.Mutex
	open map[*conn]struct{}
	idle *list.List // of *conn: those without a request, the longest resting first
}

func newListener(ln net.Listener, c Config, bodies *budget) *listener {
	return &listener{
		Listener: ln, config: c, bodies: bodies, open: make(map[*conn]struct{}), idle: list.New(),
		turningAway: make(chan struct{}, turnAwayPlaces), closed: make(chan struct{}),
	}
}

// Accept waits for the next connection that there is a place for.
func (l *listener) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		switch {
		case err == nil:
			l.pause = 0
			if c := l.wrap(nc); c != nil {
				return c, nil
			}
			l.turnAway(nc)
		case !passes(err):
			return nil, err
		default:
			l.pause = min(max(minAcceptPause, 2*l.pause), maxAcceptPause)
			if h := l.config.Hooks.OnAcceptError; h != nil {
				h(err, l.pause)
			}
			if !l.rest(l.pause) {
				return nil, net.ErrClosed
			}
		}
	}
}

// passing are the errors of accept(2) after which the next call may succeed: a
// resource is exhausted for the moment, or the new connection failed before it was
// accepted.
var passing = []error{
	syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM,
	syscall.ECONNABORTED, syscall.EINTR, syscall.EAGAIN, syscall.EPERM, syscall.EPROTO, syscall.ENOPROTOOPT, syscall.EOPNOTSUPP,
	syscall.ENETDOWN, syscall.ENETUNREACH, syscall.EHOSTDOWN, syscall.EHOSTUNREACH,
}

func passes(err error) bool {
	for _, e := range passing {
		if errors.Is(err, e) {
			return true
		}
	}
	return isTimeout(err)
}

// rest is false when the listener was closed meanwhile.
func (l *listener) rest(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.closed:
		return false
	}
}

// Close ends Accept, also one that rests.
func (l *listener) Close() error {
	l.closing.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// wrap makes a conn of a new connection; nil where the limit of connections is
// reached.
func (l *listener) wrap(nc net.Conn) *conn {
	c := newConn(socket.QuickWrites(nc, l.config.WriteTimeout), l.forget)
	c.listener, c.bodies, c.lingerBytes = l, l.bodies, 4*int64(l.config.MaxRequestBytes)
	if l.config.TLS != nil {
		c.speakTLS(l.config.TLS, l.config.ReadTimeout)
	}
	resting, ok := l.place(c)
	if !ok {
		return nil
	}
	if resting != nil {
		_ = resting.abort() // it has no request to answer
		if h := l.config.Hooks.OnEvicted; h != nil {
			h()
		}
	}
	return c
}

// place gives c a place, if need be that of a resting connection, which the
// caller must close.
func (l *listener) place(c *conn) (resting *conn, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= l.config.MaxConnections {
		resting = l.longestResting()
		if resting == nil {
			return nil, false
		}
		l.remove(resting)
	}
	l.open[c] = struct{}{}
	l.enlist(c)
	return resting, true
}

func (l *listener) longestResting() *conn {
	front := l.idle.Front()
	if front == nil {
		return nil
	}
	c, _ := front.Value.(*conn)
	if time.Since(c.restedAt) < leastRest {
		return nil
	}
	return c
}

// rests and works follow a connection between its requests and through them.
func (l *listener) rests(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, open := l.open[c]; open {
		l.enlist(c)
	}
}

func (l *listener) works(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delist(c)
}

func (l *listener) enlist(c *conn) {
	if c.resting == nil {
		c.resting, c.restedAt = l.idle.PushBack(c), time.Now()
	}
}

func (l *listener) delist(c *conn) {
	if c.resting != nil {
		l.idle.Remove(c.resting)
		c.resting = nil
	}
}

func (l *listener) remove(c *conn) {
	delete(l.open, c)
	l.delist(c)
}

// surplus is the whole response to a connection beyond the bound.
var surplus = func() []byte {
	e := Refuse("too_many_connections",
		"the server has as many connections as it may; retry, or raise --http-max-connections and the limit on open files")
	head := "HTTP/1.1 503 Service Unavailable\r\nServer: weir\r\nContent-Type: application/json\r\nConnection: close\r\n"
	e.Headers(func(name, value string) { head += name + ": " + value + "\r\n" })
	return e.AppendJSON([]byte(head + "\r\n"))
}()

// turnAway says 503 to a connection without holding up Accept.
func (l *listener) turnAway(nc net.Conn) {
	if h := l.config.Hooks.OnTurnedAway; h != nil {
		h()
	}
	select {
	case l.turningAway <- struct{}{}:
	default:
		_ = nc.Close() // no place to answer it
		return
	}
	go func() {
		defer func() { <-l.turningAway }()
		c := newConn(socket.QuickWrites(nc, tellTime), nil)
		if l.config.TLS != nil {
			c.speakTLS(l.config.TLS, tellTime)
			if c.greet() != nil {
				_ = c.abort() // nobody can be told
				return
			}
		}
		c.tell(surplus)
	}()
}

// tellTime bounds each step of an answer to a connection that gets no other.
const tellTime = time.Second

// tell sends a whole answer and closes. Whether the peer could read it does not
// matter.
func (c *conn) tell(answer []byte) {
	c.lingerBytes, c.lingerTime = 64<<10, tellTime
	c.lingers.Store(true)
	_, _ = c.Write(answer)
	_ = c.Close()
}

func (l *listener) forget(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(c)
}

func (l *listener) openConnections() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
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
		_ = c.abort() // the peer is told nothing; there is nobody to report to
	}
}
