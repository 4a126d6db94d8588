package web

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"sync/atomic"

	"weir/api"
	"weir/api/edge"
	"weir/api/signin"
	"weir/api/tenant"
)

// Config is what a Server is made of.
type Config struct {
	Home    edge.Protocol  // answers / to clients that are no browsers
	Catalog func() Catalog // what the machine could serve, for callers; nil: nothing is told of it
	SignIn  *signin.Service
	Hooks   edge.Hooks
}

// Catalog are models that a machine could serve.
type Catalog struct {
	MemoryBytes int64     `json:"memory_bytes"` // that models may take; 0: it is not known
	Context     int64     `json:"context"`      // tokens that needs_bytes are for
	Pulls       bool      `json:"pulls"`        // POST /api/pull brings them in, for callers with the scope admin
	Models      []Offered `json:"models"`
}

// Offered is a model of a Catalog.
type Offered struct {
	Name       string `json:"name"`
	Title      string `json:"title"`
	Use        string `json:"use"`
	About      string `json:"about"`
	Bytes      int64  `json:"bytes"`          // of the download
	NeedsBytes int64  `json:"needs_bytes"`    // of memory, about
	Fits       *bool  `json:"fits,omitempty"` // into MemoryBytes; nil: it is not known
	Command    string `json:"command"`
}

// Server is the protocol of the playground on the API listener. Callers are not asked who they are: what the page asks for in their
// name is.
type Server struct {
	config   Config
	draining atomic.Bool
	home     *route
	page     *route
	catalog  *route
	signIn   *route
}

var _ edge.Protocol = (*Server)(nil)

// New returns the protocol. It comes before Home in a Mux.
func New(c Config) *Server {
	s := &Server{config: c}
	methods := []string{http.MethodGet}
	s.home = &route{server: s, Route: edge.Route{Pattern: "/", Methods: methods, Open: true}}
	s.page = &route{server: s, Route: edge.Route{Pattern: Playground.Path() + "/{file}", Methods: methods, Open: true}}
	s.catalog = &route{server: s, Route: edge.Route{Pattern: catalogPath, Methods: methods, Scope: tenant.ScopeInference}}
	s.signIn = &route{server: s, Route: edge.Route{Pattern: signInPath, Methods: []string{http.MethodGet, http.MethodPost}, Open: true}}
	return s
}

// SignInPath is where a page asks where people sign in, and has a code changed for a token.
func (p *Page) SignInPath() string { return p.Path() + "/sign-in" }

var signInPath = Playground.SignInPath()

var catalogPath = Playground.Path() + "/catalog"

type route struct {
	edge.Route
	server *Server
}

// Find implements edge.Protocol.
func (s *Server) Find(path string) (edge.Endpoint, edge.Params) {
	switch {
	case path == "/":
		return s.home, edge.Params{}
	case path == catalogPath && s.config.Catalog != nil:
		return s.catalog, edge.Params{}
	case path == signInPath && s.config.SignIn != nil:
		return s.signIn, edge.Params{}
	case Playground.Has(path):
		return s.page, edge.Params{}
	}
	return nil, edge.Params{}
}

// Routes implements edge.Protocol: / is among those of Home.
func (s *Server) Routes() []*edge.Route {
	list := []*edge.Route{&s.page.Route}
	if s.config.Catalog != nil {
		list = append(list, &s.catalog.Route)
	}
	if s.config.SignIn != nil {
		list = append(list, &s.signIn.Route)
	}
	return list
}

// Hooks implements edge.Protocol.
func (s *Server) Hooks() *edge.Hooks { return &s.config.Hooks }

// IsDraining implements edge.Protocol.
func (s *Server) IsDraining() bool { return s.draining.Load() }

// Drain implements edge.Protocol: a page is sent at once, or not at all.
func (s *Server) Drain(context.Context) error {
	s.draining.Store(true)
	return nil
}

// About implements edge.Endpoint.
func (rt *route) About() *edge.Route { return &rt.Route }

// Begin implements edge.Endpoint.
func (rt *route) Begin(x *edge.Exchange) edge.Call {
	if rt == rt.server.home && !isBrowser(x.Ctx.Request.Header.Peek("Accept")) {
		if next, _ := rt.server.config.Home.Find("/"); next != nil {
			return next.Begin(x)
		}
	}
	return &call{exchange: x, route: rt}
}

// isBrowser tells by its Accept header who reads HTML. What takes just anything is no browser.
func isBrowser(accept []byte) bool { return bytes.Contains(accept, []byte("text/html")) }

// call answers one request.
type call struct {
	exchange *edge.Exchange
	route    *route
}

// Serve implements edge.Call.
func (c *call) Serve() *api.Error {
	if c.route.server.IsDraining() {
		return edge.ShuttingDown()
	}
	ctx := c.exchange.Ctx
	if c.route == c.route.server.catalog {
		api.WriteJSON(ctx, http.StatusOK, c.route.server.config.Catalog())
		return nil
	}
	if c.route == c.route.server.signIn {
		return c.signIn()
	}
	answer := redirect(Playground.name + "/")
	if c.route == c.route.server.home {
		ctx.Response.Header.Set("Vary", "Accept")
	} else {
		h := &ctx.Request.Header
		path, _, _ := strings.Cut(string(h.RequestURI()), "?")
		answer = Playground.Answer(Request{Path: path, AcceptEncoding: string(h.Peek("Accept-Encoding")), IfNoneMatch: string(h.Peek("If-None-Match"))})
	}
	for _, field := range answer.Header {
		ctx.Response.Header.Set(field[0], field[1])
	}
	ctx.SetStatusCode(answer.Status)
	ctx.Response.SetBodyRaw(answer.Body)
	return nil
}

// signIn says where people sign in, or changes a code for a token.
func (c *call) signIn() *api.Error {
	ctx, service := c.exchange.Ctx, c.route.server.config.SignIn
	ctx.Response.Header.Set("Cache-Control", "no-store")
	if ctx.IsGet() || ctx.IsHead() {
		api.WriteJSON(ctx, http.StatusOK, service.Offer(context.Background()))
		return nil
	}
	order, fault := signin.ReadOrder(ctx.PostBody())
	if fault != nil {
		return fault
	}
	token, fault := service.Exchange(context.Background(), order)
	if fault != nil {
		return fault
	}
	api.WriteJSON(ctx, http.StatusOK, token)
	return nil
}

// Refuse implements edge.Call.
func (c *call) Refuse(fault *api.Error) { fault.Write(c.exchange.Ctx) }

// Describe implements edge.Call.
func (c *call) Describe(*api.Error, *edge.Refusal) {}

// End implements edge.Call.
func (c *call) End() {}
