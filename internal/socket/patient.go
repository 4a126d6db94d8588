package socket

import (
	"net"
	"time"
)

// patient is c with a deadline for each write, unless that is 0.
func patient(c net.Conn, patience time.Duration) net.Conn {
	if patience <= 0 {
		return c
	}
	return &timeoutConn{c, patience}
}

type timeoutConn struct {
	net.Conn
	patience time.Duration
}

func (d *timeoutConn) Write(p []byte) (int, error) {
	if err := d.SetWriteDeadline(time.Now().Add(d.patience)); err != nil {
		return 0, err
	}
	return d.Conn.Write(p)
}

// CloseWrite ends the sending half, where the connection can.
func (d *timeoutConn) CloseWrite() error {
	if half, ok := d.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
