package api

import (
	"net"
	"slices"
	"testing"
)

// writes is a connection that notes what each write was.
type writes struct {
	net.Conn
	list []string
}

func (w *writes) Write(p []byte) (int, error) {
	w.list = append(w.list, string(p))
	return len(p), nil
}

func (w *writes) TryWrite(p []byte) (int, error) { return w.Write(p) }

// The last chunk of a stream and the line behind it, which the server writes one after the other, are one write; what follows is its own.
func TestEndOfAStreamIsOneWrite(t *testing.T) {
	to := &writes{}
	c := newConn(to, nil)
	d := Direct{c, to}
	for range 2 {
		to.list = nil
		for i, p := range []string{"3\r\nabc\r\n", "0\r\n", "\r\n", "HTTP/1.1 200 OK\r\n"} {
			if i == 1 {
				d.End()
			}
			if n, err := c.Write([]byte(p)); n != len(p) || err != nil {
				t.Errorf("%q: %d, %v", p, n, err)
			}
		}
		if want := []string{"3\r\nabc\r\n", "0\r\n\r\n", "HTTP/1.1 200 OK\r\n"}; !slices.Equal(to.list, want) {
			t.Errorf("written: %q, want %q", to.list, want)
		}
	}
	Direct{}.End() // of a connection that cannot be written to
}
