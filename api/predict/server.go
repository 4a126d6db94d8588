package predict

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/api/edge"
	"weir/api/meter"
	"weir/api/tenant"
	"weir/router"
	"weir/scheduler/quota"
)

// Config is what a Server is made of.
type Config struct {
	Callers *tenant.Authenticator
	Models  router.Predictors
	Meter   meter.Meter                             // nil counts nothing, and no limit holds
	Price   func(model, version string) quota.Price // of rows, as input tokens; nil: none
	Ready   func() (ready bool, why string)
	// Language reports whether a language model can answer a caller, and whether the caller has one of this name; nil: there are none.
	Language func(caller *tenant.Caller, name string) (ready, known bool)
	Keys     *edge.Keys // of idempotency; nil: none are read
	Hooks    edge.Hooks
	Version  string // of the program

	Insecure         bool          // other machines reach listeners that ask for no key: nobody loads or unloads models there
	ClientTimeouts   bool          // what clients say of how long they wait is a deadline, see edge.ClientTimeout
	Strict           bool          // refuse what is otherwise ignored and named in x-weir-warnings
	DrainRetries     bool          // clients refused while the server drains should try again
	CompressMinBytes int           // smaller responses go as they are
	MaxRequestBytes  int           // of a body once its gzip or deflate is decoded, and of a gRPC message
	AbortTimeout     time.Duration // at shutdown, what cancelled requests get to end
}

// may reports whether a caller may use what needs a scope. Where nobody is asked for a key,
// callers have every scope; those of other machines are no operators for that.
func (c *Config) may(who tenant.Caller, scope tenant.Scope) bool {
	return who.Scope.Has(scope) && (scope != tenant.ScopeAdmin || !c.Insecure || !c.Callers.Open())
}

func (c *Config) validate() error {
	switch {
	case c.Callers == nil || c.Models == nil || c.Ready == nil:
		return errors.New("predict: callers, models and readiness are needed")
	case c.MaxRequestBytes < 1<<10:
		return fmt.Errorf("predict: MaxRequestBytes is %d; it must be at least 1024", c.MaxRequestBytes)
	case c.AbortTimeout <= 0:
		return fmt.Errorf("predict: AbortTimeout is %v; it must be above 0", c.AbortTimeout)
	}
	return nil
}

// Server answers predict requests and passes all others on.
type Server struct {
	config  Config
	next    api.Handler
	running *edge.Running
	ids     edge.IDs
	stats   statistics
}

// New returns a server in front of next, which gets what is not of this package.
func New(c Config, next api.Handler) (*Server, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	return &Server{config: c, next: next, running: edge.NewRunning()}, nil
}

// Takes reports whether the head of a request lets it pass.
func (s *Server) Takes(h *fasthttp.RequestHeader, peer *x509.Certificate) bool {
	rt, ours := s.look(h)
	if !ours {
		return s.next.Takes(h, peer)
	}
	_, fault, _ := s.admitHead(&rt, h, peer, true)
	return fault == nil
}

// admitHead checks the method and the caller of a request. look: it will be checked again, to be
// answered.
func (s *Server) admitHead(rt *route, h *fasthttp.RequestHeader, peer *x509.Certificate, look bool) (c tenant.Caller, fault *api.Error, why string) {
	if rt.scope != 0 {
		if c, fault, why = edge.Identify(s.config.Callers, edge.ProofOf(h, peer, look)); fault != nil {
			return c, fault, why
		}
	}
	if method := edge.MethodName(h); !rt.takes(method) {
		fault = api.Refuse("method_not_allowed", fmt.Sprintf("%s does not take %s; it takes %s", rt.pattern, method, rt.method))
	} else if !s.config.may(c, rt.scope) {
		fault = edge.LacksScope(rt.scope)
	}
	return c, fault, why
}

// Handle answers one request.
func (s *Server) Handle(ctx *fasthttp.RequestCtx) {
	arrived := time.Now()
	head := &ctx.Request.Header
	rt, ours := s.find(head)
	if !ours {
		s.next.Handle(ctx)
		return
	}
	c := &call{Server: s, ctx: ctx, route: &rt, job: job{arrived: arrived}}
	c.identify()
	var fault *api.Error
	c.caller, fault, c.why = s.admitHead(&rt, head, api.Peer(ctx), false)
	c.answer(fault)
}

// answer answers a request whose head was read, and refused where there is a fault.
func (c *call) answer(fault *api.Error) {
	s, ctx, rt := c.Server, c.ctx, c.route
	if fault == nil {
		fault = c.once(func() *api.Error { return rt.serve(c) })
	}
	if fault != nil {
		fault.NoRetry = fault.NoRetry || s.running.IsDraining() && !s.config.DrainRetries
		c.refuse(fault)
	}
	if s.running.IsDraining() {
		ctx.SetConnectionClose()
	}
	edge.Compress(ctx, s.config.CompressMinBytes)
	if h := s.config.Hooks.OnResponse; h != nil {
		h(rt.pattern, edge.MethodName(&ctx.Request.Header), ctx.Response.StatusCode(), time.Since(c.arrived))
	}
}

// Refused is told of a request that package api refused.
func (s *Server) Refused(ctx *fasthttp.RequestCtx, fault *api.Error) {
	rt, ours := s.find(&ctx.Request.Header)
	if !ours || rt.endpoint == alive { // bytes that are no request have the path "/", too; most clients are OpenAI's
		s.next.Refused(ctx, fault)
		return
	}
	c := &call{Server: s, ctx: ctx, route: &rt, job: job{arrived: time.Now()}}
	c.identify()
	c.refuse(fault)
	if h := s.config.Hooks.OnResponse; h != nil {
		h(rt.pattern, edge.MethodName(&ctx.Request.Header), fault.Status, 0)
	}
}

// Drain drains the predict requests and what is behind this handler.
func (s *Server) Drain(ctx context.Context) error {
	behind := make(chan error, 1)
	go func() { behind <- s.next.Drain(ctx) }()
	err := s.running.Drain(ctx, s.config.AbortTimeout)
	return errors.Join(err, <-behind)
}

// Panicked is told of a panic of Handle.
func (s *Server) Panicked(value any, stack []byte) { s.next.Panicked(value, stack) }

var _ api.Handler = (*Server)(nil)
