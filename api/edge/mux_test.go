package edge

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/api/tenant"
)

// spoken is a protocol with one path of its own below its name, or with all paths.
type spoken struct {
	name     string
	all      bool
	route    Route
	draining bool
	hooks    Hooks
	told     []string // what was done to its calls, in order
	fault    *api.Error
}

func (s *spoken) Find(path string) (Endpoint, Params) {
	rest, ours := strings.CutPrefix(path, "/"+s.name+"/")
	if !ours && !s.all {
		return nil, Params{}
	}
	if !ours {
		rest = ""
	}
	return s, Params{Name: rest}
}
func (s *spoken) Routes() []*Route {
	return []*Route{{Pattern: "/" + s.name + "/{id}", Methods: []string{"GET", "POST"}}}
}
func (s *spoken) Hooks() *Hooks               { return &s.hooks }
func (s *spoken) IsDraining() bool            { return s.draining }
func (s *spoken) Drain(context.Context) error { return fmt.Errorf("%s drained", s.name) }
func (s *spoken) About() *Route               { return &s.route }
func (s *spoken) Begin(x *Exchange) Call      { s.tell("begin " + x.Params.Name); return &told{s, x} }
func (s *spoken) tell(what string)            { s.told = append(s.told, what) }
func (s *spoken) heard() (all string)         { all, s.told = strings.Join(s.told, ", "), nil; return all }

type told struct {
	*spoken
	x *Exchange
}

func (c *told) Serve() *api.Error {
	c.tell("serve")
	if c.x.Params.Name == "panic" {
		panic("a bug")
	}
	if c.fault == nil {
		c.x.Ctx.SetBodyString(c.name + " for " + c.x.Caller.Tenant.Name)
	}
	return c.fault
}
func (c *told) Refuse(fault *api.Error)           { c.tell("refuse " + fault.Code); fault.Write(c.x.Ctx) }
func (c *told) Describe(_ *api.Error, r *Refusal) { r.Model = c.name }
func (c *told) End()                              { c.tell("end") }

func asking(method, target, key string) *fasthttp.RequestCtx {
	ctx := &fasthttp.RequestCtx{}
	ctx.Init(&fasthttp.Request{}, nil, nil)
	ctx.Request.Header.SetMethod(method)
	ctx.Request.SetRequestURI(target)
	if key != "" {
		ctx.Request.Header.Set("Authorization", "Bearer "+key)
	}
	return ctx
}

func newSpoken(t *testing.T) (m *Mux, a, rest *spoken) {
	t.Helper()
	callers, err := tenant.NewAuthenticator(t.Context(), tenant.Config{StaticKeys: []string{"sk-0123456789"}})
	if err != nil {
		t.Fatal(err)
	}
	a = &spoken{name: "a", route: Route{Pattern: "/a/{id}", Methods: []string{"GET", "POST"}, Scope: tenant.ScopeInference, Infers: true}}
	rest = &spoken{name: "rest", all: true, route: Route{Pattern: "other", Unknown: true}}
	m = NewMux(MuxConfig{Callers: callers}, a)
	m.Register(rest)
	return m, a, rest
}

// TestMuxWithoutCallersIsClosed: who gives it no list of callers opens nothing by that.
func TestMuxWithoutCallersIsClosed(t *testing.T) {
	closed := &spoken{name: "closed", route: Route{Pattern: "/closed/{id}", Methods: []string{"GET"}, Scope: tenant.ScopeInference}}
	open := &spoken{name: "open", all: true, route: Route{Pattern: "/open", Methods: []string{"GET"}, Open: true}, fault: &api.Error{Status: 418}}
	m := NewMux(MuxConfig{}, closed, open)
	for path, want := range map[string]int{"/closed/x": 401, "/open": 418} {
		ctx := asking("GET", path, "sk-0123456789")
		m.Handle(ctx)
		if got := ctx.Response.StatusCode(); got != want {
			t.Errorf("%s: %d, want %d: %s", path, got, want, ctx.Response.Body())
		}
	}
}

// TestMuxSaysWhatWasMeant: base URLs with /v1 twice or not at all are the commonest mistakes of clients.
func TestMuxSaysWhatWasMeant(t *testing.T) {
	chats := &spoken{name: "v1", route: Route{Pattern: "/v1/{id}", Methods: []string{"POST"}, Open: true}}
	rest := &spoken{name: "rest", all: true, route: Route{Pattern: "other", Unknown: true, Open: true}}
	m := NewMux(MuxConfig{}, chats)
	m.Register(rest)
	for path, want := range map[string]string{"/chats": "did you mean /v1/chats?", "/chats//": "did you mean /v1/chats?", "/": ""} {
		ctx := asking("POST", path, "")
		m.Handle(ctx)
		body := string(ctx.Response.Body())
		if has := strings.Contains(body, "did you mean"); has != (want != "") || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", path, ctx.Response.StatusCode(), body)
		}
	}
}

