package openai

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/api"
	"weir/api/edge"
	"weir/api/meter"
	"weir/api/tenant"
	"weir/internal/inference"
	"weir/router"
	"weir/scheduler/brownout"
	"weir/scheduler/quota"
)

const inputA = `{"model":"vectors","input":"a"}` // three tokens

// untilGone is an embedder that never has an answer.
func untilGone(ctx context.Context, _ *router.Embedding) error {
	<-ctx.Done()
	return ctx.Err()
}

// A request reserves its exact tokens, which are what it uses; one that is refused or
// fails uses none.
func TestPoolingPaysByTheToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := quota.Limits{RequestsPerMinute: 60, TokensPerMinute: 600, MaxContextTokens: 10}
		c, m := limited(limits)
		r, vectors, _ := poolingRig(t, c)
		defer r.closeInBubble()
		var prompts, fails int64
		for i, tc := range []struct {
			path, body string
			tokens     int64
			status     int
		}{
			{routeEmbeddings, inputA, 3, 200},
			{routeEmbeddings, `{"model":"vectors","input":["a b","c"]}`, 7, 200},
			{routeRerank, `{"model":"ranks","query":"a","documents":["b","c"]}`, 10, 200},
			{routeScore, `{"model":"vectors","text_1":"a","text_2":["b","c"]}`, 9, 200},
			{routeEmbeddings, `{"model":"vectors","input":"a b c d e f g h i"}`, 0, 400}, // 11 tokens
			{routeEmbeddings, `{"model":"vectors","input":""}`, 0, 400},
			{routeEmbeddings, `{"model":"vectors","input":"z"}`, 0, 503},
		} {
			vectors.refuse = nil
			if tc.status == 503 {
				vectors.refuse = func(context.Context, *router.Embedding) error { return inference.ErrQueueFull }
			}
			res, body := r.do("POST", tc.path, "", tc.body)
			if res.StatusCode != tc.status {
				t.Errorf("%s: %d %s", tc.body, res.StatusCode, body)
			}
			if prompts += tc.tokens; tc.status != 200 {
				fails++
			}
			if got := rateHeaders(res.Header); tc.status != 503 && !strings.Contains(got, fmt.Sprintf(" %d/600/", 600-prompts)) {
				t.Errorf("request %d tells %q after %d tokens", i, got, prompts)
			}
		}
		if got := left(t, m, limits); got.Tokens.Left != 600-prompts || got.Requests.Left < 55 {
			t.Errorf("%+v is left after %d tokens and %d failures", got, prompts, fails)
		}
	})
}

func TestPoolingIsRefusedByQuota(t *testing.T) {
	for name, tc := range map[string]struct {
		limits quota.Limits
		code   string
	}{
		"requests": {quota.Limits{RequestsPerMinute: 1}, "rate_limit_exceeded"},
		"tokens":   {quota.Limits{TokensPerMinute: 5}, "rate_limit_exceeded"},
		"budget":   {quota.Limits{DailyTokens: 5}, "insufficient_quota"},
	} {
		c, _ := limited(tc.limits)
		r, vectors, _ := poolingRig(t, c)
		if status, body := r.post(routeEmbeddings, inputA); status != 200 {
			t.Errorf("%s: %d %s", name, status, body)
		}
		res, body := r.do("POST", routeEmbeddings, "", inputA)
		if _, code, _ := parseError(t, body); res.StatusCode != 429 || code != tc.code || len(vectors.calls) != 1 {
			t.Errorf("%s: %d %s after %d calls", name, res.StatusCode, body, len(vectors.calls))
		}
		r.close()
	}
}

