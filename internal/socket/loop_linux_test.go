package socket

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func follower(t *testing.T, c net.Conn) Follower {
	t.Helper()
	f, ok := c.(Follower)
	if !ok {
		t.Fatalf("%T cannot be followed", c)
	}
	return f
}

// All bytes come once and in order, with either way of reading: Follow, which uses as much of each piece as it likes and ends when it likes, or Read
// in between; of more connections than one loop has, at once. The end comes, too, also where it lies right behind the last byte.
func TestFollowedBytesArrive(t *testing.T) {
	const conns = 3 * loopShare / 2
	var all sync.WaitGroup
	for i := range conns {
		quick, plain := pair(t)
		chance := rand.New(rand.NewPCG(1, uint64(i))) //nolint:gosec // a test's
		sent := make([]byte, chance.IntN(200<<10))
		for j := range sent {
			sent[j] = byte(chance.Uint32())
		}
		all.Go(func() {
			rest, chance := sent, rand.New(rand.NewPCG(2, uint64(i))) //nolint:gosec // a test's
			for len(rest) > 0 {
				n := min(len(rest), 1+chance.IntN(1+chance.IntN(3*loopBytes)))
				if _, err := plain.Write(rest[:n]); err != nil {
					t.Error(err)
				}
				rest = rest[n:]
			}
			_ = plain.Close()
		})
		all.Go(func() {
			if got := readMixed(t, quick, chance); !bytes.Equal(got, sent) {
				t.Errorf("connection %d: %d bytes arrive of %d, or others", i, len(got), len(sent))
			}
		})
	}
	all.Wait()
	for _, l := range loops.list {
		if n := l.count.Load(); n != 0 || len(l.free) != len(l.slots) {
			t.Errorf("a loop is left with %d sockets, and %d of %d places", n, len(l.slots)-len(l.free), len(l.slots))
		}
	}
}

// readMixed reads to the end.
func readMixed(t *testing.T, c net.Conn, chance *rand.Rand) (got []byte) {
	buf := make([]byte, 1+chance.IntN(loopBytes))
	for {
		whole, ends := chance.IntN(2) == 0, chance.IntN(20)
		follower(t, c).Follow(func(piece []byte) (int, bool) {
			used := len(piece)
			if !whole {
				used = chance.IntN(used + 1)
			}
			got = append(got, piece[:used]...)
			return used, whole || chance.IntN(20) != ends
		})
		n, err := c.Read(buf)
		if last, _ := follower(t, c).Latest(); !bytes.Equal(last, buf[:n]) {
			t.Errorf("the latest piece is %d bytes, not the %d that were read", len(last), n)
		}
		got = append(got, buf[:n]...)
		if errors.Is(err, io.EOF) {
			return got
		}
		if err != nil {
			t.Error(err)
			return got
		}
	}
}

// An end or a reset behind a piece is found, whether it comes while the piece is taken, before or after.
func TestEndsAreFound(t *testing.T) {
	for name, want := range map[string]error{"end": io.EOF, "reset": syscall.ECONNRESET} {
		for pause := range 30 {
			quick, plain := pair(t)
			if want != io.EOF { //nolint:errorlint // one of the two above
				_ = plain.SetLinger(0)
			}
			go func() {
				_, _ = plain.Write([]byte("piece"))
				for range pause * 100 {
					_ = time.Now()
				}
				_ = plain.Close()
			}()
			follower(t, quick).Follow(func(piece []byte) (int, bool) { return len(piece), true })
			if _, err := quick.Read(make([]byte, 8)); !errors.Is(err, want) {
				t.Fatalf("%s: %v", name, err)
			}
			if _, err := quick.Read(make([]byte, 8)); err == nil {
				t.Fatalf("%s: nothing is wrong with a second read", name)
			}
		}
	}
}

// Close ends Follow, and nothing is followed after it.
func TestCloseEndsFollow(t *testing.T) {
	quick, plain := pair(t)
	taken, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		follower(t, quick).Follow(func(piece []byte) (int, bool) {
			close(taken)
			return len(piece), true
		})
	}()
	_, _ = plain.Write([]byte("x"))
	<-taken
	_ = quick.Close()
	<-over
	follower(t, quick).Follow(func([]byte) (int, bool) {
		t.Error("a closed connection has brought something")
		return 0, false
	})
	if _, err := quick.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if err := quick.Close(); err == nil {
		t.Error("it was closed twice")
	}
}

// A panic of one that takes is its own.
func TestPanicsOfTake(t *testing.T) {
	quick, plain := pair(t)
	other, far := pair(t)
	_, _ = plain.Write([]byte("abc"))
	_, _ = far.Write([]byte("abc"))
	func() {
		defer func() {
			if v := recover(); !strings.HasPrefix(fmt.Sprint(v), "mine\n") {
				t.Errorf("the panic is %v", v)
			}
		}()
		follower(t, quick).Follow(func([]byte) (int, bool) { panic("mine") })
	}()
	follower(t, other).Follow(func(piece []byte) (int, bool) { return 2, false })
	if got, err := io.ReadAll(io.LimitReader(other, 1)); string(got) != "c" || err != nil {
		t.Errorf("%q %v", got, err)
	}
}

// TryWrite writes what there is room for, and a write goes on with the rest.
func TestTryWrite(t *testing.T) {
	quick, plain := pair(t)
	try, ok := quick.(TryWriter)
	if !ok {
		t.Fatalf("%T", quick)
	}
	text := make([]byte, 32<<20)
	for i := range text {
		text[i] = byte(i >> 12)
	}
	n, err := try.TryWrite(text)
	if n == 0 || n == len(text) || err != nil {
		t.Fatalf("%d bytes written to a peer that does not read: %v", n, err)
	}
	if again, err := try.TryWrite(text[n:]); again == len(text)-n || err != nil {
		t.Fatalf("%d bytes written once more: %v", again, err)
	} else {
		n += again
	}
	go func() {
		_, _ = quick.Write(text[n:])
		_ = quick.Close()
	}()
	if got, err := io.ReadAll(plain); !bytes.Equal(got, text) || err != nil {
		t.Errorf("%d bytes of %d arrive, or others: %v", len(got), len(text), err)
	}
	_, err = try.TryWrite(text[:1])
	check(t, err, "write", net.ErrClosed)
}

// A piece that passes allocates nothing.
func TestFollowedPiecesAllocateNothing(t *testing.T) {
	quick, plain := pair(t)
	back, ok := QuickWrites(plain, time.Hour).(TryWriter)
	if !ok {
		t.Fatal("no room for a try")
	}
	piece, passed := make([]byte, 300), make(chan struct{})
	go follower(t, quick).Follow(func(piece []byte) (int, bool) {
		passed <- struct{}{}
		return len(piece), true
	})
	if n := testing.AllocsPerRun(200, func() {
		if n, err := back.TryWrite(piece); n != len(piece) || err != nil {
			t.Fatal(n, err)
		}
		<-passed
	}); n != 0 {
		t.Errorf("%v allocations for a piece", n)
	}
}
