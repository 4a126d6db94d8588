package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/reference"

	"go.uber.org/goleak"
)

// lasting are goroutines that outlive servers: those of the process, and fasthttp's, which look around every few seconds.
var lasting = []goleak.Option{
	goleak.IgnoreAnyFunction("weir/internal/socket.(*poll).start.func1"), goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
	goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
}

// beginRun runs a server until ctx ends, and returns once its models answer.
func beginRun(ctx context.Context, t *testing.T, s *Server) (ended chan error) {
	t.Helper()
	ended = make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	select {
	case <-s.Loaded():
	case err := <-ended:
		t.Fatal(err)
	}
	return ended
}

// writes is a writer for several goroutines, which calls wrote for each piece.
type writes struct {
	mu    sync.Mutex
	text  bytes.Buffer
	wrote func(text string)
}

func (w *writes) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wrote != nil {
		w.wrote(string(p))
	}
	return w.text.Write(p)
}

func (w *writes) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// A server whose context ends while its models are loaded, or before, ends whole: nothing of the loading goes on beside the closing, and no hook is told
// that it serves.
func TestServersThatEndWhileTheyLoad(t *testing.T) {
	reference.Slow(t)
	defer goleak.VerifyNone(t, append(lasting, goleak.IgnoreCurrent())...)
	for _, at := range []string{"", "listening", "classical model"} {
		ctx, cancel := context.WithCancel(t.Context())
		if at == "" {
			cancel()
		}
		var out writes
		s, err := New(Config{Settings: quickSettings(t), Out: &out, Errs: &writes{wrote: func(line string) {
			if at != "" && strings.Contains(line, at) {
				cancel()
			}
		}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Run(ctx); err != nil {
			t.Errorf("ended at %q: %v", at, err)
		}
		cancel()
		if text := out.String(); text != "" {
			t.Errorf("ended at %q: %s", at, text)
		}
	}
}

// The load of a language model ends with its context, before its file is read whole.
func TestLoadsEndWithTheirContext(t *testing.T) {
	s, err := New(Config{Settings: quickSettings(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(io.ErrClosedPipe)
	if _, err := s.languages.open(ctx, s.plan[0]); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("loaded: %v", err)
	}
}

// A server runs once: not beside its own run, not after it, and not after it was closed. None of these takes or keeps anything.
func TestServersRunOnce(t *testing.T) {
	defer goleak.VerifyNone(t, append(lasting, goleak.IgnoreCurrent())...)
	ctx, cancel := context.WithCancel(t.Context())
	s, err := New(Config{Settings: quickSettings(t)})
	if err != nil {
		t.Fatal(err)
	}
	ended := beginRun(ctx, t, s)
	if err := s.Run(t.Context()); !errors.Is(err, errSpent) {
		t.Errorf("run beside its run: %v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := s.Run(t.Context()); !errors.Is(err, errSpent) {
		t.Errorf("run after its run: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("closed after its run: %v", err)
	}
	if s, err = New(Config{Settings: quickSettings(t)}); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if err := s.Run(t.Context()); !errors.Is(err, errSpent) {
		t.Errorf("run after it was closed: %v", err)
	}
}

// Close ends a server that runs: its streams end with an error, Run returns, and the port is free. Another server of the process goes on.
func TestCloseEndsARun(t *testing.T) {
	reference.Slow(t)
	defer goleak.VerifyNone(t, append(lasting, goleak.IgnoreCurrent())...)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	ask := func(s *Server, body string) *http.Response {
		t.Helper()
		r, err := client.Post(s.URL()+"/v1/completions", "application/json", strings.NewReader(body))
		if err != nil || r.StatusCode != http.StatusOK {
			t.Fatalf("%+v, %v", r, err)
		}
		return r
	}
	ctx, cancel := context.WithCancel(t.Context())
	var servers [2]*Server
	var ended [2]chan error
	for i := range servers {
		s, err := New(Config{Settings: quickSettings(t)})
		if err != nil {
			t.Fatal(err)
		}
		servers[i], ended[i] = s, beginRun(ctx, t, s)
	}
	r := ask(servers[0], `{"prompt": "hi", "max_tokens": 1000, "ignore_eos": true, "stream": true}`)
	begin := time.Now()
	if err := servers[0].Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended[0]; err != nil {
		t.Error(err)
	}
	if took, most := time.Since(begin), servers[0].config.Server.ShutdownTimeout; took >= most {
		t.Errorf("closed after %v, as long as a shutdown may take", took)
	}
	text, _ := io.ReadAll(r.Body) // the connection may be cut off
	_ = r.Body.Close()
	if strings.Contains(string(text), "[DONE]") {
		t.Error("a stream that was cut off says that it is whole")
	}
	ln, err := net.Listen("tcp", servers[0].ports.api.Addr().String())
	if err != nil {
		t.Errorf("the port is not free: %v", err)
	} else {
		_ = ln.Close()
	}
	_ = ask(servers[1], `{"prompt": "hi", "max_tokens": 2}`).Body.Close()
	cancel()
	if err := <-ended[1]; err != nil {
		t.Error(err)
	}
}
