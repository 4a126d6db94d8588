package fleet

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/router/chunk"
)

// wired is a server that answers each request with the same bytes, where cuts is not 0 in pieces: some whole chunks, and others by chance.
type wired struct {
	net.Listener
	answer []byte
	closes bool // the connection, behind the answer
	cuts   uint64
	conns  atomic.Int64
	all    sync.WaitGroup
}

func newWired(t *testing.T, answer []byte, closes bool, cuts uint64) *wired {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wired{Listener: l, answer: answer, closes: closes, cuts: cuts}
	w.all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			w.conns.Add(1)
			w.all.Go(func() { w.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		w.all.Wait()
	})
	return w
}

func (w *wired) serve(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		chance := rand.New(rand.NewPCG(w.cuts, 0)) //nolint:gosec // a test's
		for rest, writes := w.answer, 0; len(rest) > 0; writes++ {
			n := len(rest)
			if w.cuts > 0 {
				n = min(n, 1+chance.IntN(1+chance.IntN(2000)))
			}
			if i := bytes.Index(rest, []byte("\n\n\r\n")); i >= 0 && w.cuts > 0 && writes < 8 {
				n = i + len("\n\n\r\n") // servers write whole chunks
			}
			if _, err := c.Write(rest[:n]); err != nil {
				return
			}
			rest = rest[n:]
			if w.cuts > 0 && chance.IntN(3) == 0 {
				time.Sleep(time.Duration(chance.IntN(100)) * time.Microsecond) // so that pieces are mostly read alone
			}
		}
		if w.closes {
			return
		}
	}
}

func (w *wired) url() string { return "http://" + w.Addr().String() }

const wiredHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"

// chunks are texts as chunks without the last one.
func chunks(texts ...string) string {
	var b strings.Builder
	for _, text := range texts {
		fmt.Fprintf(&b, "%x\r\n%s\r\n", len(text), text)
	}
	return b.String()
}

// A stream that is followed gives what net/http makes of its bytes, wherever they are cut, whatever they are.
func FuzzFollow(f *testing.F) {
	many := strings.Repeat(chunks(event("a longer text that is said often")), 16)
	for _, body := range []string{
		many + chunks(last, done) + "0\r\n\r\n",
		many + chunks(last+done, event("x"), last, done) + "0\r\nX-Trailer: a\r\n\r\n",
		many + "5\r\ndata:", many, many + "0\r\n", many + "\r\n0\r\n\r\n", many + "ffffffffffffffff\r\ndata: ",
		many + "5;a=b\r\ndata:\r\n" + many + chunks(done) + "0\r\n\r\n",
		many + "000F0\r\n" + strings.Repeat("x", 0xf0) + "\r\n" + many + "00b\r\n: a comment\r\n" + chunks(done) + "000\r\n\r\n",
		many + "5\ndata:\r\n" + many + chunks(done) + "0\r\n\r\n", many + "5\r\ndata: \r\n" + many, many + "-1\r\n", many + "zz\r\n",
		many + chunks(strings.Repeat(event("large"), 400)) + many + chunks(done) + "0\r\n\r\n",
		chunks("d", "data: x\n\n") + chunks("data: \"d\r\ndata: x\"\n\n", done) + "0\r\n\r\n",
	} {
		for cuts := range uint64(3) {
			f.Add([]byte(body), cuts)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, cuts uint64) {
		answer := append([]byte(wiredHead+"Transfer-Encoding: chunked\r\n\r\n"+chunks(event("first"))), body...)
		res, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(answer)), nil)
		if err != nil {
			t.Fatal(err)
		}
		sent, readErr := io.ReadAll(res.Body)
		_ = res.Body.Close()
		var l chunk.Lines
		var g streamChecker
		want, wantErr := g.add(slices.Concat(l.Add(sent), l.End()))
		whole := wantErr == nil || isOverrun(wantErr)
		if whole {
			var rest []byte
			rest, whole = g.end(cmp.Or(wantErr, readErr, io.EOF))
			want = slices.Concat(want, rest)
		}
		w := newWired(t, answer, true, cuts)
		fl := one(t, Config{}, Source{URL: w.url(), Kind: OpenAI})
		defer fl.Close()
		a, err := fl.Send(t.Context(), call(streamed))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = a.Events.Close() }() // it was read
		got, _, err := readEvents(a.Events)
		if (err == nil) != whole || !bytes.Equal(got, want) {
			t.Errorf("%d bytes and %v; net/http reads %d and %v, %v\ngot  %.300q\nwant %.300q", len(got), err, len(want), readErr, wantErr, got, want)
		}
	})
}

