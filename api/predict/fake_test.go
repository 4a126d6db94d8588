package predict

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/api/edge"
	"weir/api/meter"
	"weir/api/tenant"
	"weir/internal/inference"
	"weir/internal/tensor"
	"weir/router"
)

// fake is a model that a test computes.
type fake struct {
	about router.Description
	do    func(ctx context.Context, p *router.Prediction) error
}

func (f *fake) Describe() *router.Description                           { return &f.about }
func (f *fake) Predict(ctx context.Context, p *router.Prediction) error { return f.do(ctx, p) }

// sums is a model whose output is the sum of each row of its one input.
func sums() *fake {
	f := &fake{about: router.Description{
		Name: "sums", Version: "3", Platform: "test", MaxRows: 1000,
		Inputs:  []tensor.Spec{{Name: "input", Type: tensor.Float32, Shape: []int64{tensor.Any, 4}}},
		Outputs: []tensor.Spec{{Name: "output", Type: tensor.Float32, Shape: []int64{tensor.Any}}},
	}}
	f.do = func(_ context.Context, p *router.Prediction) error {
		in := &p.Inputs[0]
		if err := f.about.Inputs[0].Fits(in); err != nil {
			return fmt.Errorf("%w: %w", inference.ErrInvalid, err)
		}
		v := tensor.Values[float32](in)
		out := make([]float32, in.Shape[0])
		for i := range out {
			for _, x := range v[4*i : 4*i+4] {
				out[i] += x
			}
		}
		p.Outputs = []tensor.Tensor{tensor.Of("output", tensor.Float32, in.Shape[:1], out)}
		p.Computed, p.Batch = time.Microsecond, len(out)
		return nil
	}
	return f
}

// echo is a model that gives all of its inputs back, of whatever types.
func echo(specs ...tensor.Spec) *fake {
	f := &fake{about: router.Description{Name: "echo", Version: "1", Platform: "test", Inputs: specs, Outputs: specs,
		Labels: map[string][]string{"f": {"zero", "one", "two"}}}}
	f.do = func(_ context.Context, p *router.Prediction) error {
		p.Outputs = p.Inputs
		return nil
	}
	return f
}

var everyType = []tensor.Spec{
	{Name: "f", Type: tensor.Float32, Shape: []int64{-1, 3}}, {Name: "d", Type: tensor.Float64, Shape: []int64{-1}},
	{Name: "i", Type: tensor.Int64, Shape: []int64{-1}}, {Name: "b", Type: tensor.Int8, Shape: []int64{-1}},
	{Name: "u", Type: tensor.Uint16, Shape: []int64{-1}}, {Name: "y", Type: tensor.Bool, Shape: []int64{-1}},
	{Name: "s", Type: tensor.Bytes, Shape: []int64{-1}},
}

// models are the fakes of one server.
type models struct {
	mu     sync.Mutex
	list   []*fake
	absent map[string]bool // unloaded
	asked  []string        // what by whom
	held   atomic.Int64    // versions that requests have
}

func (m *models) Find(name, version string) (router.Predictor, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.list {
		if f.about.Name == name && (version == "" || version == f.about.Version) {
			if m.absent[name] {
				return nil, fmt.Errorf("%w: model %s is not loaded", inference.ErrUnavailable, name)
			}
			return f, nil
		}
	}
	return nil, fmt.Errorf("find: %w", router.ErrNoPredictor)
}

func (m *models) Acquire(name, version string) (router.Predictor, router.Hold, error) {
	p, err := m.Find(name, version)
	if err != nil {
		return nil, nil, err
	}
	m.held.Add(1)
	return p, &hold{held: &m.held}, nil
}

// hold counts a version that a request has.
type hold struct {
	held *atomic.Int64
	once sync.Once
}

func (h *hold) Release() { h.once.Do(func() { h.held.Add(-1) }) }

func (m *models) Index() (list []router.ModelState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.list {
		s := router.ModelState{Name: f.about.Name, Version: f.about.Version, Ready: !m.absent[f.about.Name]}
		if !s.Ready {
			s.Reason = "unloaded"
		}
		list = append(list, s)
	}
	return list
}

