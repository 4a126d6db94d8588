// Package zmtp speaks ZeroMQ's protocol (ZMTP 3.0 and 3.1, RFC 23 and 37) as far as a reader needs it: a connection that subscribes to a
// publisher (SUB), or asks a router (DEALER), over TCP or a Unix socket, without authentication. What a peer sends is bounded: memory is
// taken as bytes arrive, never for what a length promises.
package zmtp

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"
)

// Socket is what a connection is for.
type Socket string

// The sockets.
const (
	Sub    Socket = "SUB"
	Dealer Socket = "DEALER"
)

// peers are the sockets at the other end that each may speak with.
var peers = map[Socket][]string{Sub: {"PUB", "XPUB"}, Dealer: {"ROUTER", "REP", "DEALER"}}

// Config bounds a connection. Zero values take what stands beside each.
type Config struct {
	Socket       Socket
	MessageBytes int           // of a message's frames together; default 8 MiB
	Silence      time.Duration // without a byte, after which the connection has failed; default 20 s
	Beats        bool          // a peer that is silent for half of Silence is asked whether it lives, where it can answer (ZMTP 3.1)
}

const (
	mostFrames   = 16 // of a message
	stepBytes    = 64 << 10
	greetingTime = 5 * time.Second
	frameTime    = 20 * time.Second // from a message's first byte to its last
	mostProperty = 4 << 10          // bytes of a peer's READY
)

// Conn is a connection to one peer. One goroutine at a time may use it; Close may come from any.
type Conn struct {
	conn   net.Conn
	config Config
	r      *bufio.Reader
	minor  byte // of the peer's version 3
	buf    []byte
	ends   []int
	frames [][]byte
	stop   func() bool
}

// ParseEndpoint tells the network and the address of "tcp://host:port" or "ipc:///path".
func ParseEndpoint(text string) (network, address string, err error) {
	if path, ok := strings.CutPrefix(text, "ipc://"); ok && strings.HasPrefix(path, "/") {
		return "unix", path, nil
	}
	if address, ok := strings.CutPrefix(text, "tcp://"); ok {
		host, port, err := net.SplitHostPort(address)
		if err == nil && host != "" && port != "" {
			return "tcp", address, nil
		}
	}
	return "", "", fmt.Errorf("the endpoint %q is neither tcp://HOST:PORT nor ipc:///PATH", text)
}

// Dial connects to an endpoint and greets its socket. The connection is closed when ctx ends.
func Dial(ctx context.Context, endpoint string, c Config) (*Conn, error) {
	network, address, err := ParseEndpoint(endpoint)
	if err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: greetingTime}
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	made := newConn(conn, c)
	made.stop = context.AfterFunc(ctx, func() { _ = conn.Close() }) // a read that waits ends with an error
	if err := made.greet(); err != nil {
		made.Close()
		return nil, fmt.Errorf("%s: %w", endpoint, err)
	}
	return made, nil
}

func newConn(conn net.Conn, c Config) *Conn {
	if c.MessageBytes == 0 {
		c.MessageBytes = 8 << 20
	}
	if c.Silence == 0 {
		c.Silence = 20 * time.Second
	}
	return &Conn{conn: conn, config: c, r: bufio.NewReaderSize(conn, stepBytes), stop: func() bool { return true }}
}

// Close ends the connection.
func (c *Conn) Close() {
	c.stop()
	_ = c.conn.Close() // nothing is left to be written
}

// greeting is what both sides send first: the signature, version 3.1, the mechanism NULL.
func greeting() []byte {
	g := make([]byte, 64)
	g[0], g[9], g[10], g[11] = 0xff, 0x7f, 3, 1
	copy(g[12:], "NULL")
	return g
}

// greet exchanges greetings and what each socket is.
func (c *Conn) greet() error {
	_ = c.conn.SetDeadline(time.Now().Add(greetingTime)) // fails on a closed connection only, as the next line does
	defer func() { _ = c.conn.SetDeadline(time.Time{}) }()
	if _, err := c.conn.Write(greeting()); err != nil {
		return err
	}
	var g [64]byte
	if _, err := io.ReadFull(c.r, g[:]); err != nil {
		return fmt.Errorf("the peer sends no greeting of ZMTP: %w", err)
	}
	mechanism := strings.TrimRight(string(g[12:32]), "\x00")
	switch {
	case g[0] != 0xff || g[9] != 0x7f || g[10] < 3:
		return fmt.Errorf("the peer greets with % x; ZMTP 3 is needed", g[:12])
	case mechanism != "NULL":
		return fmt.Errorf("the peer asks for the security mechanism %.20q; NULL alone is known", mechanism)
	}
	c.minor = g[11]
	if g[10] > 3 {
		c.minor = 1
	}
	ready := property(property([]byte("\x05READY"), "Socket-Type", string(c.config.Socket)), "Identity", "")
	if err := c.write(flagCommand, ready); err != nil {
		return err
	}
	flags, body, err := c.frame(mostProperty)
	if err != nil {
		return err
	}
	if flags&flagCommand == 0 {
		return errors.New("the peer sends a message before it is ready")
	}
	return c.readReady(body)
}

func property(to []byte, name, value string) []byte {
	to = append(append(to, byte(len(name))), name...)
	to = binary.BigEndian.AppendUint32(to, uint32(len(value))) //nolint:gosec // short
	return append(to, value...)
}

