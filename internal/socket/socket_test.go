package socket

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"time"
)

// pair is a connection's two ends, of which one is quick.
func pair(t *testing.T) (quick net.Conn, plain *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialled, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	quick, plain = Quick(dialled), accepted.(*net.TCPConn) //nolint:forcetypeassert // accepted as tcp
	t.Cleanup(func() {
		_ = quick.Close()
		_ = plain.Close()
	})
	return quick, plain
}

// What is far larger than the buffers of the kernel arrives whole in both directions at once, whether or not only the writes are quick.
func TestBytesArrive(t *testing.T) {
	quick, plain := pair(t)
	sent := [2][]byte{make([]byte, 8<<20), make([]byte, 8<<20)}
	source := rand.NewChaCha8([32]byte{1})
	for _, text := range sent {
		_, _ = source.Read(text)
	}
	var all sync.WaitGroup
	for i, ends := range [2][2]net.Conn{{quick, plain}, {QuickWrites(plain, time.Hour), quick}} {
		all.Go(func() {
			if n, err := ends[0].Write(sent[i]); n != len(sent[i]) || err != nil {
				t.Errorf("%d of %d bytes written: %v", n, len(sent[i]), err)
			}
		})
		all.Go(func() {
			got := make([]byte, len(sent[i]))
			if _, err := io.ReadFull(ends[1], got); err != nil || !bytes.Equal(got, sent[i]) {
				t.Errorf("direction %d: other bytes arrive than were sent: %v", i, err)
			}
		})
	}
	all.Wait()
}

// A connection fails as Go's own does: at its end, at a deadline, when it is closed here and when the peer has gone.
func TestErrors(t *testing.T) {
	t.Run("end", func(t *testing.T) {
		quick, plain := pair(t)
		_ = plain.CloseWrite()
		if n, err := quick.Read(make([]byte, 8)); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("%d, %v", n, err)
		}
		if n, err := quick.Read(nil); n != 0 || err != nil {
			t.Errorf("nothing read of nothing: %d, %v", n, err)
		}
	})
	t.Run("deadline", func(t *testing.T) {
		quick, _ := pair(t)
		_ = quick.SetDeadline(time.Unix(1, 0))
		_, err := quick.Read(make([]byte, 8))
		check(t, err, "read", os.ErrDeadlineExceeded)
		_, err = quick.Write(make([]byte, 8))
		check(t, err, "write", os.ErrDeadlineExceeded)
	})
	t.Run("write to a peer that does not read", func(t *testing.T) {
		quick, plain := pair(t)
		go func() {
			_, _ = io.ReadFull(plain, make([]byte, 1)) // from now on some of it is written
			_ = quick.SetWriteDeadline(time.Unix(1, 0))
		}()
		n, err := quick.Write(make([]byte, 64<<20))
		if n == 0 || n == 64<<20 {
			t.Errorf("%d bytes written", n)
		}
		check(t, err, "write", os.ErrDeadlineExceeded)
	})
	t.Run("closed while it waits", func(t *testing.T) {
		quick, plain := pair(t)
		failed := make(chan error)
		go func() {
			buf := make([]byte, 8)
			_, err := io.ReadFull(quick, buf[:1])
			_, second := quick.Read(buf)
			failed <- errors.Join(err, second)
		}()
		_, _ = plain.Write([]byte("x"))
		_ = quick.Close()
		if err := <-failed; !errors.Is(err, net.ErrClosed) {
			t.Errorf("%v", err)
		}
		_, err := quick.Write([]byte("x"))
		check(t, err, "write", net.ErrClosed)
	})
	t.Run("peer gone", func(t *testing.T) {
		quick, plain := pair(t)
		_ = plain.SetLinger(0)
		_ = plain.Close()
		if _, err := quick.Read(make([]byte, 8)); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("a reset reads as %v", err)
		}
		var err error
		for err == nil {
			_, err = quick.Write([]byte("x"))
		}
		check(t, err, "write", nil)
	})
}

// A write waits for a peer that does not read as long as it is said, and the next one as long again; what the caller sets counts more.
func TestWritesArePatient(t *testing.T) {
	quick, plain := pair(t)
	back := QuickWrites(plain, 20*time.Millisecond)
	text := make([]byte, 64<<20)
	n, err := back.Write(text)
	if n == 0 || n == len(text) {
		t.Errorf("%d bytes written", n)
	}
	check(t, err, "write", os.ErrDeadlineExceeded)
	_, err = back.Write(text)
	check(t, err, "write", os.ErrDeadlineExceeded)
	go func() { _, _ = io.Copy(io.Discard, quick) }()
	_ = back.SetWriteDeadline(time.Now().Add(time.Hour))
	if n, err := back.Write(text); n != len(text) || err != nil {
		t.Errorf("%d bytes written to a peer that reads again: %v", n, err)
	}
	_ = back.SetWriteDeadline(time.Unix(1, 0))
	_, err = back.Write(text)
	check(t, err, "write", os.ErrDeadlineExceeded)
	_ = back.SetWriteDeadline(time.Time{})
	if n, err := back.Write(text[:1]); n != 1 || err != nil {
		t.Errorf("%d bytes written after the deadline was taken away: %v", n, err)
	}
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if _, err := QuickWrites(b, time.Millisecond).Write(text); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a write that is not read: %v", err)
	}
}

// check: an error names what failed, and says why in the words of package net.
func check(t *testing.T, err error, op string, want error) {
	t.Helper()
	outer, ok := errors.AsType[*net.OpError](err)
	if !ok || outer.Op != op || outer.Addr == nil || want != nil && !errors.Is(err, want) {
		t.Errorf("%v, want %s: %v", err, op, want)
	}
}

// Other connections are left as they are.
func TestOthersStay(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if Quick(a) != a || QuickWrites(b, 0) != b {
		t.Error("a pipe became something else")
	}
}

// Neither a read nor a write allocates.
func TestNothingIsAllocated(t *testing.T) {
	quick, plain := pair(t)
	back := QuickWrites(plain, time.Hour)
	buf := make([]byte, 512)
	allocated := testing.AllocsPerRun(200, func() {
		if _, err := back.Write(buf); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(quick, buf); err != nil {
			t.Fatal(err)
		}
	})
	if allocated != 0 {
		t.Errorf("%v allocations for a write and a read", allocated)
	}
}
