package openapi

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"weir/api"
	"weir/api/edge"
	"weir/api/web"
)

// Config is what a Server is made of.
type Config struct {
	Routes  func() []*edge.Route // of all protocols, once all are there
	Version string               // of the build
	Hooks   edge.Hooks
}

// Server is the protocol of the document and of the page that shows it. Callers are not asked who they are: neither says more than the
// server's documentation.
type Server struct {
	config   Config
	draining atomic.Bool
	document *route
	page     *route
	text     func() ([]byte, error)
}

var _ edge.Protocol = (*Server)(nil)

// New returns the protocol.
func New(c Config) *Server {
	s := &Server{config: c, text: sync.OnceValues(func() ([]byte, error) { return Document(c.Routes(), c.Version) })}
	methods := []string{http.MethodGet}
	s.document = &route{server: s, Route: edge.Route{Pattern: "/openapi.json", Methods: methods, Open: true}}
	s.page = &route{server: s, Route: edge.Route{Pattern: web.Docs.Path() + "/{file}", Methods: methods, Open: true}}
	return s
}

// Find implements edge.Protocol.
func (s *Server) Find(path string) (edge.Endpoint, edge.Params) {
	switch {
	case path == s.document.Pattern:
		return s.document, edge.Params{}
	case web.Docs.Has(path):
		return s.page, edge.Params{}
	}
	return nil, edge.Params{}
}

// Routes implements edge.Protocol.
func (s *Server) Routes() []*edge.Route { return []*edge.Route{&s.document.Route, &s.page.Route} }

// Hooks implements edge.Protocol.
func (s *Server) Hooks() *edge.Hooks { return &s.config.Hooks }

// IsDraining implements edge.Protocol.
func (s *Server) IsDraining() bool { return s.draining.Load() }

// Drain implements edge.Protocol: both are sent at once, or not at all.
func (s *Server) Drain(context.Context) error {
	s.draining.Store(true)
	return nil
}

type route struct {
	edge.Route
	server *Server
}

// About implements edge.Endpoint.
func (rt *route) About() *edge.Route { return &rt.Route }

// Begin implements edge.Endpoint.
func (rt *route) Begin(x *edge.Exchange) edge.Call { return &call{exchange: x, route: rt} }

// call answers one request.
type call struct {
	exchange *edge.Exchange
	route    *route
}

// Serve implements edge.Call.
func (c *call) Serve() *api.Error {
	s, ctx := c.route.server, c.exchange.Ctx
	if s.IsDraining() {
		return edge.ShuttingDown()
	}
	if c.route == s.page {
		h := &ctx.Request.Header
		path, _, _ := strings.Cut(string(h.RequestURI()), "?")
		answer := web.Docs.Answer(web.Request{Path: path, AcceptEncoding: string(h.Peek("Accept-Encoding")), IfNoneMatch: string(h.Peek("If-None-Match"))})
		for _, field := range answer.Header {
			ctx.Response.Header.Set(field[0], field[1])
		}
		ctx.SetStatusCode(answer.Status)
		ctx.Response.SetBodyRaw(answer.Body)
		return nil
	}
	text, err := s.text()
	if err != nil {
		return api.Refuse("internal_error", err.Error())
	}
	ctx.SetContentType(jsonKind)
	ctx.Response.Header.Set("X-Content-Type-Options", "nosniff")
	ctx.Response.SetBodyRaw(text)
	return nil
}

// Refuse implements edge.Call.
func (c *call) Refuse(fault *api.Error) { fault.Write(c.exchange.Ctx) }

// Describe implements edge.Call.
func (c *call) Describe(*api.Error, *edge.Refusal) {}

// End implements edge.Call.
func (c *call) End() {}
