package openai

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/api"
	"weir/api/edge"
	"weir/internal/inference"
)

const patience = time.Minute // for what must happen; nothing waits this long when all is well

// loopback serves on a real port until the test ends.
func loopback(t *testing.T, c Config, listening api.Config, b *fakeBackend) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := api.New(listening, muxOf(newServer(t, c, b)))
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
		b.wg.Wait()
	})
	return ln.Addr().String()
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

func waitFor[T any](t *testing.T, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("%s did not happen", what)
	}
	panic("unreachable")
}

// untilCancelled generates nothing, or tokens without end.
func untilCancelled(pause time.Duration) func(*fakeRun) {
	return func(r *fakeRun) {
		for pause > 0 && r.pause(pause) {
			if !r.token(0, 65) {
				break
			}
		}
		<-r.cancelled
		r.finish(0, inference.FinishCancelled)
		r.stream.Close(inference.ErrCancelled)
	}
}

// A client that hangs up ends its request in every state, and the backend
// hears of it.
func TestHangUpCancels(t *testing.T) {
	t.Parallel()
	stream := chatWith(`"stream":true`)
	for _, tc := range []struct {
		name, path, body string
		script           func(*fakeRun)
		read             int // lines of the response to read before leaving
		prompts          int
	}{
		{"queued, stream", routeChat, stream, untilCancelled(0), 0, 1},
		{"queued, whole", routeChat, chatWith(`"n":2`), untilCancelled(0), 0, 1},
		{"running, stream", routeChat, stream, untilCancelled(time.Millisecond), 12, 1},
		{"running, whole", routeChat, chatWith(`"n":1`), untilCancelled(time.Millisecond), 0, 1},
		{"header read, no token", routeChat, stream, untilCancelled(0), 5, 1},
		{"slow tokens", routeCompletions, textWith(`"stream":true`), untilCancelled(50 * time.Millisecond), 10, 1},
		{"several prompts, stream", routeCompletions, `{"prompt":["a","b","c"],"stream":true}`, untilCancelled(time.Millisecond), 10, 3},
		{"several prompts, whole", routeCompletions, `{"prompt":["a","b","c"]}`, untilCancelled(0), 0, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			finished := make(chan edge.RequestFinish, 1)
			hungUp := make(chan string, 4)
			c := DefaultConfig()
			c.HeartbeatEvery = 100 * time.Millisecond // it brings the header where no token does
			c.Hooks.OnRequestFinish = func(f edge.RequestFinish) { finished <- f }
			c.Hooks.OnDisconnect = func(model string) { hungUp <- model }
			b := &fakeBackend{script: tc.script}
			conn := dial(t, loopback(t, c, api.DefaultConfig(), b))
			if _, err := io.WriteString(conn, rawRequest("POST", tc.path, "", tc.body)); err != nil {
				t.Fatal(err)
			}
			runs := make([]*fakeRun, tc.prompts)
			for i := range runs {
				runs[i] = b.run(t, i)
			}
			br := bufio.NewReader(conn)
			for range tc.read {
				if _, err := br.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
			}
			left := time.Now()
			if err := conn.Close(); err != nil {
				t.Fatal(err)
			}
			for _, r := range runs {
				waitFor(t, r.cancelled, "the cancel")
			}
			t.Logf("cancelled %v after the hang-up", time.Since(left))
			f := waitFor(t, finished, "the end of the request")
			if f.Status != edge.StatusHungUp || f.Code != "client_closed_request" || len(f.Reasons) == 0 || f.Reasons[0] != inference.FinishCancelled {
				t.Errorf("finished as %+v", f)
			}
			waitFor(t, hungUp, "the hook of the hang-up")
			if len(hungUp) != 0 {
				t.Error("one hang-up was reported twice")
			}
		})
	}
}

