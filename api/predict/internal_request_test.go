package predict

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"weir/api/edge"
	"weir/api/tenant"
	"weir/router"
	"weir/scheduler/quota"
)

// internalTo asks a server as a line of a batch does.
func internalTo(t *testing.T, s *Server, path, body string, r *edge.InternalRequest) *fasthttp.Response {
	t.Helper()
	ctx := &fasthttp.RequestCtx{}
	ctx.Init(&fasthttp.Request{}, nil, nil)
	ctx.Request.Header.SetMethod("POST")
	ctx.Request.SetRequestURI(path)
	ctx.Request.Header.Set("X-Weir-Class", "batch")
	ctx.Request.SetBodyString(body)
	muxOf(s).HandleFor(ctx, r)
	return &ctx.Response
}

// A prediction without a connection is answered, counted and priced as one of its tenant.
func TestInternalRequestsArePredictionsOfTheirTenant(t *testing.T) {
	who := tenant.New("bulk")
	c := config(t, newModels(sums(), echo(everyType...)), who)
	c.Price = func(string, string) quota.Price { return quota.Price{Input: 1_000_000_000} }
	var ended []edge.RequestFinish
	var refused []edge.Refusal
	c.Hooks.OnRequestFinish = func(f edge.RequestFinish) { ended = append(ended, f) }
	c.Hooks.OnRefused = func(r edge.Refusal) { refused = append(refused, r) }
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	request := &edge.InternalRequest{Caller: tenant.Caller{Tenant: &who, Scope: tenant.ScopeInference}, PricePercent: 50}
	for _, q := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"/v1/models/sums:predict", `{"instances": [[1,2,3,4],[0,0,0,1]]}`, 200, `{"predictions":[10.0,1.0]}`},
		{"/v2/models/sums/versions/3/infer", `{"inputs":[{"name":"input","datatype":"FP32","shape":[1,4],"data":[1,1,1,1]}]}`, 200, `"data":[4.0]`},
		{"/v1/models/sums:predict", `{"instances": [[1,2]]}`, 400, `{"error":"`},
		{"/v1/models/none:predict", `{"instances": [[1,2]]}`, 404, `{"error":"`},
		{"/v2/models/sums/infer", `{"inputs":[{"name":"input","datatype":"FP32","shape":[1,4],"data":[1,1,1,1]}],"parameters":{"binary_data_output":true}}`, 400, "binary_data"},
	} {
		r := internalTo(t, s, q.path, q.body, request)
		if r.StatusCode() != q.status || !strings.Contains(string(r.Body()), q.want) || !json.Valid(r.Body()) {
			t.Errorf("%s %s: %d %s, want %d %s", q.path, q.body, r.StatusCode(), r.Body(), q.status, q.want)
		}
	}
	if len(ended) < 2 || ended[0].Tenant != "bulk" || ended[0].PromptTokens != 2 || ended[0].Cost != 1000 || ended[0].Class.String() != "batch" {
		t.Errorf("%+v", ended)
	}
	if len(refused) != 3 {
		t.Errorf("%d refusals", len(refused))
	}
}

// An internal request that is not wanted any more ends what it computes.
func TestInternalRequestsThatAreGoneEnd(t *testing.T) {
	slow, gone := sums(), make(chan struct{})
	slow.do = func(ctx context.Context, _ *router.Prediction) error {
		close(gone)
		<-ctx.Done()
		return fmt.Errorf("it ended: %w", ctx.Err())
	}
	s, err := New(config(t, newModels(slow)))
	if err != nil {
		t.Fatal(err)
	}
	who := tenant.New("bulk")
	r := internalTo(t, s, "/v1/models/sums:predict", `{"instances": [[1,2,3,4]]}`, &edge.InternalRequest{Caller: tenant.Caller{Tenant: &who, Scope: tenant.ScopeInference}, Gone: gone, PricePercent: 100})
	if r.StatusCode() != edge.StatusHungUp {
		t.Errorf("%d %s", r.StatusCode(), r.Body())
	}
}

func TestServesPredictionsAlone(t *testing.T) {
	s, err := New(config(t, newModels(sums())))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		"/v1/models/sums:predict": true, "/v1/models/a/b/versions/3:predict": true, "/v2/models/sums/infer": true, "/v2/models/sums/versions/3/infer": true,
		"/v1/models/sums": false, "/v2/models/sums": false, "/v1/models/sums:predict?x=1": false,
		"/v1/models/../sums:predict": false, "/": false, "/v1/chat/completions": false,
	} {
		if got := muxOf(s).Serves("POST", path); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
	if muxOf(s).Serves("GET", "/v1/models/sums:predict") {
		t.Error("GET is served")
	}
}
