// Package api is the HTTP edge: connections, limits, panics and the order of
// a shutdown. What is served on it is a Handler; api/openai is the first.
//
// fasthttp does not tell a handler that its client hung up, ends no stream at
// shutdown, lets a panic end the process, allocates a body's declared length before
// the body arrives, and stops serving when accept fails. This package closes these
// gaps: connections are wrapped (Watch), a Handler drains its own requests, panics
// of a handler are recovered, requests are refused by their head before the body
// is read (Handler.Takes), bodies share one memory budget, and the listener bounds
// connections and goes on after temporary failures.
package api

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"weir/internal/memory"
)

// Config bounds what a client can make the server hold.
type Config struct {
	ReadTimeout     time.Duration  // a whole request, header and body
	IdleTimeout     time.Duration  // a kept-alive connection between requests
	WriteTimeout    time.Duration  // one write, not one response: streams may run for hours
	MaxHeaderBytes  int            // request line and header fields
	MaxRequestBytes int            // request body
	BodyMemoryBytes int64          // request bodies in memory, over all connections, freed ones included until they are collected; further ones get 503
	Bodies          *memory.Budget // that memory, where others use it, too; nil: it is the server's own
	MaxConnections  int            // further ones take the place of a resting one, or are surplus connections
	// SurplusConnections are answered beyond MaxConnections: a GET of one of ProbePaths as ever, anything else with 503.
	SurplusConnections int
	ProbePaths         []string
	CloseTimeout       time.Duration // what Shutdown adds to its context, to end what a drain left

	// TLS is what the listeners speak; nil is plain HTTP. See TLS.Config.
	TLS *tls.Config
	// ClientCertificates: callers may show who they are by the certificate of
	// their connection.
	ClientCertificates bool

	Access Access
	Hooks  Hooks
}

// Hooks tell of connections that never become requests. They must not block.
type Hooks struct {
	// OnAcceptError: no connection could be accepted, and none is tried for
	// that long.
	OnAcceptError func(err error, pause time.Duration)
	// OnTurnedAway: a surplus connection was refused.
	OnTurnedAway func()
	// OnEvicted: a connection without a request was closed for a new one.
	OnEvicted func()
	// OnHandshakeError: a TLS handshake failed; why is one of Handshake….
	OnHandshakeError func(why string, err error)
}

// DefaultConfig is fit for a public listener.
func DefaultConfig() Config {
	return Config{
		ReadTimeout:     30 * time.Second,
		IdleTimeout:     2 * time.Minute,
		WriteTimeout:    30 * time.Second,
		MaxHeaderBytes:  16 << 10,
		MaxRequestBytes: 8 << 20,
		BodyMemoryBytes: 64 << 20,
		MaxConnections:  16 << 10,
		CloseTimeout:    2 * time.Second,

		SurplusConnections: 16,
		ProbePaths:         []string{"/health", "/ready"},
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
		{"surplus_connections", c.SurplusConnections, 1},
	} {
		if n.value < n.min {
			return fmt.Errorf("%s is %d; it must be at least %d", n.name, n.value, n.min)
		}
	}
	if least := 2 * int64(c.MaxRequestBytes); c.BodyMemoryBytes < least {
		return fmt.Errorf("body_memory_bytes is %d; it must be at least twice max_request_bytes, %d", c.BodyMemoryBytes, least)
	}
	return nil
}

// Handler answers requests and owns those that are running.
type Handler interface {
	// Takes reports whether the head of a request lets it pass: key, path,
	// method, and the client's verified certificate, nil for none. The body of one that does not pass is never read; Handle is
	// called for it all the same, without a body, and must refuse it.
	Takes(h *fasthttp.RequestHeader, peer *x509.Certificate) bool
	// Handle answers one request. A response body stream that it sets must
	// recover its own panics.
	Handle(ctx *fasthttp.RequestCtx)
	// Drain refuses new work, waits for the running requests until ctx ends,
	// ends the rest with an error that the client can read, and returns once
	// none is left or nothing more can be done.
	Drain(ctx context.Context) error
	// Refused is told of a request that was refused before it came to Handle.
	// It may still set fields of the response's header.
	Refused(ctx *fasthttp.RequestCtx, e *Error)
	// Panicked is told of a panic that Handle raised.
	Panicked(value any, stack []byte)
}

// Server runs a Handler on listeners.
type Server struct {
	config  Config
	handler Handler
	uploads Uploads // the same handler, where it reads some bodies itself; nil: none
	http    *fasthttp.Server
	bodies  *memory.Budget

	mu        sync.Mutex
	listeners []*listener
	stopped   bool // listeners that come now are closed at once

	allClosed atomic.Pointer[context.CancelFunc] // ends Shutdown's wait for connections; nil: it does not wait yet
}

// New returns a server that does not listen yet.
func New(c Config, h Handler) *Server {
	s := &Server{config: c, handler: h, bodies: c.Bodies}
	if s.bodies == nil {
		s.bodies = memory.New(c.BodyMemoryBytes)
	}
	s.uploads, _ = h.(Uploads)
	fasthttp.SetBodySizePoolLimit(pooledBodyBytes, pooledBodyBytes)
	s.http = &fasthttp.Server{
		Handler:                      s.handle,
		HeaderReceived:               s.headerReceived,
		ExpectHandler:                s.expect,
		ErrorHandler:                 s.refuseUnreadable,
		Name:                         "weir",
		ReadTimeout:                  c.ReadTimeout,
		IdleTimeout:                  c.IdleTimeout,
		WriteTimeout:                 0, // covers a whole response, which may be a stream; conn.Write has its own
		ReadBufferSize:               c.MaxHeaderBytes,
		StreamRequestBody:            true,                      // readBody reads it, into a buffer that grows with it
		MaxRequestBodySize:           1,                         // of a body, what fasthttp itself reads
		Concurrency:                  2*c.MaxConnections + 1024, // never reached: the listener has the bound, and closed ones end at once
		CloseOnShutdown:              true,
		DisablePreParseMultipartForm: true,
		SecureErrorLogMessage:        true,
		NoDefaultContentType:         true,
		Logger:                       silent{},
		ConnState: func(_ net.Conn, state fasthttp.ConnState) {
			if state == fasthttp.StateClosed {
				s.endWait()
			}
		},
	}
	return s
}