// What a request says of its class, its deadlines and itself reaches the lane.
func TestPoolingTerms(t *testing.T) {
	c := DefaultConfig()
	all := tenant.New(tenant.Rest)
	all.Weight, all.QueueTimeout, all.HighestClass = 7, time.Minute, inference.Default
	directory, err := tenant.NewDirectory([]tenant.Tenant{all})
	if err != nil {
		t.Fatal(err)
	}
	if c.Callers, err = tenant.NewAuthenticator(t.Context(), tenant.Config{Directory: directory}); err != nil {
		t.Fatal(err)
	}
	r, vectors, _ := poolingRig(t, c)
	defer r.close()
	for _, tc := range []struct {
		header, fields string
		class          inference.Class
		due            time.Duration // after the arrival; 0: never
		warning        string
	}{
		{"", ``, inference.Default, 0, ""},
		{"", `,"priority":5,"deadline_ms":4000`, inference.Batch, 4 * time.Second, ""},
		{"", `,"service_tier":"flex","ttft_deadline_ms":2000,"deadline_ms":4000`, inference.Batch, 2 * time.Second, ""},
		{"X-Weir-Deadline-Ms: 1500\r\nX-Stainless-Retry-Count: 2\r\n", `,"ttft_deadline_ms":9000`, inference.Default, 1500 * time.Millisecond, ""},
		{"X-Weir-Class: interactive\r\n", ``, inference.Default, 0, "x-weir-class lowered to class default, the highest of the tenant"},
	} {
		res, body := r.do("POST", routeEmbeddings, tc.header, `{"model":"vectors","input":"a"`+tc.fields+`}`)
		e := vectors.last()
		due := time.Duration(0)
		if !e.DoneBy.IsZero() {
			due = e.DoneBy.Sub(e.Arrived)
		}
		if res.StatusCode != 200 || e.Class != tc.class || due != tc.due || res.Header.Get("X-Weir-Warnings") != tc.warning {
			t.Errorf("%s%s: %d %s, class %v, due after %v, warnings %s", tc.header, tc.fields, res.StatusCode, body, e.Class, due, res.Header.Get("X-Weir-Warnings"))
		}
		if e.Weight != 7 || e.WaitUntil.Sub(e.Arrived) != time.Minute || !strings.HasPrefix(e.ID, "embd-") || (e.Retries == 2) != (tc.header != "" && tc.due > 0) {
			t.Errorf("%s: %+v", tc.fields, e)
		}
	}
}

// Refusals of the lane have the codes and statuses that those of an engine have.
func TestPoolingFaults(t *testing.T) {
	r, vectors, _ := poolingRig(t, DefaultConfig())
	defer r.close()
	for _, tc := range []struct {
		err    error
		status int
		code   string
	}{
		{inference.ErrQueueFull, 503, "server_is_overloaded"},
		{inference.ErrTenantQueueFull, 429, "rate_limit_exceeded"},
		{inference.ErrDeadline, 408, "deadline_exceeded"},
		{inference.ErrDeadlineUnreachable, 429, "deadline_unreachable"},
		{inference.ErrQueueTimeout, 503, "queue_timeout"},
		{inference.ErrShed, 503, "request_shed"},
		{inference.ErrUnavailable, 503, "engine_unavailable"},
		{errors.New("secret detail of a bug"), 500, "internal_error"},
	} {
		vectors.refuse = func(context.Context, *router.Embedding) error { return fmt.Errorf("%w: here", tc.err) }
		res, body := r.do("POST", routeEmbeddings, "", inputA)
		if _, code, text := parseError(t, body); res.StatusCode != tc.status || code != tc.code || strings.Contains(text, "secret") ||
			res.Header.Get("X-Weir-Reason") != tc.code || res.Header.Get("X-Should-Retry") == "" {
			t.Errorf("%v: %d %v %s", tc.err, res.StatusCode, res.Header, body)
		}
	}
}