func (m *models) set(name string, absent bool) error {
	if _, err := m.Find(name, ""); isUnknown(err) {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.absent[name] = absent
	return nil
}

func (m *models) Load(_ context.Context, name, by string) error {
	m.note("load", by)
	return m.set(name, false)
}

func (m *models) Unload(_ context.Context, name, by string) error {
	m.note("unload", by)
	return m.set(name, true)
}

func (m *models) note(what, by string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, what+" by "+by)
}

// behind is the protocol that gets what is not of this package.
type behind struct{ ctx *fasthttp.RequestCtx }

func (b behind) Find(string) (edge.Endpoint, edge.Params) { return b, edge.Params{} }
func (behind) Routes() []*edge.Route                      { return nil }
func (behind) Hooks() *edge.Hooks                         { return &edge.Hooks{} }
func (behind) IsDraining() bool                           { return false }
func (behind) Drain(context.Context) error                { return nil }
func (behind) About() *edge.Route                         { return &edge.Route{Pattern: "behind", Open: true} }
func (behind) Begin(x *edge.Exchange) edge.Call           { return behind{x.Ctx} }
func (behind) Refuse(*api.Error)                          {}
func (behind) Describe(*api.Error, *edge.Refusal)         {}
func (behind) End()                                       {}

func (b behind) Serve() *api.Error {
	b.ctx.Error("behind "+string(b.ctx.Path()), 418)
	return nil
}

// muxOf is a handler of the server and what is behind it.
func muxOf(s *Server) *edge.Mux {
	return edge.NewMux(edge.MuxConfig{Callers: s.config.Callers, DrainRetries: s.config.DrainRetries, MaxRequestBytes: s.config.MaxRequestBytes}, s, behind{})
}

// rig is a server on a real port.
type rig struct {
	t      *testing.T
	server *Server
	models *models
	url    string
}

func config(t *testing.T, models *models, tenants ...tenant.Tenant) Config {
	t.Helper()
	d, err := tenant.NewDirectory(tenants)
	if err != nil {
		t.Fatal(err)
	}
	callers, err := tenant.NewAuthenticator(t.Context(), tenant.Config{Directory: d})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // the servers have ended by then
		if models == nil {
			return
		}
		if n := models.held.Load(); n != 0 {
			t.Errorf("%d versions are held that no request has any more", n)
		}
	})
	return Config{Callers: callers, Models: models, Meter: meter.NewLocal(nil), Ready: func() (bool, string) { return true, "ready" },
		Version: "test", MaxRequestBytes: 1 << 20, AbortTimeout: time.Second, DrainRetries: true}
}

func newModels(list ...*fake) *models { return &models{list: list, absent: map[string]bool{}} }

func newRig(t *testing.T, c Config) *rig {
	t.Helper()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	edges := api.DefaultConfig()
	edges.MaxRequestBytes = c.MaxRequestBytes
	h := api.New(edges, muxOf(s))
	done := make(chan error, 1)
	go func() { done <- h.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := h.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		<-done
	})
	m, _ := c.Models.(*models)
	return &rig{t, s, m, "http://" + ln.Addr().String()}
}

// standard has a server with the models sums and echo, and no tenants.
func standard(t *testing.T) *rig {
	return newRig(t, config(t, newModels(sums(), echo(everyType...))))
}

// do sends a request with header fields in pairs.
func (r *rig) do(method, path, body string, fields ...string) (*http.Response, string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, bytes.NewReader([]byte(body)))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		req.Header.Set(fields[i], fields[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return res, string(got)
}

// want sends a request and compares status and body.
func (r *rig) want(status int, answer, method, path, body string, fields ...string) {
	r.t.Helper()
	res, got := r.do(method, path, body, fields...)
	if res.StatusCode != status || got != answer {
		r.t.Errorf("%s %s %s:\n got %d %q\nwant %d %q", method, path, body, res.StatusCode, got, status, answer)
	}
}
