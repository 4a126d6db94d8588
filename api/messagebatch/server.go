// Package messagebatch serves Anthropic's message batches, /v1/messages/batches, on the batches of package batch: a batch's requests
// come in the body that makes it, and are lines of a file for the worker; its results are the worker's in Anthropic's form.
//
//	orders := messagebatch.New(messagebatch.Config{Batches: files, Keys: keys, Hooks: hooks})
//	mux.Register(orders)
package messagebatch

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/api/batch"
	"weir/api/edge"
	"weir/api/openai/messages"
	"weir/api/tenant"
)

// Config is what a Server is made of.
type Config struct {
	Batches *batch.Server
	Keys    *edge.Keys // of idempotency; nil: none are read
	Hooks   edge.Hooks // OnResponse, OnRefused and OnPanic
}

// Server answers requests for message batches.
type Server struct {
	config  Config
	routes  []*route
	running *edge.Running
}

const (
	routeBatches = "/v1/messages/batches"
	routeBatch   = "/v1/messages/batches/{id}"
	routeCancel  = "/v1/messages/batches/{id}/cancel"
	routeResults = "/v1/messages/batches/{id}/results"
)

// route is one path, with what each of its methods does.
type route struct {
	edge.Route
	server *Server
	serve  map[string]func(*call) *api.Error // by method
}

// New returns a server.
func New(c Config) *Server {
	s := &Server{config: c, running: edge.NewRunning()}
	type verbs = map[string]func(*call) *api.Error
	s.routes = []*route{
		{Route: edge.Route{Pattern: routeBatches}, serve: verbs{http.MethodGet: (*call).list, http.MethodPost: (*call).create}},
		{Route: edge.Route{Pattern: routeCancel}, serve: verbs{http.MethodPost: (*call).cancel}},
		{Route: edge.Route{Pattern: routeResults}, serve: verbs{http.MethodGet: (*call).results}},
		{Route: edge.Route{Pattern: routeBatch}, serve: verbs{http.MethodGet: (*call).show, http.MethodDelete: (*call).remove}},
	}
	for _, rt := range s.routes {
		rt.server, rt.Scope = s, tenant.ScopeInference
		rt.Methods = slices.Sorted(maps.Keys(rt.serve))
		rt.Bars = func(*fasthttp.RequestHeader, tenant.Caller) *api.Error { return c.Batches.Closed() }
	}
	return s
}

// Find implements edge.Protocol.
func (s *Server) Find(path string) (edge.Endpoint, edge.Params) {
	if !strings.HasPrefix(path, routeBatches) || !edge.IsNormal(path) {
		return nil, edge.Params{}
	}
	for _, rt := range s.routes {
		before, after, named := strings.Cut(rt.Pattern, "{id}")
		id, ok := strings.CutPrefix(path, before)
		if ok {
			id, ok = strings.CutSuffix(id, after)
		}
		if ok && named == (id != "") && !strings.Contains(id, "/") {
			return rt, edge.Params{Name: id}
		}
	}
	return nil, edge.Params{}
}

// Routes implements edge.Protocol.
func (s *Server) Routes() (list []*edge.Route) {
	for _, rt := range s.routes {
		list = append(list, &rt.Route)
	}
	return list
}

// Hooks implements edge.Protocol.
func (s *Server) Hooks() *edge.Hooks { return &s.config.Hooks }

// IsDraining implements edge.Protocol.
func (s *Server) IsDraining() bool { return s.running.IsDraining() }

// Drain implements edge.Protocol.
func (s *Server) Drain(ctx context.Context) error { return s.running.Drain(ctx, 0) }

var _ edge.Protocol = (*Server)(nil)

// About implements edge.Endpoint.
func (rt *route) About() *edge.Route { return &rt.Route }

// Begin implements edge.Endpoint.
func (rt *route) Begin(x *edge.Exchange) edge.Call {
	return &call{Server: rt.server, route: rt, ctx: x.Ctx, id: x.Params.Name, caller: x.Caller}
}

// call is one request on its way through the server.
type call struct {
	*Server
	route  *route
	ctx    *fasthttp.RequestCtx
	id     string // in the path
	caller tenant.Caller
}

// Serve implements edge.Call.
func (c *call) Serve() *api.Error {
	if !c.running.Enter() {
		return edge.ShuttingDown()
	}
	defer c.running.Leave()
	c.ctx.Response.Header.Set("Request-Id", c.requestID()) // under which Anthropic's clients look for it
	method := edge.MethodName(&c.ctx.Request.Header)
	if method == http.MethodHead {
		method = http.MethodGet
	}
	return c.route.serve[method](c)
}

func (c *call) requestID() string { return string(c.ctx.Response.Header.Peek("X-Request-Id")) }

// Refuse implements edge.Call.
func (c *call) Refuse(fault *api.Error) {
	fault.Write(c.ctx)
	c.ctx.Response.Header.Set("Request-Id", c.requestID())
	c.ctx.SetBody(messages.AppendFault(nil, fault, c.requestID()))
}

// Describe implements edge.Call.
func (c *call) Describe(*api.Error, *edge.Refusal) {}

// End implements edge.Call.
func (c *call) End() {}

// desk takes the call's orders.
func (c *call) desk() *batch.Desk { return c.config.Batches.Desk(c.ctx, c.caller) }
