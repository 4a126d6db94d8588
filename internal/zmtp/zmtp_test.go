package zmtp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// readyOf is the frame by which a peer says what socket it is.
func readyOf(socket string) []byte {
	body := property(property([]byte("\x05READY"), "Socket-Type", socket), "Identity", "")
	return append([]byte{flagCommand, byte(len(body))}, body...)
}

func frameOf(flags byte, body string) []byte {
	return append([]byte{flags, byte(len(body))}, body...)
}

// canned is a connection to a peer that says what it says, whatever it hears.
type canned struct {
	net.Conn
	said bytes.Reader
}

func (c *canned) Read(p []byte) (int, error)       { return c.said.Read(p) }
func (c *canned) Write(p []byte) (int, error)      { return len(p), nil }
func (c *canned) SetDeadline(time.Time) error      { return nil }
func (c *canned) SetReadDeadline(time.Time) error  { return nil }
func (c *canned) SetWriteDeadline(time.Time) error { return nil }

// speak reads what a peer says until that fails.
func speak(c Config, hello []byte, said ...[]byte) (greeted error, messages []string, failed error) {
	peer := &canned{}
	peer.said.Reset(slices.Concat(hello, bytes.Join(said, nil)))
	conn := newConn(peer, c)
	if greeted = conn.greet(); greeted != nil {
		return greeted, nil, nil
	}
	for {
		frames, err := conn.Receive()
		if err != nil {
			return nil, messages, err
		}
		messages = append(messages, string(bytes.Join(frames, []byte("|"))))
	}
}

func TestMessages(t *testing.T) {
	hello := append(greeting(), readyOf("PUB")...)
	long := strings.Repeat("x", 300)
	longFrame := binary.BigEndian.AppendUint64([]byte{flagLong}, 300)
	_, got, err := speak(Config{Socket: Sub}, hello,
		frameOf(flagMore, "topic"), frameOf(flagMore, ""), frameOf(0, "one"), frameOf(flagCommand, "\x04PING\x00\x00mark"),
		append(longFrame, long...), frameOf(flagCommand, "\x07UNKNOWNabc"), frameOf(0, "two"))
	want := []string{"topic||one", long, "two"}
	if strings.Join(got, ",") != strings.Join(want, ",") || !errors.Is(err, io.EOF) {
		t.Errorf("got %q, %v; want %q and the end", got, err, want)
	}
}

// What a peer says wrongly ends the connection, and takes no memory for what it promises.
func TestPeersThatAreWrong(t *testing.T) {
	with := func(at int, b ...byte) []byte {
		g := greeting()
		copy(g[at:], b)
		return append(g, readyOf("PUB")...)
	}
	fine := append(greeting(), readyOf("XPUB")...)
	huge := binary.BigEndian.AppendUint64([]byte{flagLong}, 1<<63)
	for _, c := range []struct {
		name  string
		hello []byte
		said  [][]byte
		want  string
	}{
		{"an old version", with(10, 1), nil, "ZMTP 3 is needed"},
		{"another protocol", []byte("HTTP/1.1 400 Bad Request\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"), nil, "ZMTP 3 is needed"},
		{"too little", []byte("HTTP"), nil, "no greeting"},
		{"a mechanism", with(12, []byte("CURVE")...), nil, "CURVE"},
		{"the wrong socket", append(greeting(), readyOf("PUSH")...), nil, "PUSH"},
		{"no socket", append(greeting(), frameOf(flagCommand, "\x05READY")...), nil, "what socket"},
		{"a short property", append(greeting(), frameOf(flagCommand, "\x05READY\xffabc")...), nil, "what socket"},
		{"a refusal", append(greeting(), frameOf(flagCommand, "\x05ERROR\x02no")...), nil, "ERROR"},
		{"a message first", append(greeting(), frameOf(0, "x")...), nil, "before it is ready"},
		{"a huge greeting", append(greeting(), append([]byte{flagCommand | flagLong}, huge[1:]...)...), nil, "4096 is the most"},
		{"a huge frame", fine, [][]byte{huge}, "8388608 is the most"},
		{"a huge message", fine, [][]byte{frameOf(flagMore, "x"), binary.BigEndian.AppendUint64([]byte{flagLong}, 8<<20)}, "is the most"},
		{"flags", fine, [][]byte{frameOf(0x48, "x")}, "flags 0x48"},
		{"a command that goes on", fine, [][]byte{frameOf(flagCommand|flagMore, "x")}, "flags"},
		{"a command within", fine, [][]byte{frameOf(flagMore, "x"), frameOf(flagCommand, "\x04PING\x00\x00")}, "within a message"},
		{"an error later", fine, [][]byte{frameOf(flagCommand, "\x05ERROR\x02no")}, "reports an error"},
		{"too many frames", fine, bytes.SplitAfter(bytes.Repeat(frameOf(flagMore, "x"), 20), []byte("x")), "more than 16"},
		{"half a frame", fine, [][]byte{{flagLong, 0, 0, 0, 0, 0, 0, 0, 100, 'x'}}, "EOF"},
	} {
		t.Run(c.name, func(t *testing.T) {
			greeted, _, failed := speak(Config{Socket: Sub}, c.hello, c.said...)
			if err := errors.Join(greeted, failed); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %q", err, c.want)
			}
		})
	}
}