func TestPoolingReachesTheHooks(t *testing.T) {
	c := DefaultConfig()
	all := tenant.New(tenant.Rest)
	all.LogPrompts = true
	directory, err := tenant.NewDirectory([]tenant.Tenant{all})
	if err != nil {
		t.Fatal(err)
	}
	if c.Callers, err = tenant.NewAuthenticator(t.Context(), tenant.Config{Directory: directory}); err != nil {
		t.Fatal(err)
	}
	var started, retries int
	var ends []edge.RequestFinish
	var refusals []edge.Refusal
	c.Hooks.OnRequestStart = func(edge.RequestStart) { started++ }
	c.Hooks.OnRequestFinish = func(f edge.RequestFinish) { ends = append(ends, f) }
	c.Hooks.OnRefused = func(f edge.Refusal) { refusals = append(refusals, f) }
	c.Hooks.OnClientRetry = func() { retries++ }
	c.Hooks.StartTrace = func(string, string) edge.Trace { return edge.Trace{ID: "trace", Header: "own"} }
	r, vectors, ranks := poolingRig(t, c)
	defer r.close()
	m := testPooler(t, vectors, false)
	m.Version, m.Price = "v1", quota.Price{Input: 2e6}
	if err := r.openai.SetModels(m, testPooler(t, ranks, true)); err != nil {
		t.Fatal(err)
	}
	res, body := r.do("POST", routeEmbeddings, "X-Stainless-Retry-Count: 1\r\n", `{"model":"vectors","input":["a","b c"]}`)
	if res.StatusCode != 200 || res.Header.Get("Traceresponse") != "own" || retries != 1 || started != 1 || len(ends) != 1 {
		t.Fatalf("%d %v %s: %d retries, %d starts, %d ends", res.StatusCode, res.Header, body, retries, started, len(ends))
	}
	f := ends[0]
	if f.Endpoint != routeEmbeddings || f.Model != "test-embedding" || f.Version != "v1" || f.Prompts != 2 || f.PromptTokens != 7 || f.OutputTokens != 0 ||
		f.N != 1 || f.Status != 200 || f.Code != "" || f.Cost != m.Price.Cost(7, 0, 0) || f.Cost == 0 || f.Trace.ID != "trace" || f.Retries != 1 {
		t.Errorf("finished as %+v", f)
	}
	if !reflect.DeepEqual(f.Reasons, []inference.FinishReason{inference.FinishStop, inference.FinishStop}) || f.Compute != 30*time.Millisecond ||
		f.Admitted.Sub(f.Submitted) != 20*time.Millisecond || f.Parsed.Before(f.Arrived) || f.Submitted.Before(f.Parsed) || !f.FirstToken.IsZero() {
		t.Errorf("times and reasons of %+v", f)
	}
	if got := f.Texts.Prompts(); len(got) != 2 || !strings.Contains(got[1], "b c") {
		t.Errorf("prompts %q", got)
	}
	if status, body := r.post("/rerank", `{"model":"ranks","query":"a","documents":["b"]}`); status != 200 || ends[1].Endpoint != routeRerank || ends[1].Prompts != 1 {
		t.Errorf("%d %s: %+v", status, body, ends[1])
	}
	vectors.refuse = func(context.Context, *router.Embedding) error { return inference.ErrShed }
	if status, _ := r.post(routeEmbeddings, inputA); status != 503 || len(ends) != 3 || ends[2].Status != 503 || ends[2].Code != "request_shed" ||
		len(ends[2].Reasons) != 0 || ends[2].Cost != 0 || !ends[2].Admitted.IsZero() {
		t.Errorf("a request that was shed: %d %+v", status, ends[2:])
	}
	if status, _ := r.post(routeEmbeddings, `{"input":7,"model":"vectors"}`); status != 400 || len(ends) != 3 || len(refusals) != 2 ||
		refusals[0].Early || !refusals[1].Early || refusals[1].Route != routeEmbeddings {
		t.Errorf("a wrong request: %d, %d ends, refusals %+v", status, len(ends), refusals)
	}
	vectors.refuse = func(context.Context, *router.Embedding) error { panic("secret") }
	if status, _ := r.post(routeEmbeddings, inputA); status != 500 || len(ends) != 4 || ends[3].Status != 500 || ends[3].Code != "internal_error" {
		t.Errorf("a panic: %d %+v", status, ends[3:])
	}
}

// A client that hangs up ends its request, and the lane hears of it.
func TestPoolingEndsWithItsClient(t *testing.T) {
	finished, hungUp, asked := make(chan edge.RequestFinish, 1), make(chan string, 1), make(chan struct{}, 1)
	c, m := limited(quota.Limits{TokensPerMinute: 100})
	c.Hooks.OnRequestFinish = func(f edge.RequestFinish) { finished <- f }
	c.Hooks.OnDisconnect = func(model string) { hungUp <- model }
	r, vectors, _ := poolingRig(t, c)
	defer r.close()
	vectors.refuse = func(ctx context.Context, e *router.Embedding) error {
		asked <- struct{}{}
		return untilGone(ctx, e)
	}
	conn, err := r.ln.Dial()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, rawRequest("POST", routeEmbeddings, "", inputA)); err != nil {
		t.Fatal(err)
	}
	waitFor(t, asked, "the call of the lane")
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if f := waitFor(t, finished, "the end"); f.Status != edge.StatusHungUp || f.Code != "client_closed_request" {
		t.Errorf("finished as %+v", f)
	}
	if model := waitFor(t, hungUp, "the hook of the hang-up"); model != "test-embedding" {
		t.Errorf("a hang-up of %s", model)
	}
	if got := left(t, m, quota.Limits{TokensPerMinute: 100}); got.Tokens.Left != 100 {
		t.Errorf("%+v is left", got)
	}
}

