package api

import (
	"container/list"
	"errors"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"weir/internal/memory"
	"weir/internal/socket"
)

const (
	minAcceptPause = 5 * time.Millisecond
	maxAcceptPause = time.Second

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
// without requests locks no client out. An address that has more than half of all places loses its idle connections
// at once to those of other addresses. Where every connection has a request, or has had
// no time to send one, the new one is a surplus connection; see surplus.
type listener struct {
	net.Listener
	config Config
	bodies *memory.Budget

	pause    time.Duration // before the next Accept; owned by the accepting goroutine
	closed   chan struct{}
	closing  sync.Once
	closeErr error       // of the one Close of the listener below; written once, by closing
	stopping atomic.Bool // the server shuts down

	mu      sync.Mutex
	open    map[*conn]struct{}
	surplus *list.List         // of connections beyond MaxConnections, the oldest first; guarded by mu
	idle    *list.List         // of *conn: those without a request, the longest resting first
	resting map[netip.Addr]int // how many of idle there are, by network
}

func newListener(ln net.Listener, c Config, bodies *memory.Budget) *listener {
	return &listener{
		Listener: ln, config: c, bodies: bodies, open: make(map[*conn]struct{}), idle: list.New(),
		resting: make(map[netip.Addr]int), surplus: list.New(), closed: make(chan struct{}),
	}
}

// Accept waits for the next connection.
func (l *listener) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		switch {
		case err == nil:
			l.pause = 0
			return l.wrap(nc), nil
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

// Close ends Accept, also one that rests. Shutdown and a Serve that has just begun may both close the same listener; each
// gets the error of the one Close.
func (l *listener) Close() error {
	l.closing.Do(func() {
		close(l.closed)
		l.closeErr = l.Listener.Close()
	})
	return l.closeErr
}

// wrap makes a conn of a new connection, and closes the one that has to make place for it.
func (l *listener) wrap(nc net.Conn) *conn {
	c := newConn(socket.QuickWrites(nc, l.config.WriteTimeout), l.forget)
	c.network = networkOf(nc.RemoteAddr())
	c.listener, c.bodies, c.lingerBytes = l, l.bodies.Share(), 4*int64(l.config.MaxRequestBytes)
	if l.config.TLS != nil {
		c.speakTLS(l.config.TLS, l.config.ReadTimeout)
	}
	if resting := l.place(c); resting != nil {
		_ = resting.abort() // it has no request to answer
		if resting.surplus != nil {
			l.turnedAway(resting)
		} else if h := l.config.Hooks.OnEvicted; h != nil {
			h()
		}
	}
	return c
}

// place gives c a place, if need be that of a resting connection, or makes it a surplus connection,
// if need be in place of another. The caller must close the one that is returned.
func (l *listener) place(c *conn) (resting *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= l.config.MaxConnections {
		if resting = l.longestResting(); resting == nil {
			resting = l.crowding(c)
		}
		if resting == nil {
			return l.placeSurplus(c)
		}
		l.remove(resting)
	}
	l.open[c] = struct{}{}
	l.enlist(c)
	return resting
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

// crowding is the longest resting connection of an address that has more than half of all places without using them, if
// c is of another one.
func (l *listener) crowding(c *conn) *conn {
	for e := l.idle.Front(); e != nil; e = e.Next() {
		other, _ := e.Value.(*conn)
		if l.resting[other.network] > l.config.MaxConnections/2 {
			if other.network == c.network {
				return nil // only one address can have so many
			}
			return other
		}
	}
	return nil
}

// networkOf is who has a peer's address: the address, or the /64 that a host of IPv6 has for itself.
func networkOf(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	address := tcp.AddrPort().Addr().Unmap()
	if address.Is6() {
		if prefix, err := address.WithZone("").Prefix(64); err == nil {
			return prefix.Addr()
		}
	}
	return address
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
		l.resting[c.network]++
	}
}

func (l *listener) delist(c *conn) {
	if c.resting != nil {
		l.idle.Remove(c.resting)
		c.resting = nil
		if l.resting[c.network]--; l.resting[c.network] == 0 {
			delete(l.resting, c.network)
		}
	}
}

func (l *listener) remove(c *conn) {
	delete(l.open, c)
	l.delist(c)
	l.removeSurplus(c)
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
	open := slices.Collect(maps.Keys(l.open))
	for e := l.surplus.Front(); e != nil; e = e.Next() {
		if c, ok := e.Value.(*conn); ok {
			open = append(open, c)
		}
	}
	l.mu.Unlock()
	for _, c := range open {
		_ = c.abort() // the peer is told nothing; there is no one to report to
	}
}