// The count of goroutines returns after many hang-ups at random moments.
func TestHangUpsLeaveNothingBehind(t *testing.T) {
	b := &fakeBackend{script: untilCancelled(time.Millisecond)}
	addr := loopback(t, DefaultConfig(), api.DefaultConfig(), b)
	before := runtime.NumGoroutine()
	var wg sync.WaitGroup
	const clients = 120
	for i := range clients {
		wg.Go(func() {
			c := dial(t, addr)
			body := chatWith(`"stream":true`)
			if i%3 == 0 {
				body = chatWith(`"n":1`)
			}
			_, _ = io.WriteString(c, rawRequest("POST", routeChat, "", body))
			time.Sleep(time.Duration(i%11) * time.Millisecond)
			_ = c.Close()
		})
	}
	wg.Wait()
	deadline := time.Now().Add(patience)
	for {
		b.mu.Lock()
		runs := len(b.runs)
		open := 0
		for _, r := range b.runs {
			select {
			case <-r.cancelled:
			default:
				open++
			}
		}
		b.mu.Unlock()
		// fasthttp keeps idle workers for 10 s; they are at most one per client.
		if open == 0 && runtime.NumGoroutine() <= before+clients+8 {
			t.Logf("%d requests ran and were cancelled", runs)
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d requests run on, %d goroutines, %d before", open, runs, runtime.NumGoroutine(), before)
		}
		time.Sleep(5 * time.Millisecond)
	}
	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	if n := strings.Count(string(stacks), "readAhead"); n > 0 {
		t.Errorf("%d watches run on without a client", n)
	}
}

// A client that reads too slowly loses its request, not the server.
func TestSlowReaderIsCancelled(t *testing.T) {
	t.Parallel()
	listening := api.DefaultConfig()
	listening.WriteTimeout = 200 * time.Millisecond
	finished := make(chan edge.RequestFinish, 1)
	c := DefaultConfig()
	c.Hooks.OnRequestFinish = func(f edge.RequestFinish) { finished <- f }
	b := &fakeBackend{ring: 64, script: func(r *fakeRun) {
		for r.token(0, 65) || r.pause(time.Millisecond) {
			select {
			case <-r.cancelled:
				r.stream.Close(inference.ErrCancelled)
				return
			default:
			}
		}
		r.stream.Close(inference.ErrCancelled)
	}}
	conn := dial(t, loopback(t, c, listening, b))
	if _, err := io.WriteString(conn, rawRequest("POST", routeChat, "", chatWith(`"stream":true`))); err != nil {
		t.Fatal(err)
	}
	run := b.run(t, 0)
	waitFor(t, run.cancelled, "the cancel of a client that does not read")
	if f := waitFor(t, finished, "the end"); f.Status != edge.StatusHungUp {
		t.Errorf("finished as %+v", f)
	}
}

func TestKeepAliveAfterStreams(t *testing.T) {
	b := &fakeBackend{}
	conn := dial(t, loopback(t, DefaultConfig(), api.DefaultConfig(), b))
	br := bufio.NewReader(conn)
	for i := range 30 {
		body := chatWith(`"stream":true`)
		if i%2 == 0 {
			body = chatWith(`"stream":false`)
		}
		if _, err := io.WriteString(conn, rawRequest("POST", routeChat, "", body)); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		if err != nil || !strings.Contains(string(text), "Hello") {
			t.Fatalf("request %d: %v %s", i, err, text)
		}
	}
}

// Pipelined generations answer in order; a second request on the connection
// does not look like a hang-up to the first.
func TestPipelinedGenerations(t *testing.T) {
	t.Parallel()
	b := &fakeBackend{script: func(r *fakeRun) { r.say(fmt.Sprintf("%d", r.req.MaxTokens), time.Millisecond) }}
	conn := dial(t, loopback(t, DefaultConfig(), api.DefaultConfig(), b))
	const requests = 20
	var all strings.Builder
	for i := range requests {
		all.WriteString(rawRequest("POST", routeCompletions, "", textWith(fmt.Sprintf(`"max_tokens":%d,"stream":%v`, 100+i, i%2 == 0))))
	}
	go func() { _, _ = io.WriteString(conn, all.String()) }()
	br := bufio.NewReader(conn)
	for i := range requests {
		res, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		if err != nil || i%2 == 1 && !strings.Contains(string(text), fmt.Sprintf(`"text":"%d"`, 100+i)) {
			t.Fatalf("answer %d: %v %s", i, err, text)
		}
		if i%2 == 0 && !strings.HasSuffix(string(text), "data: [DONE]\n\n") {
			t.Fatalf("stream %d: %s", i, text)
		}
	}
}
