package servertest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"sync"
	"testing"
	"time"

	"weir/configs"
	"weir/internal/server"
	"weir/telemetry"
)

// Server is a serving process inside the test.
type Server struct {
	T    *testing.T
	Out  Buffer // for people
	Errs Buffer // the log

	API, Admin string // URLs of the listeners
	StoreURL   string // where the test chose one

	stop context.CancelFunc
	done chan error
}

// Source is a configuration that a test changes while the server runs.
type Source struct {
	MakesStore bool // as weir serve does where no store is named

	mu       sync.Mutex
	settings configs.Config
	err      error
}

func (s *Source) read() (configs.Config, []string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settings, nil, s.err
}

// Change changes what the next reload reads, or has it fail.
func (s *Source) Change(f func(c *configs.Config), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.settings)
	s.err = err
}

// Start starts a server with the defaults, as changed, on free ports. It ends with the test.
func Start(t *testing.T, change func(*configs.Config)) *Server {
	t.Helper()
	return StartFrom(t, &Source{}, change)
}

// StartFrom starts a server whose configuration can change: from gets the first one.
func StartFrom(t *testing.T, from *Source, change func(*configs.Config)) *Server {
	t.Helper()
	from.settings = configs.Default()
	from.settings.Server.Port, from.settings.Server.AdminAddress = 0, "127.0.0.1:0"
	from.settings.Log.Format = "json"
	from.settings.Engine.KVMemoryBytes = 16 << 20
	if change != nil {
		change(&from.settings)
	}
	ctx, stop := context.WithCancel(t.Context())
	s := &Server{T: t, stop: stop, done: make(chan error, 1)}
	library, err := server.New(server.Config{
		Settings: from.settings, Read: from.read, Build: build, MakesStore: from.MakesStore, LeastFetch: leastFetch, Out: &s.Out, Errs: &s.Errs,
	})
	if err != nil {
		stop()
		t.Fatalf("%v\n%s", err, s.Errs.String())
	}
	go func() { s.done <- library.Run(ctx) }()
	t.Cleanup(func() { _ = s.End() })
	select {
	case <-library.Loaded():
	case err := <-s.done:
		close(s.done) // End finds it ended
		t.Fatalf("the server ended: %v\n%s", err, s.Errs.String())
	case <-time.After(Patience):
		t.Fatalf("the server does not load its models\n%s", s.Errs.String())
	}
	s.API, s.Admin = library.URL(), library.AdminURL()
	return s
}

// build is what servers of tests say that they are.
var build = telemetry.Build{Version: "test", Commit: "unknown"}

// leastFetch is what fetching KV blocks may take where computing them would take less. Machines of tests are busy.
const leastFetch = 3 * time.Second

// Run runs a server that is to fail, and gives its error.
func Run(ctx context.Context, settings configs.Config, log io.Writer) error {
	s, err := server.New(server.Config{Settings: settings, Errs: log})
	if err != nil {
		return err
	}
	return errors.Join(s.Run(ctx), s.Close())
}

// Find waits for a pattern in the output and returns its group.
func (s *Server) Find(pattern string, in *Buffer) string {
	s.T.Helper()
	re := regexp.MustCompile(pattern)
	for end := time.Now().Add(Patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if m := re.FindStringSubmatch(in.String()); m != nil {
			return m[1]
		}
		select {
		case err := <-s.done:
			close(s.done) // End finds it ended
			s.T.Fatalf("the server ended: %v\n%s", err, s.Errs.String())
		default:
		}
	}
	s.T.Fatalf("no %s in\n%s\n%s", pattern, s.Out.String(), s.Errs.String())
	return ""
}

// End stops the server and returns how it ended; later calls return nil.
func (s *Server) End() error {
	s.stop()
	select {
	case err, open := <-s.done:
		if open {
			close(s.done)
		}
		return err
	case <-time.After(Patience):
		s.T.Error("the server did not stop")
		return nil
	}
}

// Reload has the server read its configuration again, as an operator does.
func (s *Server) Reload() (status int, body string) {
	s.T.Helper()
	answer, err := http.Post(s.Admin+"/admin/reload", "", nil)
	if err != nil {
		s.T.Fatal(err)
	}
	return answer.StatusCode, Body(s.T, answer)
}