// A shutdown ends requests that do not end by themselves, and waits for those that do.
func TestPoolingDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, vectors, _ := poolingRig(t, DefaultConfig())
		vectors.refuse = func(ctx context.Context, e *router.Embedding) error {
			if len(e.Texts) == 2 {
				return untilGone(ctx, e)
			}
			time.Sleep(3 * time.Second)
			return nil
		}
		var wg sync.WaitGroup
		results := make([]heard, 2)
		for i, body := range []string{inputA, `{"model":"vectors","input":["a","b"]}`} {
			wg.Go(func() {
				res, text := r.do("POST", routeEmbeddings, "", body)
				results[i] = heard{res.StatusCode, res.Header, text}
			})
		}
		time.Sleep(time.Second)
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			if err := r.api.Shutdown(ctx); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(time.Second)
		if status, body := r.post(routeEmbeddings, inputA); status != 503 || !strings.Contains(body, "server_shutting_down") {
			t.Errorf("a late request: %d %s", status, body)
		}
		wg.Wait()
		if results[0].status != 200 || results[1].status != 503 || !strings.Contains(results[1].body, "server_shutting_down") {
			t.Errorf("%+v", results)
		}
		if err := <-r.served; err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
	})
}

// A repetition under an idempotency key gets the same bytes, and nothing is computed
// again; with a key, a hang-up ends nothing.
func TestPoolingUnderAKey(t *testing.T) {
	r, vectors, ranks := poolingRig(t, DefaultConfig())
	defer r.close()
	for i, tc := range []struct{ path, other, body string }{
		{routeEmbeddings, "/embeddings", `{"model":"vectors","input":["a","b"],"encoding_format":"base64"}`},
		{routeRerank, "/rerank", `{"model":"ranks","query":"a","documents":["b"],"unknown":1}`},
		{routeScore, "/score", `{"model":"ranks","text_1":"a","text_2":"b"}`},
	} {
		key := "Idempotency-Key: k" + fmt.Sprint(i) + "\r\n"
		first, text := r.do("POST", tc.path, key, tc.body)
		calls := len(vectors.calls) + len(ranks.calls)
		again, same := r.do("POST", tc.other, key, tc.body) // an alias is the same request
		if first.StatusCode != 200 || again.StatusCode != 200 || same != text || again.Header.Get("X-Weir-Replayed") != "true" ||
			again.Header.Get("X-Weir-Warnings") != first.Header.Get("X-Weir-Warnings") || len(vectors.calls)+len(ranks.calls) != calls {
			t.Errorf("%s: %d %s, then %d %v %s", tc.body, first.StatusCode, text, again.StatusCode, again.Header, same)
		}
		if res, text := r.do("POST", tc.path, key, tc.body+" "); res.StatusCode != 422 {
			t.Errorf("another body: %d %s", res.StatusCode, text)
		}
	}
	vectors.refuse = func(context.Context, *router.Embedding) error { return inference.ErrShed }
	const key = "Idempotency-Key: shed\r\n"
	if res, _ := r.do("POST", routeEmbeddings, key, inputA); res.StatusCode != 503 {
		t.Error(res.StatusCode)
	}
	vectors.refuse = nil
	if res, _ := r.do("POST", routeEmbeddings, key, inputA); res.StatusCode != 200 || res.Header.Get("X-Weir-Replayed") != "" {
		t.Errorf("a key whose request was refused is not free: %d %v", res.StatusCode, res.Header)
	}
}

// In a brown-out a smaller model may score, but never embed: its vectors would be
// compared with another model's.
func TestPoolingInABrownout(t *testing.T) {
	var effect atomic.Pointer[brownout.Step]
	c := DefaultConfig()
	c.Brownout = effect.Load
	r, vectors, ranks := poolingRig(t, c)
	defer r.close()
	b := &fakeBackend{tok: mustTokenizer(t), script: say("Hello", 0)}
	small, smaller := testPooler(t, vectors, false), testPooler(t, ranks, true)
	small.ID, small.Aliases, smaller.ID, smaller.Aliases = "small-vectors", nil, "small-ranks", nil
	if err := r.openai.SetModels(testModel(t, b), testPooler(t, vectors, false), testPooler(t, ranks, true), small, smaller); err != nil {
		t.Fatal(err)
	}
	effect.Store(&brownout.Step{Name: "dusk", Models: map[string]string{
		"vectors": "small-vectors", "ranks": "small-ranks", "test-model": "small-vectors",
	}})
	for _, tc := range []struct{ path, body, model string }{
		{routeEmbeddings, inputA, "test-embedding"},
		{routeRerank, `{"model":"ranks","query":"a","documents":["b"]}`, "small-ranks"},
		{routeScore, `{"model":"vectors","text_1":"a","text_2":"b"}`, "small-vectors"},
		{routeCompletions, `{"model":"test-model","prompt":"hi"}`, "test-model"},
	} {
		res, body := r.do("POST", tc.path, "", tc.body)
		lowered := res.Header.Get("X-Weir-Brownout") == "dusk"
		if res.StatusCode != 200 || !strings.Contains(body, `"model":"`+tc.model+`"`) || lowered != strings.HasPrefix(tc.model, "small") {
			t.Errorf("%s: %d %v %s", tc.body, res.StatusCode, res.Header, body)
		}
	}
}

