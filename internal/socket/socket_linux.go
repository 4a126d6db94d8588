package socket

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Quick returns a connection that is c with cheap reads and writes; c itself where it is none of TCP. What else c can do, the connection
// can do in the same way.
func Quick(c net.Conn) net.Conn {
	w := quickWrites(c, 0)
	if w == nil {
		return c
	}
	q := &conn{writer: w}
	q.in.raw = w.out.raw
	q.in.await, q.in.step = q.in.raw.Read, q.in.read
	return q
}

// QuickWrites is Quick for writes alone. Where the peer takes nothing more, a write waits for patience and fails then, as at a deadline;
// 0 is without an end. A deadline that is set for writes counts in its place.
func QuickWrites(c net.Conn, patience time.Duration) net.Conn {
	if w := quickWrites(c, patience); w != nil {
		return w
	}
	return patient(c, patience)
}

func quickWrites(c net.Conn, patience time.Duration) *writer {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil // closed already, which the first use of c tells
	}
	w := &writer{TCPConn: tcp, patience: patience}
	w.out.raw, w.out.await, w.out.step = raw, raw.Write, w.write
	w.once = func(fd uintptr) { w.out.write(fd) }
	return w
}

// writer writes without telling the scheduler, and sets a deadline only where it has to wait.
type writer struct {
	*net.TCPConn
	out      transfer
	once     func(fd uintptr) // writes what there is room for
	patience time.Duration
	waits    bool          // the deadline is the writer's own; owned by the write in progress
	dated    atomic.Bool   // somebody else has set one
	end      atomic.Uint64 // of OnEnd; 0: not asked
}

// conn reads so, too.
type conn struct {
	*writer
	in        transfer
	following atomic.Pointer[following] // nil: none

	// Of Read and Follow, by the lock of in.
	ahead    []byte // read and not used while it was followed: the next Read's
	aheadErr error  // as above
	latest   []byte // what the last Read has given
	reads    int
}

// transfer is one direction of a connection. One call at a time uses it.
type transfer struct {
	mu    sync.Mutex
	raw   syscall.RawConn
	await func(func(fd uintptr) bool) error // calls step, and again once the socket is ready, until it is true
	step  func(fd uintptr) bool             // read or write, made once so that no call allocates

	buf  []byte
	done int // of buf
	err  error
}

// Read reads what is there, and waits for something where nothing is.
func (c *conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	n, err := c.next(p)
	c.latest, c.reads = p[:n], c.reads+1
	switch {
	case errors.Is(err, io.EOF):
		return 0, io.EOF
	case err != nil:
		return n, c.failed("read", err)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// next reads what Follow has left, or from the socket. The caller holds the lock.
func (c *conn) next(p []byte) (int, error) {
	switch {
	case len(c.ahead) > 0:
		n := copy(p, c.ahead)
		c.ahead = c.ahead[n:]
		return n, nil
	case c.aheadErr != nil:
		err := c.aheadErr
		c.aheadErr = nil // the socket says the same again, or that it has ended
		return 0, err
	}
	return c.in.run(p)
}

// IsQuiet implements IdleChecker.
func (c *conn) IsQuiet() bool {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	quiet := false
	err := c.in.raw.Control(func(fd uintptr) {
		var one [1]byte
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		quiet = errors.Is(err, syscall.EAGAIN)
	})
	return err == nil && quiet && len(c.ahead) == 0 && c.aheadErr == nil
}

// Write writes all of p, and waits where the peer takes no more for now.
func (w *writer) Write(p []byte) (int, error) {
	w.out.mu.Lock()
	defer w.out.mu.Unlock()
	n, err := w.out.run(p)
	if w.waits {
		w.waits = false
		if !w.dated.Load() {
			_ = w.TCPConn.SetWriteDeadline(time.Time{}) // a closed connection tells so at its next use
		}
	}
	if err != nil {
		return n, w.failed("write", err)
	}
	return n, nil
}

// TryWrite implements TryWriter.
func (w *writer) TryWrite(p []byte) (int, error) {
	w.out.mu.Lock()
	defer w.out.mu.Unlock()
	w.out.buf, w.out.done, w.out.err = p, 0, nil
	err := w.out.raw.Control(w.once)
	if err == nil {
		err = w.out.err
	}
	w.out.buf, w.out.err = nil, nil
	if err != nil {
		return w.out.done, w.failed("write", err)
	}
	return w.out.done, nil
}

// write is the step of a write. The first one that finds no room sets the deadline: it covers all that the write still waits for.
func (w *writer) write(fd uintptr) bool {
	if w.out.write(fd) {
		return true
	}
	if w.patience > 0 && !w.waits && !w.dated.Load() {
		w.waits = true
		if err := w.TCPConn.SetWriteDeadline(time.Now().Add(w.patience)); err != nil {
			w.out.err = err
			return true
		}
	}
	return false
}

// SetWriteDeadline is in place of the writer's own patience, until it is set to none.
func (w *writer) SetWriteDeadline(t time.Time) error {
	w.dated.Store(!t.IsZero())
	return w.TCPConn.SetWriteDeadline(t)
}

// SetDeadline is the same for writes.
func (w *writer) SetDeadline(t time.Time) error {
	w.dated.Store(!t.IsZero())
	return w.TCPConn.SetDeadline(t)
}

// run moves the bytes of p. A read takes what one system call gives. The caller holds the lock.
func (t *transfer) run(p []byte) (int, error) {
	t.buf, t.done, t.err = p, 0, nil
	err := t.await(t.step)
	n := t.done
	if err == nil {
		err = t.err
	}
	t.buf, t.err = nil, nil
	return n, err
}

func (t *transfer) read(fd uintptr) bool {
	for {
		n, errno := readNow(fd, t.buf)
		switch errno {
		case 0:
			t.done = n
			return true
		case syscall.EAGAIN:
			return false
		case syscall.EINTR:
		default:
			t.err = os.NewSyscallError("read", errno)
			return true
		}
	}
}

func (t *transfer) write(fd uintptr) bool {
	for t.done < len(t.buf) {
		n, errno := writeNow(fd, t.buf[t.done:])
		switch errno {
		case 0:
			t.done += n
		case syscall.EAGAIN:
			return false
		case syscall.EINTR:
		default:
			t.err = os.NewSyscallError("write", errno)
			return true
		}
	}
	return true
}

// failed is an error as the connection itself would give it.
func (w *writer) failed(op string, err error) error {
	if inner, ok := errors.AsType[*net.OpError](err); ok { // of the wait: a deadline, a connection that is closed
		err = inner.Err
	}
	return &net.OpError{Op: op, Net: "tcp", Source: w.LocalAddr(), Addr: w.RemoteAddr(), Err: err}
}
