package openai

import (
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"weir/api/edge"
	"weir/api/openai/priority"
	"weir/api/tenant"
	"weir/internal/inference"
	"weir/scheduler/quota"
)

func internalRequest(method, path, body string) *fasthttp.RequestCtx {
	ctx := &fasthttp.RequestCtx{}
	ctx.Init(&fasthttp.Request{}, nil, nil)
	ctx.Request.Header.SetMethod(method)
	ctx.Request.SetRequestURI(path)
	ctx.Request.Header.SetContentType("application/json")
	ctx.Request.SetBodyString(body)
	return ctx
}

// An internal request is one of its caller: the tenant's class, quota and errors, and the price that it was given.
func TestInternalRequestsAreTheirCallers(t *testing.T) {
	c, m := limited(quota.Limits{DailyCost: 1_000_000_000})
	c.APIKeys = nil
	var ended []edge.RequestFinish
	c.Hooks.OnRequestFinish = func(f edge.RequestFinish) { ended = append(ended, f) }
	b := &fakeBackend{}
	s := newServer(t, c, b)
	s.SetPrices(map[string]quota.Price{"test-model": {Input: 2_000_000, Output: 4_000_000}}) // 2 and 4 a million tokens
	acme := tenant.New("acme")
	acme.Limits = quota.Limits{DailyCost: 1_000_000_000}
	for _, percent := range []int{100, 50} {
		ctx := internalRequest("POST", routeCompletions, helloPrompt+`}`)
		ctx.Request.Header.Set(priority.Header, "batch")
		muxOf(s).HandleFor(ctx, &edge.InternalRequest{Caller: tenant.Caller{Tenant: &acme, Scope: tenant.ScopeInference}, PricePercent: percent})
		if ctx.Response.StatusCode() != 200 || !strings.Contains(string(ctx.Response.Body()), "Hello world") {
			t.Fatalf("%d %s", ctx.Response.StatusCode(), ctx.Response.Body())
		}
	}
	if len(ended) != 2 || ended[0].Tenant != "acme" || ended[0].Class != inference.Batch || ended[0].Cost != 14 || ended[1].Cost != 7 {
		t.Errorf("%+v", ended)
	}
	who := quota.Holder{Tenant: "acme", Limits: &acme.Limits}
	g, err := m.Reserve(who, quota.Ask{Output: 1_000_000_000, Price: quota.Price{Output: 1_000_000}})
	if err != nil || g.Money != 1_000_000_000-21 {
		t.Errorf("the meter has %v left, %v; both prices were 0.000021", g.Money, err)
	}
	b.wg.Wait()
}

func TestInternalRequestsAreRefusedAsOthers(t *testing.T) {
	b := &fakeBackend{}
	s := newServer(t, DefaultConfig(), b)
	all := tenant.New("acme")
	for _, tc := range []struct {
		method, path, body string
		scope              tenant.Scope
		want               string
	}{
		{"POST", "/v1/nothing", "{}", tenant.ScopeInference, "unknown_url"},
		{"GET", routeResponses, "", tenant.ScopeInference, "method_not_allowed"},
		{"POST", routeChat, "{}", tenant.ScopeMetrics, "insufficient_scope"},
		{"POST", routeChat, "{", tenant.ScopeInference, "invalid_json"},
		{"POST", routeChat, `{"model":"other","messages":[]}`, tenant.ScopeInference, "model_not_found"},
	} {
		ctx := internalRequest(tc.method, tc.path, tc.body)
		muxOf(s).HandleFor(ctx, &edge.InternalRequest{Caller: tenant.Caller{Tenant: &all, Scope: tc.scope}, PricePercent: 100})
		if got := string(ctx.Response.Header.Peek("X-Weir-Reason")); got != tc.want {
			t.Errorf("%s %s %s: %s, want %s", tc.method, tc.path, tc.body, got, tc.want)
		}
	}
}

// An internal request that is not wanted any more is cancelled as a request whose client hung up.
func TestInternalRequestsThatAreGoneAreCancelled(t *testing.T) {
	began := make(chan struct{})
	b := &fakeBackend{script: func(r *fakeRun) {
		close(began)
		<-r.cancelled
		r.finish(0, inference.FinishCancelled)
	}}
	s := newServer(t, DefaultConfig(), b)
	all, gone := tenant.New("acme"), make(chan struct{})
	ctx := internalRequest("POST", routeCompletions, helloPrompt+`}`)
	go func() {
		<-began
		close(gone)
	}()
	muxOf(s).HandleFor(ctx, &edge.InternalRequest{Caller: tenant.Caller{Tenant: &all, Scope: tenant.ScopeInference}, Gone: gone, PricePercent: 100})
	if ctx.Response.StatusCode() != edge.StatusHungUp {
		t.Errorf("%d %s", ctx.Response.StatusCode(), ctx.Response.Body())
	}
	b.wg.Wait()
}
