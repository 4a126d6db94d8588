package web

import (
	"context"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/api/edge"
	"weir/api/tenant"
)

// home answers / to clients that are no browsers.
type home struct{ route edge.Route }

func (h *home) Find(path string) (edge.Endpoint, edge.Params) {
	if path == "/" {
		return h, edge.Params{}
	}
	return nil, edge.Params{}
}
func (h *home) Routes() []*edge.Route            { return nil }
func (h *home) Hooks() *edge.Hooks               { return &edge.Hooks{} }
func (h *home) IsDraining() bool                 { return false }
func (h *home) Drain(context.Context) error      { return nil }
func (h *home) About() *edge.Route               { return &h.route }
func (h *home) Begin(x *edge.Exchange) edge.Call { return &alive{x} }

type alive struct{ x *edge.Exchange }

func (a *alive) Serve() *api.Error                  { a.x.Ctx.SetBodyString("alive"); return nil }
func (a *alive) Refuse(fault *api.Error)            { fault.Write(a.x.Ctx) }
func (a *alive) Describe(*api.Error, *edge.Refusal) {}
func (a *alive) End()                               {}

// rest finds an endpoint for every path.
type rest struct{ home }

func (r *rest) Find(string) (edge.Endpoint, edge.Params) {
	return &home{edge.Route{Pattern: "other", Open: true, Unknown: true}}, edge.Params{}
}

func ask(m *edge.Mux, method, target string, header ...string) *fasthttp.Response {
	ctx := &fasthttp.RequestCtx{}
	ctx.Init(&fasthttp.Request{}, nil, nil)
	ctx.Request.Header.SetMethod(method)
	ctx.Request.SetRequestURI(target)
	for i := 0; i < len(header); i += 2 {
		ctx.Request.Header.Set(header[i], header[i+1])
	}
	m.Handle(ctx)
	return &ctx.Response
}

const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

func TestServer(t *testing.T) {
	s := New(Config{Home: &home{}})
	m := edge.NewMux(edge.MuxConfig{CompressMinBytes: 100}, s, &rest{})
	for _, tc := range []struct {
		method, target, accept string
		status                 int
		location, body         string
	}{
		{"GET", "/", browser, 303, "playground/", ""},
		{"GET", "/", "*/*", 200, "", "alive"},
		{"GET", "/", "", 200, "", "alive"},
		{"POST", "/", browser, 405, "", "method_not_allowed"},
		{"GET", "/playground", browser, 303, "playground/", ""},
		{"GET", "/playground/?x=1", browser, 200, "", "<title>weir playground</title>"},
		{"GET", "/playground/", "*/*", 200, "", "<title>weir playground</title>"},
		{"GET", "/playground/assets/" + everything().version + "/lib/ui.js", "*/*", 200, "", "export function Shell"},
		{"GET", "/playground/assets/x", "*/*", 404, "", "no such file"},
		{"GET", "/playgrounds", "*/*", 404, "", "unknown_url"},
	} {
		res := ask(m, tc.method, tc.target, "Accept", tc.accept)
		if res.StatusCode() != tc.status || string(res.Header.Peek("Location")) != tc.location || !strings.Contains(string(res.Body()), tc.body) {
			t.Errorf("%s %s (%s): %d %q %.200s", tc.method, tc.target, tc.accept, res.StatusCode(), res.Header.Peek("Location"), res.Body())
		}
	}
	if vary := string(ask(m, "GET", "/", "Accept", browser).Header.Peek("Vary")); vary != "Accept" {
		t.Errorf("the way to the page varies by %q", vary)
	}
}

// A file that is sent compressed is not compressed once more.
func TestServerSendsOneCoding(t *testing.T) {
	m := edge.NewMux(edge.MuxConfig{CompressMinBytes: 100}, New(Config{Home: &home{}}), &rest{})
	res := ask(m, "GET", "/playground/assets/"+everything().version+"/lib/ui.js", "Accept-Encoding", "gzip")
	body, err := res.BodyGunzip()
	if err != nil || string(body) != string(everything().files["lib/ui.js"].plain) {
		t.Errorf("the file came as %.40q (%v)", body, err)
	}
	if n := len(res.Header.PeekAll("Content-Encoding")); n != 1 {
		t.Errorf("%d codings", n)
	}
}

// The catalog is for callers alone.
func TestServerTellsCallersWhatElseRuns(t *testing.T) {
	fits := true
	s := New(Config{Home: &home{}, Catalog: func() Catalog { return Catalog{MemoryBytes: 1 << 30, Models: []Offered{{Name: "m", Fits: &fits}}} }})
	callers, err := tenant.NewAuthenticator(t.Context(), tenant.Config{StaticKeys: []string{"sk-0123456789"}})
	if err != nil {
		t.Fatal(err)
	}
	m := edge.NewMux(edge.MuxConfig{Callers: callers}, s, &rest{})
	if res := ask(m, "GET", "/playground/catalog"); res.StatusCode() != 401 {
		t.Errorf("without a key: %d", res.StatusCode())
	}
	res := ask(m, "GET", "/playground/catalog", "Authorization", "Bearer sk-0123456789")
	if want := `"fits":true`; res.StatusCode() != 200 || !strings.Contains(string(res.Body()), want) {
		t.Errorf("with a key: %d %s", res.StatusCode(), res.Body())
	}
	if res := ask(m, "GET", "/playground/"); res.StatusCode() != 200 {
		t.Errorf("the page without a key: %d", res.StatusCode())
	}
}

func TestServerDrains(t *testing.T) {
	s := New(Config{Home: &home{}})
	m := edge.NewMux(edge.MuxConfig{}, s, &rest{})
	if err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if res := ask(m, "GET", "/playground/"); res.StatusCode() != 503 || !res.ConnectionClose() {
		t.Errorf("a server that drains answered %d", res.StatusCode())
	}
}
