package fleet

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// scripted is a server that answers each request on a connection with the next text; "" closes the connection.
func scripted(t *testing.T, answers ...string) (address string, connections *atomic.Int64, served chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	connections, served = new(atomic.Int64), make(chan string, 2*len(answers))
	var next atomic.Int64
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			go func() {
				defer conn.Close()
				in := bufio.NewReader(conn)
				for {
					req, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					body, _ := io.ReadAll(req.Body)
					served <- req.Method + " " + req.Host + req.URL.RequestURI() + " " + string(body)
					answer := answers[int(next.Add(1)-1)%len(answers)]
					if answer == "" {
						return
					}
					_, _ = io.WriteString(conn, strings.TrimSuffix(answer, "CLOSE"))
					if strings.HasSuffix(answer, "CLOSE") {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String(), connections, served
}

func wireTo(t *testing.T, address string) *endpoint {
	t.Helper()
	w := newWire(&url.URL{Scheme: "http", Host: address, Path: "/v1"}, "", "", time.Minute)
	t.Cleanup(w.close)
	return w
}

func post(ctx context.Context, w *endpoint, body string) (status int, text string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+w.base.Host+"/v1/x?a=b", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	res, err := w.direct.RoundTrip(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	return res.StatusCode, string(all), err
}

const (
	okLength  = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	okChunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
)

// A connection serves one request after the other, whatever the form of the answers, and interim answers are skipped.
func TestConnectionsServeManyRequests(t *testing.T) {
	at, connections, served := scripted(t, okLength, okChunked, "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"+okLength, "HTTP/1.1 204 No Content\r\n\r\n", okLength)
	w := wireTo(t, at)
	for i, want := range []string{"ok", "ok", "ok", "", "ok"} {
		if _, got, err := post(t.Context(), w, "body"); err != nil || got != want {
			t.Errorf("request %d: %q, %v", i, got, err)
		}
		if got := <-served; got != "POST "+at+"/v1/x?a=b body" {
			t.Errorf("the server has got %q", got)
		}
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// A connection that its server has closed, or on which it says something unasked, is not used again; one that is to be closed is not kept.
func TestConnectionsThatEnded(t *testing.T) {
	for name, first := range map[string]string{
		"closed": okLength + "CLOSE", "said so": "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
		"old": "HTTP/1.0 200 OK\r\n\r\nokCLOSE", "more than an answer": okLength + "HTTP/1.1 408 Request Timeout\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			at, connections, served := scripted(t, first, okLength)
			w := wireTo(t, at)
			for range 2 {
				if _, got, err := post(t.Context(), w, "body"); err != nil || got != "ok" {
					t.Errorf("%q, %v", got, err)
				}
				if l := w.direct.last(at); l != nil { // wait until the end of a connection that rests is here
					if strings.HasSuffix(first, "CLOSE") && connections.Load() == 1 {
						_, _ = l.from.Peek(1)
					}
					w.direct.put(l)
				}
			}
			if n := connections.Load(); n != 2 || len(served) != 2 {
				t.Errorf("%d connections, %d requests", n, len(served))
			}
		})
	}
}

// A request that was sent is never sent again: whether the server has worked for it is not known.
func TestSentRequestsAreNotRepeated(t *testing.T) {
	at, _, served := scripted(t, okLength, "")
	w := wireTo(t, at)
	if _, _, err := post(t.Context(), w, "one"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := post(t.Context(), w, "two"); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a connection that ends instead of an answer: %v", err)
	}
	if len(served) != 2 {
		t.Errorf("%d requests came", len(served))
	}
}

func TestHeadersAreBounded(t *testing.T) {
	at, _, _ := scripted(t, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", maxHeadBytes)+"\r\n\r\n", strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", maxInterim+1))
	w := wireTo(t, at)
	if _, _, err := post(t.Context(), w, ""); !errors.Is(err, errLongHead) {
		t.Errorf("a long header: %v", err)
	}
	if _, _, err := post(t.Context(), w, ""); err == nil || !strings.Contains(err.Error(), "interim") {
		t.Errorf("endless interim answers: %v", err)
	}
}

// A request ends with its context: while it is dialled, before the answer, and within it.
func TestContextsEndRequests(t *testing.T) {
	why := errors.New("enough")
	over := make(chan struct{})
	stopped := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, _ = io.ReadAll(r.Body); r.URL.Query().Get("a") == "b" {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done() // the server sees the end, too
		over <- struct{}{}
	}))
	defer stopped.Close()
	w := wireTo(t, strings.TrimPrefix(stopped.URL, "http://"))
	for _, query := range []string{"", "?a=b"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, stopped.URL+query, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		if query == "" {
			time.AfterFunc(10*time.Millisecond, func() { cancel(why) })
		}
		res, err := w.direct.RoundTrip(req)
		if query != "" && err == nil {
			cancel(why)
			_, err = res.Body.Read(make([]byte, 1))
			_ = res.Body.Close()
		}
		if !errors.Is(err, why) {
			t.Errorf("%q: %v", query, err)
		}
		<-over
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := post(ctx, w, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("ended before it began: %v", err)
	}
}

// A body that may be refused before it is read goes by net/http, and the refusal arrives.
func TestLargeBodiesMayBeRefusedEarly(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusRequestEntityTooLarge) }))
	defer server.Close()
	w := wireTo(t, strings.TrimPrefix(server.URL, "http://"))
	for _, size := range []int{10, atOnceBytes, atOnceBytes + 1, 8 << 20} {
		if status, _, err := post(t.Context(), w, strings.Repeat("x", size)); err != nil || status != http.StatusRequestEntityTooLarge {
			t.Errorf("%d bytes: %d, %v", size, status, err)
		}
	}
}

// Connections to a replica's admin listener are its own.
func TestAddressesHaveTheirOwnConnections(t *testing.T) {
	a, _, servedA := scripted(t, okLength)
	b, _, servedB := scripted(t, okLength)
	w := wireTo(t, a)
	for range 3 {
		if _, _, err := post(t.Context(), w, ""); err != nil {
			t.Fatal(err)
		}
		res, err := w.get(t.Context(), "http://"+b+"/metrics")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.ReadAll(res.Body)
		_ = res.Body.Close()
		if to, other := <-servedA, <-servedB; !strings.Contains(to, "/v1/x") || !strings.Contains(other, "/metrics") {
			t.Errorf("%s, %s", to, other)
		}
	}
}