// A tenant sees and uses the models that it may.
func TestPoolingForTenants(t *testing.T) {
	c := DefaultConfig()
	all := tenant.New(tenant.Rest)
	all.Models = []string{"ranks"}
	directory, err := tenant.NewDirectory([]tenant.Tenant{all})
	if err != nil {
		t.Fatal(err)
	}
	if c.Callers, err = tenant.NewAuthenticator(t.Context(), tenant.Config{Directory: directory}); err != nil {
		t.Fatal(err)
	}
	r, _, _ := poolingRig(t, c)
	defer r.close()
	if status, body := r.post(routeEmbeddings, inputA); status != 404 {
		t.Errorf("%d %s", status, body)
	}
	if status, body := r.post(routeRerank, `{"query":"a","documents":["b"]}`); status != 200 { // its only one
		t.Errorf("%d %s", status, body)
	}
}

// Requests to an upstream's models pass as they are; their tokens are the upstream's count.
func TestPoolingIsRelayed(t *testing.T) {
	upstream := newServer(t, DefaultConfig(), &fakeBackend{})
	embedder := &fakeEmbedder{vector: ofTokens}
	m := testPooler(t, embedder, false)
	m.Aliases = []string{"test-model"}
	if err := upstream.SetModels(m); err != nil {
		t.Fatal(err)
	}
	web := api.New(api.DefaultConfig(), muxOf(upstream))
	limits := quota.Limits{TokensPerMinute: 1000}
	c, paid := limited(limits)
	finished := make(chan edge.RequestFinish, 1)
	c.Hooks.OnRequestFinish = func(f edge.RequestFinish) { finished <- f }
	r := relayRig(t, c, serveOn(t, web)+"/v1")
	defer r.close()
	used, began := int64(0), time.Now()
	for _, tc := range []struct {
		path, body string
		tokens     int
		want       string
	}{
		{routeEmbeddings, `{"model":"front","input":["a","b"],"encoding_format":"base64","user":"u"}`, 6, `"data":[{"object":"embedding","index":0`},
		{"/embeddings", `{"input":"a b"}`, 4, `"object":"list"`},
		{"/v2/rerank", `{"model":"gpt-4o","query":"a","documents":["b","c d"],"top_n":1}`, 10, `"results":[`},
		{"/score", `{"model":"front","text_1":"a","text_2":"b"}`, 6, `"object":"score"`},
	} {
		status, body := r.post(tc.path, tc.body)
		if status != 200 || !strings.Contains(body, tc.want) {
			t.Errorf("%s %s: %d %s", tc.path, tc.body, status, body)
			continue
		}
		f := waitFor(t, finished, "the end")
		if f.PromptTokens != tc.tokens || f.OutputTokens != 0 || f.Model != "front" || !f.Relayed || len(f.Reasons) != 1 {
			t.Errorf("%s: %+v", tc.body, f)
		}
		used += int64(tc.tokens)
	}
	got := left(t, paid, limits)
	if back := int64(time.Since(began).Minutes()*1000) + 1; got.Tokens.Left < 1000-used || got.Tokens.Left > min(1000, 1000-used+back) {
		t.Errorf("%+v is left after %d tokens, of which at most %d have come back since", got, used, back)
	}
	for path, want := range map[string]string{routeEmbed: "model_is_relayed", routeCohereEmbed: "model_is_relayed", routeTokenize: "model_is_relayed"} {
		if status, body := r.post(path, `{"model":"front","inputs":"a","prompt":"a"}`); status != 400 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if status, body := r.post(routeEmbeddings, `{"model":"front","input":""}`); status != 400 || !strings.Contains(body, "invalid_value") {
		t.Errorf("the upstream's refusal: %d %s", status, body)
	}
}

// An upstream's reranker that counts one number is charged by it.
func TestRelayedTotalsAreInput(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"results":[],"usage":{"total_tokens":42}}`)
	}))
	defer upstream.Close()
	c := DefaultConfig()
	finished := make(chan edge.RequestFinish, 1)
	c.Hooks.OnRequestFinish = func(f edge.RequestFinish) { finished <- f }
	c.Meter = meter.NewLocal(nil)
	r := relayRig(t, c, upstream.URL)
	defer r.close()
	r.post(routeRerank, `{"model":"front","query":"a","documents":["b"]}`)
	if f := waitFor(t, finished, "the end"); f.PromptTokens != 42 || f.OutputTokens != 0 {
		t.Errorf("%+v", f)
	}
}