// Answers that come in chunks are followed for the most part, their connection serves the next request, and no other answer is followed.
func TestWhatIsFollowed(t *testing.T) {
	texts := make([]string, 0, 200)
	for i := range 200 {
		texts = append(texts, event("word "+strconv.Itoa(i)))
	}
	all := strings.Join(texts, "") + last + done
	for name, tc := range map[string]struct {
		answer   string
		closes   bool
		followed bool
	}{
		"chunks":   {wiredHead + "Transfer-Encoding: chunked\r\n\r\n" + chunks(texts...) + chunks(last, done) + "0\r\n\r\n", false, true},
		"early":    {"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" + wiredHead + "Transfer-Encoding: chunked\r\n\r\n" + chunks(texts...) + chunks(last, done) + "0\r\n\r\n", false, true},
		"length":   {wiredHead + "Content-Length: " + strconv.Itoa(len(all)) + "\r\n\r\n" + all, false, false},
		"to close": {wiredHead + "\r\n" + all, true, false},
		"old":      {strings.Replace(wiredHead, "/1.1", "/1.0", 1) + "\r\n" + all, true, false},
	} {
		w := newWired(t, []byte(tc.answer), tc.closes, 7)
		fl := one(t, Config{}, Source{URL: w.url(), Kind: OpenAI})
		requests, total := int64(0), int64(0) // no byte of a request is followed that had all arrived when the first ones were read
		for ; requests < 4 || tc.followed && total == 0 && requests < 200; requests++ {
			a, err := fl.Send(t.Context(), call(streamed))
			if err != nil {
				t.Fatal(err)
			}
			text, followed, err := readEvents(a.Events)
			_ = a.Events.Close()
			if string(text) != all || err != nil {
				t.Errorf("%s: %d bytes of %d, or others: %v", name, len(text), len(all), err)
			}
			total += int64(followed)
		}
		if tc.followed != (total > 0) {
			t.Errorf("%s: %d bytes of %d requests were followed", name, total, requests)
		}
		if n := w.conns.Load(); tc.closes != (n == requests) || !tc.closes && n != 1 {
			t.Errorf("%s: %d connections for %d requests", name, n, requests)
		}
		fl.Close()
	}
}

// While a stream is followed, its stall, its caller's cancel and a close end it.
func TestFollowedStreamsEnd(t *testing.T) {
	w := newWired(t, []byte(wiredHead+"Transfer-Encoding: chunked\r\n\r\n"+strings.Repeat(chunks(event("word")), 100)), false, 3)
	fl := one(t, Config{Routing: Routing{StallTimeout: 100 * time.Millisecond}}, Source{URL: w.url(), Kind: OpenAI})
	defer fl.Close()
	followed := 0 // nothing of an answer is that had all arrived when the first bytes were read
	for tries := 0; followed == 0 && tries < 100; tries++ {
		a, err := fl.Send(t.Context(), call(streamed))
		if err != nil {
			t.Fatal(err)
		}
		var text []byte
		if text, followed, err = readEvents(a.Events); !errors.Is(err, errStalled) || strings.Count(string(text), "word") != 100 {
			t.Fatalf("%d bytes, %d followed: %v", len(text), followed, err)
		}
		_ = a.Events.Close()
	}
	if followed == 0 {
		t.Error("no answer was followed")
	}
}

// Chunks are moved together, without memory; a part of one waits for the rest.
func TestUnchunk(t *testing.T) {
	b := []byte(chunks("data: a\n\n", "data: bc\n\n", "d") + "5\r\nda")
	data, used, more := unchunk(bytes.Clone(b))
	if string(data) != "data: a\n\ndata: bc\n\nd" || used != len(b)-len("5\r\nda") || !more {
		t.Errorf("%q of %d bytes, %v", data, used, more)
	}
	if n := testing.AllocsPerRun(10, func() { _, _, _ = unchunk(b[:15]) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	for part, want := range map[string]bool{
		"": true, "5": true, "5\r": true, "5\r\n": true, "5\r\ndata:": true, "5\r\ndata:\r": true, "FFF\r\nx": true,
		"0": false, "0\r\n\r\n": false, "05\r\ndata:": true, "00": false, "5\n": false, "5\r\ndata:xx": false, "5\r\ndata:\rx": false, "5;a\r\ndata:\r\n": false,
		" 5\r\n": false, "00000005\r\ndata:\r\n": false, "\r\n": false, "ffff\r\n": false, "fffffff\r\n": false, "ffffffff": false, "x": false, "-1\r\n": false,
	} {
		if data, used, more := unchunk([]byte(part)); data != nil || used != 0 || more != want {
			t.Errorf("%q: %q, %d, %v", part, data, used, more)
		}
	}
}
