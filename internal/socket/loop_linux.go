package socket

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
)

const (
	loopBytes = 16 << 10 // read at once
	loopReads = 16       // of one socket, before the others have their turn

	// loopShare is how many sockets a loop follows before there is another loop. Few loops are cheap: what comes together is served by
	// one thread that is woken once. 64 streams of 200 tokens a second take about a quarter of a processor.
	loopShare = 64
)

// loop reads sockets in one goroutine. It lasts as long as the process.
type loop struct {
	poll
	buf   [loopBytes]byte
	count atomic.Int64 // sockets

	mu    sync.Mutex
	slots []*following // places, which events name; nil: a free one
	free  []int32
}

// following is a socket whose reads are a loop's.
type following struct {
	take func(piece []byte) (used int, more bool)
	fd   uintptr
	over chan struct{} // closed at the end

	mu       sync.Mutex // held while take runs
	ended    bool
	ahead    []byte // read, and not used
	err      error  // what a read failed with
	panicked any    // what take panicked with
}

var loops struct {
	mu   sync.Mutex
	list []*loop
}

// pickLoop gives the loop with the fewest sockets, of as many loops as the sockets need and processors can run; nil where the system has
// no descriptor for one. The caller counts itself off again.
func pickLoop() *loop {
	loops.mu.Lock()
	defer loops.mu.Unlock()
	var best *loop
	for _, l := range loops.list {
		if best == nil || l.count.Load() < best.count.Load() {
			best = l
		}
	}
	if best == nil || best.count.Load() >= loopShare && len(loops.list) < runtime.GOMAXPROCS(0) {
		if l := newLoop(); l != nil {
			loops.list = append(loops.list, l)
			best = l
		}
	}
	if best != nil {
		best.count.Add(1)
	}
	return best
}

func newLoop() *loop {
	l := &loop{}
	l.ready = func(e *syscall.EpollEvent) {
		if f := l.at(e.Fd); f != nil {
			l.read(f, e)
		}
	}
	if !l.start() {
		return nil
	}
	return l
}

// at is the socket at a place; nil where it is followed no more. A late event may be of the one before it: one read too many then.
func (l *loop) at(place int32) *following {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.slots[place]
}

// read reads a socket until nothing is left.
func (l *loop) read(f *following, e *syscall.EpollEvent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			f.panicked = fmt.Sprintf("%v\n%s", v, debug.Stack()) // which the caller's stack does not show
			f.end()
		}
	}()
	// The events come at edges. A read that did not fill the buffer has left nothing behind, and what comes later is an edge again; except for
	// an end that came with the data, which the event tells.
	ends := e.Events&(syscall.EPOLLRDHUP|syscall.EPOLLHUP|syscall.EPOLLERR) != 0
	for range loopReads {
		if !f.read(l.buf[:], ends) {
			return
		}
	}
	again := edges(e.Fd)
	_ = syscall.EpollCtl(l.epoll, syscall.EPOLL_CTL_MOD, int(f.fd), &again) // is reported again
}

// read reads once, and reports whether there may be more. The caller holds mu.
func (f *following) read(buf []byte, ends bool) (more bool) {
	n, errno := readNow(f.fd, buf)
	switch {
	case errno == syscall.EINTR:
		return true
	case errno == syscall.EAGAIN:
		return false
	case errno != 0:
		f.err = os.NewSyscallError("read", errno)
	case n == 0:
		f.err = io.EOF
	default:
		if f.pass(buf[:n]) {
			return ends || n == len(buf)
		}
	}
	f.end()
	return false
}

// pass gives take a piece, behind what it has not used of the ones before. The caller holds mu.
func (f *following) pass(piece []byte) (more bool) {
	fresh := len(f.ahead) == 0
	if !fresh {
		f.ahead = append(f.ahead, piece...)
		piece = f.ahead
	}
	used, more := f.take(piece)
	if fresh {
		f.ahead = append(f.ahead, piece[used:]...)
	} else {
		f.ahead = f.ahead[:copy(f.ahead, f.ahead[used:])]
	}
	return more
}

// end ends the following. The caller holds mu.
func (f *following) end() {
	if !f.ended {
		f.ended = true
		close(f.over)
	}
}

// stop ends the following once no take runs.
func (f *following) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.end()
}

// edge is EPOLLET, which package syscall has as a negative number.
const edge = 1 << 31

func edges(place int32) syscall.EpollEvent {
	return syscall.EpollEvent{Events: syscall.EPOLLIN | syscall.EPOLLRDHUP | edge, Fd: place}
}

// follow serves f until it is over, at once where the system refuses it.
func (l *loop) follow(f *following) {
	place := l.seat(f)
	e := edges(place)
	if syscall.EpollCtl(l.epoll, syscall.EPOLL_CTL_ADD, int(f.fd), &e) == nil { // what lies there already is an edge
		<-f.over
		_ = syscall.EpollCtl(l.epoll, syscall.EPOLL_CTL_DEL, int(f.fd), &e)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slots[place] = nil
	l.free = append(l.free, place)
}

// seat gives f a place.
func (l *loop) seat(f *following) (place int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.free); n > 0 {
		place, l.free = l.free[n-1], l.free[:n-1]
		l.slots[place] = f
		return place
	}
	l.slots = append(l.slots, f)
	return int32(len(l.slots) - 1) //nolint:gosec // no more than there are descriptors
}

// Follow implements Follower.
func (c *conn) Follow(take func(piece []byte) (used int, more bool)) {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	f := &following{take: take, over: make(chan struct{}), ahead: c.ahead}
	if len(f.ahead) == 0 || f.pass(nil) {
		c.await(f)
	}
	c.ahead = f.ahead
	if f.panicked != nil {
		panic(f.panicked)
	}
}

// await lets a loop follow the connection until that is over. The caller holds the lock.
func (c *conn) await(f *following) {
	if c.aheadErr != nil {
		return
	}
	l := pickLoop()
	if l == nil {
		return
	}
	defer l.count.Add(-1)
	if !c.following.CompareAndSwap(nil, f) {
		return // it is closed
	}
	_ = c.in.raw.Control(func(fd uintptr) { // keeps the descriptor; a closed connection tells so at its next use
		f.fd = fd
		l.follow(f)
	})
	c.following.CompareAndSwap(f, nil)
	f.stop() // where Control failed; no take runs from here on
	c.aheadErr = f.err
}

// Latest implements Follower.
func (c *conn) Latest() (piece []byte, reads int) { return c.latest, c.reads }

// closed stands for what a closed connection follows.
var closed following

// Close ends Follow, too.
func (c *conn) Close() error {
	if f := c.following.Swap(&closed); f != nil && f != &closed {
		f.stop()
	}
	return c.writer.Close()
}