// readReady checks that the peer's socket is one that this one may speak with.
func (c *Conn) readReady(body []byte) error {
	name, rest := commandOf(body)
	if name != "READY" {
		return fmt.Errorf("the peer answers %.20q, not READY: %.200q", name, rest)
	}
	for len(rest) > 0 {
		n := int(rest[0])
		if len(rest) < 1+n+4 {
			break
		}
		key, size := string(rest[1:1+n]), binary.BigEndian.Uint32(rest[1+n:])
		rest = rest[1+n+4:]
		if uint64(size) > uint64(len(rest)) {
			break
		}
		if strings.EqualFold(key, "Socket-Type") {
			if is := string(rest[:size]); !slices.Contains(peers[c.config.Socket], is) {
				return fmt.Errorf("the peer's socket is of type %.20q; %s speaks with %q", is, c.config.Socket, peers[c.config.Socket])
			}
			return nil
		}
		rest = rest[size:]
	}
	return errors.New("the peer does not say what socket it is")
}

// commandOf is the name of a command and what follows it; no name where there is none.
func commandOf(body []byte) (name string, rest []byte) {
	if len(body) == 0 || int(body[0]) >= len(body) {
		return "", body
	}
	n := int(body[0])
	return string(body[1 : 1+n]), body[1+n:]
}

// The flags of a frame.
const (
	flagMore    = 1
	flagLong    = 2
	flagCommand = 4
)

// write sends one frame.
func (c *Conn) write(flags byte, body []byte) error {
	out := make([]byte, 0, len(body)+9)
	if len(body) > 255 {
		out = binary.BigEndian.AppendUint64(append(out, flags|flagLong), uint64(len(body)))
	} else {
		out = append(out, flags, byte(len(body)))
	}
	_ = c.conn.SetWriteDeadline(time.Now().Add(greetingTime)) // fails on a closed connection only, as the write does
	_, err := c.conn.Write(append(out, body...))
	return err
}

// Subscribe asks for the messages whose first frame begins with topic.
func (c *Conn) Subscribe(topic string) error { return c.write(0, append([]byte{1}, topic...)) }

// Send sends a message.
func (c *Conn) Send(frames ...[]byte) error {
	for i, f := range frames {
		flags := byte(flagMore)
		if i == len(frames)-1 {
			flags = 0
		}
		if err := c.write(flags, f); err != nil {
			return err
		}
	}
	return nil
}

// Receive waits for a message. Its frames are valid until the next call.
func (c *Conn) Receive() ([][]byte, error) {
	c.buf, c.ends = c.buf[:0], c.ends[:0]
	for {
		if err := c.await(); err != nil {
			return nil, err
		}
		flags, body, err := c.frame(c.config.MessageBytes)
		switch {
		case err != nil:
			return nil, err
		case flags&flagCommand != 0 && len(c.ends) > 0:
			return nil, errors.New("a command stands within a message")
		case flags&flagCommand != 0:
			if err := c.obey(body); err != nil {
				return nil, err
			}
			c.buf = c.buf[:0]
			continue
		}
		if c.ends = append(c.ends, len(c.buf)); len(c.ends) > mostFrames {
			return nil, fmt.Errorf("a message has more than %d frames", mostFrames)
		}
		if flags&flagMore == 0 {
			return c.cut(), nil
		}
	}
}

// cut is the message in the buffer.
func (c *Conn) cut() [][]byte {
	c.frames = c.frames[:0]
	from := 0
	for _, to := range c.ends {
		c.frames = append(c.frames, c.buf[from:to:to])
		from = to
	}
	return c.frames
}

// await waits for the next byte. A peer that sends nothing is asked once whether it lives.
func (c *Conn) await() error {
	wait, asks := c.config.Silence, c.config.Beats && c.minor >= 1 && len(c.ends) == 0
	if asks {
		wait /= 2
	}
	for {
		_ = c.conn.SetReadDeadline(time.Now().Add(wait)) // fails on a closed connection only, as the read does
		_, err := c.r.Peek(1)
		switch {
		case err == nil:
			_ = c.conn.SetReadDeadline(time.Now().Add(frameTime))
			return nil
		case asks && errors.Is(err, os.ErrDeadlineExceeded):
			asks = false
			if err := c.write(flagCommand, []byte("\x04PING\x00\x00")); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// obey does what a command asks for. Unknown ones are passed over.
func (c *Conn) obey(body []byte) error {
	switch name, rest := commandOf(body); name {
	case "PING":
		if len(rest) >= 2 { // a time to live, and what the answer repeats
			return c.write(flagCommand, append([]byte("\x04PONG"), rest[2:min(len(rest), 2+16)]...))
		}
	case "ERROR":
		return fmt.Errorf("the peer reports an error: %.200q", rest)
	}
	return nil
}

// frame reads one frame and appends its body to the buffer, which may hold most bytes.
func (c *Conn) frame(most int) (flags byte, body []byte, err error) {
	if flags, err = c.r.ReadByte(); err != nil {
		return 0, nil, err
	}
	if flags&^(flagMore|flagLong|flagCommand) != 0 || flags&flagMore != 0 && flags&flagCommand != 0 {
		return 0, nil, fmt.Errorf("a frame has the flags %#x", flags)
	}
	var head [8]byte
	at := head[7:]
	if flags&flagLong != 0 {
		at = head[:]
	}
	if _, err = io.ReadFull(c.r, at); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint64(head[:])
	if size > uint64(most-min(len(c.buf), most)) {
		return 0, nil, fmt.Errorf("a message has %d bytes or more; %d is the most", uint64(len(c.buf))+size, most)
	}
	from := len(c.buf)
	for left := int(size); left > 0; { //nolint:gosec // at most most
		n := min(left, stepBytes)
		c.buf = slices.Grow(c.buf, n)[:len(c.buf)+n]
		if _, err = io.ReadFull(c.r, c.buf[len(c.buf)-n:]); err != nil {
			return 0, nil, err
		}
		left -= n
	}
	return flags, c.buf[from:], nil
}
