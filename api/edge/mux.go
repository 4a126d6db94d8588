package edge

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/api/tenant"
)

// MuxConfig is what a Mux is made of.
type MuxConfig struct {
	Callers *tenant.Authenticator // nil: no caller is known, so that open routes alone are served

	DrainRetries     bool // clients refused while the server drains should try again
	CompressMinBytes int  // smaller responses go as they are
	MaxRequestBytes  int  // of a body once its content coding is undone; 0: as many as package api takes by default

	IDs IDs // of the requests

	OnPanic func(where string, value any, stack []byte) // a bug was caught; nil: not told
}

// Mux is the handler of the API listener: it leads each request to the endpoint of its path, and does for all protocols alike what a request
// needs beside its answer. In this order: the route is found, the caller identified, method and scope checked, the request named, its trace
// begun; the body is decoded; the endpoint answers; a refusal is written in the protocol's form and told, the answer compressed and told.
type Mux struct {
	config    MuxConfig
	protocols []Protocol
	uploads   []uploads // those of the protocols that read some bodies themselves
}

// NewMux returns a Mux over protocols, to which Register may add.
func NewMux(c MuxConfig, protocols ...Protocol) *Mux {
	if c.MaxRequestBytes == 0 {
		c.MaxRequestBytes = api.DefaultConfig().MaxRequestBytes
	}
	m := &Mux{config: c}
	m.Register(protocols...)
	return m
}

// Register adds protocols before the first request comes. A path is the first's that finds an endpoint for it; the last finds one for every path.
func (m *Mux) Register(protocols ...Protocol) {
	for _, p := range protocols {
		m.protocols = append(m.protocols, p)
		if u, ok := p.(uploads); ok {
			m.uploads = append(m.uploads, u)
		}
	}
}

// Routes are those of all protocols.
func (m *Mux) Routes() (list []*Route) {
	for _, p := range m.protocols {
		list = append(list, p.Routes()...)
	}
	return list
}

// Exchange is a request whose route is known, with what the Mux has found out of it.
type Exchange struct {
	Ctx      *fasthttp.RequestCtx
	Route    *Route
	Params   Params
	Caller   tenant.Caller // zero where the route asks for none
	ID       string        // ours, unique
	Name     string        // the client's name for the request, or ours: sent as x-request-id; clients may send the same one twice
	Named    bool          // Name is the client's
	Trace    Trace
	Arrived  time.Time
	Internal *InternalRequest // nil: the request has a connection

	protocol Protocol
	hooks    *Hooks
	why      string // the caller was denied; for the log
}

// find is the endpoint of a request, for as long as its header is as it is.
func (m *Mux) find(target []byte) (Protocol, Endpoint, Params) {
	path, last := PathView(target), m.protocols[len(m.protocols)-1]
	for _, p := range m.protocols[:len(m.protocols)-1] {
		if e, params := p.Find(path); e != nil {
			return p, e, params
		}
	}
	e, params := last.Find(path)
	return last, e, params
}

// admit identifies the caller of a request and checks what its head says. look: it will be checked again, to be answered.
func (m *Mux) admit(rt *Route, h *fasthttp.RequestHeader, peer *x509.Certificate, look bool) (c tenant.Caller, fault *api.Error, why string) {
	if !rt.Open {
		if m.config.Callers == nil {
			return c, invalidKey(), ""
		}
		if c, fault, why = Identify(m.config.Callers, ProofOf(h, peer, look)); fault != nil {
			return c, fault, why
		}
	}
	return c, m.bars(rt, h, c), ""
}

// bars is what stands against a caller's request for a route. Only callers who are known learn which routes there are.
func (m *Mux) bars(rt *Route, h *fasthttp.RequestHeader, c tenant.Caller) *api.Error {
	if fault := rt.admit(h, c); fault != nil || !rt.Unknown {
		return fault
	}
	path := RequestPath(h.RequestURI())
	hint := ""
	if near := m.meant(path); near != "" {
		hint = "did you mean " + near + "? "
	}
	return api.Refuse("unknown_url", fmt.Sprintf("nothing is served at %.100q; %sGET /openapi.json lists all paths, /docs shows them", path, hint))
}

// meant is the path of a route that is asked by a client whose base URL has /v1 once too often, or not at all, and by a path with a slash too
// many; "" is none.
func (m *Mux) meant(path string) string {
	path = strings.TrimRight(path, "/")
	for _, other := range []string{path, strings.TrimPrefix(path, "/v1"), "/v1" + path} {
		for _, p := range m.protocols {
			if e, _ := p.Find(other); e != nil && !e.About().Unknown {
				return other
			}
		}
	}
	return ""
}

// Takes reports whether the head of a request lets it pass.
func (m *Mux) Takes(h *fasthttp.RequestHeader, peer *x509.Certificate) bool {
	_, e, _ := m.find(h.RequestURI())
	_, fault, _ := m.admit(e.About(), h, peer, true)
	return fault == nil
}

// Handle answers one request.
func (m *Mux) Handle(ctx *fasthttp.RequestCtx) {
	x, e := m.open(ctx)
	var fault *api.Error
	x.Caller, fault, x.why = m.admit(x.Route, &ctx.Request.Header, api.Peer(ctx), false)
	m.answer(x, e, fault)
}

// HandleFor answers a request that the process itself makes in a caller's name; see InternalRequest.
func (m *Mux) HandleFor(ctx *fasthttp.RequestCtx, r *InternalRequest) {
	x, e := m.open(ctx)
	x.Caller, x.Internal = r.Caller, r
	m.answer(x, e, m.bars(x.Route, &ctx.Request.Header, x.Caller))
}