// A silent peer is asked whether it lives; one that answers is waited for further.
func TestSilentPeers(t *testing.T) {
	for _, answers := range []int{0, 1, 5} {
		synctest.Test(t, func(t *testing.T) {
			here, there := net.Pipe()
			asked := make(chan int)
			go func() {
				go func() { _, _ = there.Write(append(greeting(), readyOf("PUB")...)) }()
				n := 0
				defer func() { asked <- n }()
				from := make([]byte, 64+len(readyOf("SUB")))
				_, _ = io.ReadFull(there, from)
				ping := make([]byte, len(frameOf(flagCommand, "\x04PING\x00\x00")))
				for ; ; n++ {
					if _, err := io.ReadFull(there, ping); err != nil {
						return
					}
					if n < answers {
						_, _ = there.Write(frameOf(flagCommand, "\x04PONG"))
					}
				}
			}()
			began := time.Now()
			conn := newConn(here, Config{Socket: Sub, Silence: time.Minute, Beats: true})
			if err := conn.greet(); err != nil {
				t.Fatal(err)
			}
			_, err := conn.Receive()
			if took := time.Since(began); !errors.Is(err, os.ErrDeadlineExceeded) || took != time.Minute+time.Duration(answers)*time.Minute/2 {
				t.Errorf("%d answers: %v after %v", answers, err, took)
			}
			conn.Close()
			if n := <-asked; n != answers+1 {
				t.Errorf("%d answers: asked %d times", answers, n)
			}
		})
	}
}

func TestEndpoints(t *testing.T) {
	for text, want := range map[string]string{
		"tcp://127.0.0.1:5557": "tcp 127.0.0.1:5557", "tcp://[::1]:1": "tcp [::1]:1", "tcp://*:5": "tcp *:5", "ipc:///run/kv.sock": "unix /run/kv.sock",
		"tcp://:5557": "", "tcp://host": "", "ipc://kv": "", "inproc://x": "", "": "", "http://x:1": "",
	} {
		network, address, err := ParseEndpoint(text)
		if got := strings.TrimSpace(network + " " + address); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
}

// A connection ends with its context, and over a Unix socket as well.
func TestDialEndsWithItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = conn.Write(append(greeting(), readyOf("ROUTER")...))
		_, _ = io.Copy(io.Discard, conn)
	}()
	ctx, cancel := context.WithCancel(t.Context())
	conn, err := Dial(ctx, "ipc://"+path, Config{Socket: Dealer})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Send([]byte("a"), bytes.Repeat([]byte("b"), 300)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := conn.Receive(); err == nil {
		t.Error("a message came")
	}
}

// FuzzReceive reads whatever a peer says.
func FuzzReceive(f *testing.F) {
	f.Add(append(append(greeting(), readyOf("PUB")...), frameOf(0, "x")...))
	f.Fuzz(func(t *testing.T, said []byte) {
		const most = 1 << 12
		_, messages, _ := speak(Config{Socket: Sub, MessageBytes: most, Silence: time.Second}, said)
		for _, m := range messages {
			if len(m) > most+mostFrames {
				t.Errorf("a message has %d bytes", len(m))
			}
		}
	})
}
