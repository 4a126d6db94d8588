// Package api is the HTTP edge: connections, limits, panics and the order of
// a shutdown. What is served on it is a Handler; api/openai is the first.
//
// fasthttp tells a handler nothing about a client that hangs up, ends no
// stream at shutdown and lets one panic take the process down. This package
// closes these three gaps: connections are wrapped (Watch), a Handler drains
// its own requests, and every call into it is recovered.
package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
)

// Config bounds what a client can make the server hold.
type Config struct {
	ReadTimeout     time.Duration `yaml:"read_timeout"`      // a whole request, header and body
	IdleTimeout     time.Duration `yaml:"idle_timeout"`      // a kept-alive connection between requests
	WriteTimeout    time.Duration `yaml:"write_timeout"`     // one write, not one response: streams may run for hours
	MaxHeaderBytes  int           `yaml:"max_header_bytes"`  // request line and header fields
	MaxRequestBytes int           `yaml:"max_request_bytes"` // request body
	MaxConnections  int           `yaml:"max_connections"`   // further ones get 503
	CloseTimeout    time.Duration `yaml:"close_timeout"`     // what Shutdown adds to its context, to end what a drain left
}

// DefaultConfig is fit for a public listener.
func DefaultConfig() Config {
	return Config{
		ReadTimeout:     30 * time.Second,
		IdleTimeout:     2 * time.Minute,
		WriteTimeout:    30 * time.Second,
		MaxHeaderBytes:  16 << 10,
		MaxRequestBytes: 8 << 20,
		MaxConnections:  16 << 10,
		CloseTimeout:    2 * time.Second,
	}
}

// Validate reports the first setting that makes no sense.
func (c Config) Validate() error {
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"read_timeout", c.ReadTimeout}, {"idle_timeout", c.IdleTimeout},
		{"write_timeout", c.WriteTimeout}, {"close_timeout", c.CloseTimeout},
	} {
		if d.value <= 0 {
			return fmt.Errorf("%s is %v; it must be above 0", d.name, d.value)
		}
	}
	for _, n := range []struct {
		name       string
		value, min int
	}{
		{"max_header_bytes", c.MaxHeaderBytes, 1 << 10},
		{"max_request_bytes", c.MaxRequestBytes, 1 << 10},
		{"max_connections", c.MaxConnections, 1},
	} {
		if n.value < n.min {
			return fmt.Errorf("%s is %d; it must be at least %d", n.name, n.value, n.min)
		}
	}
	return nil
}

// Handler answers requests and owns those that are running.
type Handler interface {
	// Handle answers one request. A response body stream that it sets must
	// recover its own panics.
	Handle(ctx *fasthttp.RequestCtx)
	// Drain refuses new work, waits for the running requests until ctx ends,
	// ends the rest with an error that the client can read, and returns once
	// none is left or nothing more can be done.
	Drain(ctx context.Context) error
	// Panicked is told of a panic that Handle raised.
	Panicked(value any, stack []byte)
}

// Server runs a Handler on listeners.
type Server struct {
	config  Config
	handler Handler
	http    *fasthttp.Server

	mu        sync.Mutex
	listeners []*listener
}

// New returns a server that does not listen yet.
func New(c Config, h Handler) *Server {
	s := &Server{config: c, handler: h}
	s.http = &fasthttp.Server{
		Handler:                      s.handle,
		ErrorHandler:                 refuseUnreadable,
		Name:                         "weir",
		ReadTimeout:                  c.ReadTimeout,
		IdleTimeout:                  c.IdleTimeout,
		WriteTimeout:                 0, // covers a whole response, which may be a stream; conn.Write has its own
		ReadBufferSize:               c.MaxHeaderBytes,
		MaxRequestBodySize:           c.MaxRequestBytes,
		Concurrency:                  c.MaxConnections,
		CloseOnShutdown:              true,
		DisablePreParseMultipartForm: true,
		SecureErrorLogMessage:        true,
		NoDefaultContentType:         true,
		Logger:                       silent{},
	}
	return s
}

// silent drops fasthttp's own log: broken peers are no news, and its lines
// may carry request data.
type silent struct{}

func (silent) Printf(string, ...any) {}

// Serve accepts connections until Shutdown or a failure of the listener,
// which it owns from here on. It may be called for several listeners.
func (s *Server) Serve(ln net.Listener) error {
	l := newListener(ln, s.config.WriteTimeout)
	s.mu.Lock()
	s.listeners = append(s.listeners, l)
	s.mu.Unlock()
	if err := s.http.Serve(l); err != nil {
		return fmt.Errorf("serve %s: %w", ln.Addr(), err)
	}
	return nil
}

// Shutdown drains the handler until ctx ends, then closes listeners and
// connections, for which it takes at most Config.CloseTimeout longer. While
// it drains, the listeners still answer, so that load balancers see readiness
// go and late requests get a proper refusal.
func (s *Server) Shutdown(ctx context.Context) error {
	drainErr := s.handler.Drain(ctx)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.config.CloseTimeout)
	defer cancel()
	closeErr := s.http.ShutdownWithContext(closing)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.listeners {
		l.closeAll()
	}
	if errors.Is(closeErr, context.DeadlineExceeded) {
		closeErr = nil // what was left is closed now
	}
	return errors.Join(drainErr, closeErr)
}

// handle is the boundary that no panic passes.
func (s *Server) handle(ctx *fasthttp.RequestCtx) {
	defer func() {
		if v := recover(); v != nil {
			s.handler.Panicked(v, debug.Stack())
			ctx.Response.Reset()
			ctx.SetConnectionClose()
			(&Error{
				Status: fasthttp.StatusInternalServerError, Type: TypeServer, Code: "internal_error",
				Message: "the server hit a bug while it handled this request; the process goes on",
			}).Write(ctx)
		}
	}()
	if ambiguous(&ctx.Request.Header) {
		refuseAmbiguous(ctx)
		return
	}
	s.handler.Handle(ctx)
}

// refuseUnreadable answers what never became a request.
func refuseUnreadable(ctx *fasthttp.RequestCtx, err error) {
	e := Error{Status: fasthttp.StatusBadRequest, Type: TypeInvalidRequest, Code: "malformed_request",
		Message: "the bytes on this connection are not a valid HTTP/1.1 request"}
	var small *fasthttp.ErrSmallBuffer
	switch {
	case errors.As(err, &small):
		e.Status, e.Code = fasthttp.StatusRequestHeaderFieldsTooLarge, "header_too_large"
		e.Message = "request line and header fields are larger than this server takes"
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		e.Status, e.Code = fasthttp.StatusRequestEntityTooLarge, "request_too_large"
		e.Message = "the request body is larger than this server takes"
	case isTimeout(err):
		e.Status, e.Code = fasthttp.StatusRequestTimeout, "request_timeout"
		e.Message = "the request did not arrive in time"
	}
	e.Write(ctx)
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}
