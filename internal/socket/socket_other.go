//go:build !linux

package socket

import (
	"net"
	"time"
)

// Quick returns c: elsewhere than on Linux, Go's own reads and writes are used.
func Quick(c net.Conn) net.Conn { return c }

// QuickWrites returns c in the same way, whose writes fail after patience; 0 is without an end.
func QuickWrites(c net.Conn, patience time.Duration) net.Conn { return patient(c, patience) }