// pooledBodyBytes is the largest buffer of a body that a resting connection
// keeps for its next answer.
const pooledBodyBytes = 64 << 10

// silent drops fasthttp's own log, whose lines report broken connections and may
// contain request data.
type silent struct{}

func (silent) Printf(string, ...any) {}

// Serve accepts connections until Shutdown or a failure of the listener,
// which it owns from here on. It may be called for several listeners.
func (s *Server) Serve(ln net.Listener) error {
	l := newListener(ln, s.config, s.bodies)
	s.mu.Lock()
	s.listeners = append(s.listeners, l)
	stopped := s.stopped
	s.mu.Unlock()
	if stopped {
		return l.Close()
	}
	err := s.http.Serve(l)
	s.endWait()
	if err != nil {
		return fmt.Errorf("serve %s: %w", ln.Addr(), err)
	}
	return nil
}

// endWait ends Shutdown's wait where no listener and no connection is left. fasthttp counts both together, and would look
// a tenth of a second later.
func (s *Server) endWait() {
	if end := s.allClosed.Load(); end != nil && s.listenersClosed() && s.http.GetOpenConnectionsCount() == 0 {
		(*end)()
	}
}

func (s *Server) listenersClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !slices.ContainsFunc(s.listeners, func(l *listener) bool {
		select {
		case <-l.closed:
			return false
		default:
			return true
		}
	})
}

// Shutdown drains the handler until ctx ends, then closes listeners and
// connections, for which it takes at most Config.CloseTimeout longer. While
// it drains, the listeners still answer, so that load balancers see readiness
// go and late requests get a proper refusal.
func (s *Server) Shutdown(ctx context.Context) error {
	drainErr := s.handler.Drain(ctx)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.config.CloseTimeout)
	defer cancel()
	s.mu.Lock()
	s.stopped = true
	for _, l := range s.listeners {
		l.stopping.Store(true)
	}
	s.mu.Unlock()
	s.allClosed.Store(&cancel)
	closeErr := s.http.ShutdownWithContext(closing)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.listeners {
		_ = l.Close() // one whose Serve has only just begun is not known to the HTTP server yet; the others are closed
		l.closeAll()
	}
	if errors.Is(closeErr, context.DeadlineExceeded) || errors.Is(closeErr, context.Canceled) {
		closeErr = nil // what was left is closed now, or nothing was left
	}
	return errors.Join(drainErr, closeErr)
}

// Stats are the open connections and the body memory at one moment.
type Stats struct {
	Connections int   // open ones
	BodyBytes   int64 // of request bodies that arrive or are being understood
}

// Stats counts.
func (s *Server) Stats() Stats {
	st := Stats{BodyBytes: s.bodies.Used()}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.listeners {
		st.Connections += l.openConnections()
	}
	return st
}

// handle answers one request and recovers panics of the handler.
func (s *Server) handle(ctx *fasthttp.RequestCtx) {
	defer func() {
		if v := recover(); v != nil {
			s.handler.Panicked(v, debug.Stack())
			ctx.Response.Reset()
			s.config.Access.share(ctx)
			linger(ctx)
			Refuse("internal_error", "the server hit a bug while it handled this request; the process goes on").Write(ctx)
		}
	}()
	defer ReleaseBody(ctx)
	s.config.Access.share(ctx)
	if e := s.turnsAway(ctx); e != nil {
		s.refuse(ctx, e)
		return
	}
	if e := s.refusal(&ctx.Request.Header); e != nil {
		s.refuse(ctx, e)
		return
	}
	if asks, e := s.config.Access.preflight(ctx); e != nil {
		s.refuse(ctx, e)
		return
	} else if asks {
		return
	}
	h, peer := &ctx.Request.Header, Peer(ctx)
	if s.declaresTooMuch(h) && s.handler.Takes(h, peer) {
		s.refuse(ctx, s.declaredTooMuch(h))
		return
	}
	if s.config.ClientCertificates && announcesBody(h) && !s.handler.Takes(h, peer) {
		linger(ctx)
		s.handler.Handle(ctx) // which refuses it; its body is not read
		return
	}
	if most, setting := s.upload(h); most > 0 {
		s.serveUpload(ctx, most, setting)
		return
	}
	if e := s.readBody(ctx); e != nil {
		s.refuse(ctx, e)
		return
	}
	connOf(ctx).work()
	s.handler.Handle(ctx)
	if ctx.Response.IsBodyStream() && !ctx.Request.Header.IsHTTP11() {
		s.streamUntilClose(ctx)
	}
}

// refuse answers a request whose body may not have been read.
func (s *Server) refuse(ctx *fasthttp.RequestCtx, e *Error) {
	linger(ctx)
	e.Write(ctx)
	s.handler.Refused(ctx, e)
}

// refuseUnreadable answers bytes that are no HTTP request.
func (s *Server) refuseUnreadable(ctx *fasthttp.RequestCtx, err error) {
	e := unreadable(ctx, err)
	if hungUp(err) {
		e.Write(ctx) // there was no request yet, and none was refused
		return
	}
	if full := s.turnsAway(ctx); full != nil {
		e = full
	}
	s.refuse(ctx, e)
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}
