package socket

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// Quick returns a connection that is c with cheap reads and writes; c itself where it is none of TCP. What else c can do, the connection
// can do in the same way.
func Quick(c net.Conn) net.Conn {
	w, raw := quickWrites(c)
	if w == nil {
		return c
	}
	q := &conn{writer: w}
	q.in.await, q.in.step = raw.Read, q.in.read
	return q
}

// QuickWrites is Quick for writes alone.
func QuickWrites(c net.Conn) net.Conn {
	if w, _ := quickWrites(c); w != nil {
		return w
	}
	return c
}

func quickWrites(c net.Conn) (*writer, syscall.RawConn) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return nil, nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil, nil // closed already, which the first use of c tells
	}
	w := &writer{TCPConn: tcp}
	w.out.await, w.out.step = raw.Write, w.out.write
	return w, raw
}

// writer writes without telling the scheduler.
type writer struct {
	*net.TCPConn
	out transfer
}

// conn reads so, too.
type conn struct {
	*writer
	in transfer
}

// transfer is one direction of a connection. One call at a time uses it.
type transfer struct {
	mu    sync.Mutex
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
	n, err := c.in.run(p)
	switch {
	case err != nil:
		return n, c.failed("read", err)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// Write writes all of p, and waits where the peer takes no more for now.
func (c *writer) Write(p []byte) (int, error) {
	n, err := c.out.run(p)
	if err != nil {
		return n, c.failed("write", err)
	}
	return n, nil
}

// run moves the bytes of p. Of a read that is what one system call gives.
func (t *transfer) run(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
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
func (c *writer) failed(op string, err error) error {
	if inner, ok := errors.AsType[*net.OpError](err); ok { // of the wait: a deadline, a connection that is closed
		err = inner.Err
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}