// TestMuxAsksInOrder: the caller is identified before a path is told to be unknown, and the body of what the head refuses is not wanted.
func TestMuxAsksInOrder(t *testing.T) {
	m, a, rest := newSpoken(t)
	const key = "sk-0123456789"
	for _, c := range []struct {
		method, target, key string
		status              int
		reason, allow       string
		by                  *spoken
		heard               string
	}{
		{"POST", "/a/x%20y?z", key, 200, "", "", a, "begin x y, serve, end"},
		{"HEAD", "/a/x/", key, 200, "", "", a, "begin x, serve, end"},
		{"POST", "/a/x", "", 401, "invalid_api_key", "", a, "begin x, refuse invalid_api_key, end"},
		{"PUT", "/a/x", "", 401, "invalid_api_key", "", a, "begin x, refuse invalid_api_key, end"},
		{"PUT", "/a/x", key, 405, "method_not_allowed", "GET, HEAD, POST", a, "begin x, refuse method_not_allowed, end"},
		{"GET", "/b", "", 401, "invalid_api_key", "", rest, "begin , refuse invalid_api_key, end"},
		{"GET", "/b", key, 404, "unknown_url", "", rest, "begin , refuse unknown_url, end"},
	} {
		var refusals []Refusal
		var ended []string
		c.by.hooks = Hooks{OnRefused: func(r Refusal) { refusals = append(refusals, r) },
			OnResponse: func(route, method string, status int, _ time.Duration) {
				ended = append(ended, fmt.Sprint(route, method, status))
			}}
		ctx := asking(c.method, c.target, c.key)
		if takes := m.Takes(&ctx.Request.Header, nil); takes != (c.status == 200) {
			t.Errorf("%s %s: the body is wanted: %v", c.method, c.target, takes)
		}
		m.Handle(ctx)
		h := &ctx.Response.Header
		if got := ctx.Response.StatusCode(); got != c.status || string(h.Peek("X-Weir-Reason")) != c.reason || string(h.Peek("Allow")) != c.allow ||
			(c.status == 401) != (len(h.Peek("WWW-Authenticate")) > 0) || len(h.Peek("X-Request-Id")) == 0 {
			t.Errorf("%s %s: %d %s", c.method, c.target, got, h)
		}
		if got := c.by.heard(); got != c.heard {
			t.Errorf("%s %s: %s, want %s", c.method, c.target, got, c.heard)
		}
		if len(ended) != 1 || ended[0] != fmt.Sprint(c.by.route.Pattern, c.method, c.status) {
			t.Errorf("%s %s: told as %v", c.method, c.target, ended)
		}
		if refused := c.status != 200; (len(refusals) == 1) != refused || refused && (refusals[0].Code != c.reason || refusals[0].Model != c.by.name || refusals[0].Early != c.by.route.Infers) {
			t.Errorf("%s %s: %+v", c.method, c.target, refusals)
		}
	}
}

// TestMuxNamesTheListOfPaths: a caller who asks for a path that is none learns where all are told.
func TestMuxNamesTheListOfPaths(t *testing.T) {
	m, _, _ := newSpoken(t)
	ctx := asking("GET", "/b%22"+strings.Repeat("b", 200), "sk-0123456789")
	m.Handle(ctx)
	want := `nothing is served at "/b\"` + strings.Repeat("b", 97) + `"; GET /openapi.json lists all paths, /docs shows them`
	if got := ctx.Response.Body(); ctx.Response.StatusCode() != 404 || !bytes.Contains(got, api.AppendString(nil, want)) {
		t.Errorf("%d %s\nwant %s", ctx.Response.StatusCode(), got, want)
	}
}

func TestMuxNamesAndDrains(t *testing.T) {
	m, a, _ := newSpoken(t)
	ctx := asking("POST", "/a/x", "sk-0123456789")
	ctx.Request.Header.Set("X-Request-Id", "mine")
	a.fault, a.draining = api.Refuse("internal_error", "no"), true
	m.Handle(ctx)
	if h := &ctx.Response.Header; string(h.Peek("X-Request-Id")) != "mine" || string(h.Peek("X-Should-Retry")) != "false" || !ctx.Response.ConnectionClose() {
		t.Errorf("%s", h)
	}
	if err := m.Drain(t.Context()); err == nil || err.Error() != "a drained\nrest drained" {
		t.Errorf("drain: %v", err)
	}
}

// TestMuxEndsWhatPanics: what a call holds is given back, and package api answers.
func TestMuxEndsWhatPanics(t *testing.T) {
	m, a, _ := newSpoken(t)
	defer func() {
		if v := recover(); v != "a bug" || a.heard() != "begin panic, serve, end" {
			t.Errorf("%v", v)
		}
	}()
	m.Handle(asking("POST", "/a/panic", "sk-0123456789"))
}

// TestMuxTellsOfBytesThatAreNoRequest: their path reads as "/", which a protocol may have as its own.
func TestMuxTellsOfBytesThatAreNoRequest(t *testing.T) {
	m, a, rest := newSpoken(t)
	a.all = true
	m.Refused(asking("GET", "/", ""), api.Refuse("invalid_json", "no request"))
	if a.heard() != "" || rest.heard() != "begin , refuse invalid_json, end" {
		t.Error("the wrong protocol was told")
	}
}

// TestMuxServesErrands: they name their caller themselves, and go to what a model computes alone.
func TestMuxServesErrands(t *testing.T) {
	m, a, _ := newSpoken(t)
	acme := tenant.New("acme")
	for scope, want := range map[tenant.Scope]int{tenant.ScopeInference: 200, tenant.ScopeMetrics: 403} {
		ctx := asking("POST", "/a/x", "")
		m.HandleFor(ctx, &InternalRequest{Caller: tenant.Caller{Tenant: &acme, Scope: scope}})
		if got := ctx.Response.StatusCode(); got != want || want == 200 && string(ctx.Response.Body()) != "a for acme" {
			t.Errorf("scope %v: %d %s", scope, got, ctx.Response.Body())
		}
	}
	a.heard()
	for path, want := range map[string]bool{"/a/x": true, "/a/x?y": false, "/b": false} {
		if got := m.Serves("POST", path); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
	if m.Serves("PUT", "/a/x") {
		t.Error("a method is served that the route does not take")
	}
}