// Serves reports whether internal requests may be sent to a path with a method: a model computes the answer.
func (m *Mux) Serves(method, path string) bool {
	if strings.ContainsAny(path, "?#") {
		return false
	}
	_, e, _ := m.find([]byte(path))
	rt := e.About()
	return rt.Infers && rt.Takes(method)
}

// open begins the exchange of a request.
func (m *Mux) open(ctx *fasthttp.RequestCtx) (*Exchange, Endpoint) {
	arrived := time.Now()
	p, e, params := m.find(ctx.Request.Header.RequestURI())
	params.own()
	return &Exchange{Ctx: ctx, Route: e.About(), Params: params, Arrived: arrived, protocol: p, hooks: p.Hooks()}, e
}

var (
	requestIDField   = api.NewField("X-Request-Id")
	traceParentField = api.NewField("Traceparent")
	traceStateField  = api.NewField("Tracestate")
)

// name gives the request its id and sends its name.
func (x *Exchange) name(ids *IDs) {
	x.ID = ids.Next()
	x.Name = x.ID
	if own := requestIDField.Of(&x.Ctx.Request.Header); IsPlain(own) {
		x.Name, x.Named = string(own), true
	}
	x.Ctx.Response.Header.Set("X-Request-Id", x.Name)
}

// startTrace gives a request to a model its trace, and sends its place in it.
func (x *Exchange) startTrace() {
	if x.hooks.StartTrace == nil || !x.Route.Infers {
		return
	}
	head := &x.Ctx.Request.Header
	x.Trace = x.hooks.StartTrace(string(traceParentField.Of(head)), string(traceStateField.Of(head)))
	if x.Trace.Header != "" {
		x.Ctx.Response.Header.Set("Traceresponse", x.Trace.Header)
	}
}

// answer answers a request whose head was read, and refused where there is a fault.
func (m *Mux) answer(x *Exchange, e Endpoint, fault *api.Error) {
	ctx := x.Ctx
	x.name(&m.config.IDs)
	x.startTrace()
	c := e.Begin(x)
	defer c.End()
	if fault == nil {
		fault = serve(c, ctx, m.config.MaxRequestBytes)
	} else {
		x.Route.explain(fault, &ctx.Response.Header)
	}
	if fault != nil {
		fault.NoRetry = fault.NoRetry || x.protocol.IsDraining() && !m.config.DrainRetries
		c.Refuse(fault)
		x.Refused(c, fault)
	}
	if x.protocol.IsDraining() {
		ctx.SetConnectionClose()
	}
	if !ctx.Response.IsBodyStream() {
		Compress(ctx, m.config.CompressMinBytes)
	}
	x.responded(ctx.Response.StatusCode(), time.Since(x.Arrived))
}

// serve has a call answer a request, whose body may be coded.
func serve(c Call, ctx *fasthttp.RequestCtx, most int) *api.Error {
	if fault := decode(ctx, most); fault != nil {
		return fault
	}
	return c.Serve()
}

// Refused tells the hooks of a refusal.
func (x *Exchange) Refused(c Call, fault *api.Error) {
	if x.hooks.OnRefused == nil || fault.Status == StatusHungUp {
		return
	}
	r := Refusal{ID: string(x.Ctx.Response.Header.Peek("X-Request-Id")), Route: x.Route.Pattern, Method: MethodName(&x.Ctx.Request.Header),
		Remote: x.Ctx.RemoteAddr().String(), Status: fault.Status, Code: fault.Code, Trace: x.Trace, Arrived: x.Arrived, Reason: x.why}
	r.By(&x.Caller)
	c.Describe(fault, &r)
	r.Early = x.Route.Infers && !r.Started
	x.hooks.OnRefused(r)
}

func (x *Exchange) responded(status int, took time.Duration) {
	if x.hooks.OnResponse != nil {
		x.hooks.OnResponse(x.Route.Pattern, MethodName(&x.Ctx.Request.Header), status, took)
	}
}

// Refused is told of a request that package api refused. Bytes that are no request have the path "/", which is no protocol's then.
func (m *Mux) Refused(ctx *fasthttp.RequestCtx, fault *api.Error) {
	x, e := m.open(ctx)
	if PathView(ctx.Request.Header.RequestURI()) == "/" {
		last := m.protocols[len(m.protocols)-1]
		e, x.Params = last.Find("/")
		x.Route, x.protocol, x.hooks = e.About(), last, last.Hooks()
	}
	x.name(&m.config.IDs)
	x.startTrace()
	c := e.Begin(x)
	defer c.End()
	c.Refuse(fault)
	x.Refused(c, fault)
	x.responded(fault.Status, 0)
}

// Stopper is a Protocol that makes requests of its own, which it stops before any protocol drains.
type Stopper interface{ Stop() }

// Drain drains all protocols.
func (m *Mux) Drain(ctx context.Context) error {
	for _, p := range m.protocols {
		if s, ok := p.(Stopper); ok {
			s.Stop()
		}
	}
	var all sync.WaitGroup
	errs := make([]error, len(m.protocols))
	for i, p := range m.protocols {
		all.Go(func() { errs[i] = p.Drain(ctx) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// uploads is a Protocol that reads some bodies itself, as api.Uploads.
type uploads interface {
	Upload(h *fasthttp.RequestHeader) (maxBytes int64, setting string)
}

// Upload implements api.Uploads.
func (m *Mux) Upload(h *fasthttp.RequestHeader) (maxBytes int64, setting string) {
	for _, u := range m.uploads {
		if most, setting := u.Upload(h); most > 0 {
			return most, setting
		}
	}
	return 0, ""
}

// Panicked is told of a panic of Handle.
func (m *Mux) Panicked(value any, stack []byte) {
	if m.config.OnPanic != nil {
		m.config.OnPanic("handler", value, stack)
	}
}

var _ api.Uploads = (*Mux)(nil)
