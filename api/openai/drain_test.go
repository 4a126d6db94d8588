package openai

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/api/edge"
	"weir/api/openai/models"
	"weir/internal/inference"
)

// heard is an answer as a client got it.
type heard struct {
	status int
	header http.Header
	body   string
}

// A drain lets running requests end, refuses new ones, and tells the rest.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &fakeBackend{script: func(r *fakeRun) {
			if r.req.MaxTokens == 200 { // without end
				untilCancelled(time.Second)(r)
				return
			}
			r.say("Hello", 3*time.Second)
		}}
		r := newRig(t, DefaultConfig(), b)
		results := make([]heard, 3)
		var wg sync.WaitGroup
		for i, body := range []string{
			chatWith(`"stream":true`), chatWith(`"stream":true,"max_tokens":200`), chatWith(`"max_tokens":200`),
		} {
			wg.Go(func() {
				res, text := r.do("POST", routeChat, "", body)
				results[i] = heard{res.StatusCode, res.Header, text}
			})
		}
		time.Sleep(time.Second)
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			if err := r.api.Shutdown(ctx); err != nil {
				t.Errorf("shutdown: %v", err)
			}
		})
		time.Sleep(time.Second)

		late, text := r.do("POST", routeChat, "", chatWith(`"n":1`))
		if _, code, _ := parseError(t, text); late.StatusCode != 503 || code != "server_shutting_down" || late.Header.Get("Retry-After") == "" || !late.Close {
			t.Errorf("a late request got %d %v %s", late.StatusCode, late.Header, text)
		}
		if res, text := r.do("GET", routeReady, "", ""); res.StatusCode != 503 || !strings.Contains(text, "draining") {
			t.Errorf("ready while draining: %d %s", res.StatusCode, text)
		}
		if res, text := r.do("GET", routeHealth, "", ""); res.StatusCode != 200 {
			t.Errorf("health while draining: %d %s", res.StatusCode, text)
		}
		wg.Wait()

		if a := results[0]; a.status != 200 || !strings.HasSuffix(a.body, "data: [DONE]\n\n") {
			t.Errorf("a request that could end got %d %s", a.status, a.body)
		}
		if a := results[1]; a.status != 200 || !strings.Contains(a.body, `"code":"server_shutting_down"`) || strings.Contains(a.body, "[DONE]") {
			t.Errorf("a stream that was cut off got %d %s", a.status, a.body)
		}
		if a := results[2]; a.status != 503 || !strings.Contains(a.body, `"code":"server_shutting_down"`) {
			t.Errorf("an answer that was cut off got %d %s", a.status, a.body)
		}
		for i := range b.runs {
			if b.runs[i].req.MaxTokens == 200 {
				<-b.runs[i].cancelled
			}
		}
		if err := <-r.served; err != nil {
			t.Error(err)
		}
		b.wg.Wait()
		time.Sleep(time.Minute) // virtual: fasthttp's worker pool looks for its end every 10 s
	})
}

func TestBeforeModelsAreLoaded(t *testing.T) {
	c := DefaultConfig()
	b := &fakeBackend{notReady: true}
	r := newRig(t, c, b)
	defer r.close()
	r.openai.models.Store(nil)
	r.openai.SetLoadProgress(models.LoadProgress{Model: "m", DoneBytes: 1, TotalBytes: 4})

	res, body := r.do("GET", routeHealth, "", "")
	want := `{"status":"loading","progress":{"model":"m","done_bytes":1,"total_bytes":4,"fraction":0.25}}` + "\n"
	if res.StatusCode != 503 || body != want {
		t.Errorf("health: %d %s", res.StatusCode, body)
	}
	for _, tc := range []struct{ method, path, body string }{
		{"POST", routeChat, chatWith(`"n":1`)}, {"POST", routeCompletions, textWith(`"n":1`)}, {"POST", routeTokenize, textWith(`"x":1`)},
		{"GET", routeModels, ""}, {"GET", "/v1/models/x", ""},
	} {
		res, body := r.do(tc.method, tc.path, "", tc.body)
		if _, code, _ := parseError(t, body); res.StatusCode != 503 || code != "model_loading" || res.Header.Get("Retry-After-Ms") == "" {
			t.Errorf("%s: %d %s", tc.path, res.StatusCode, body)
		}
	}
	if res, _ := r.do("GET", routeReady, "", ""); res.StatusCode != 503 {
		t.Error("ready before models are loaded")
	}
	if err := r.openai.SetModels(testModel(t, b)); err != nil {
		t.Fatal(err)
	}
	if res, body := r.do("GET", routeReady, "", ""); res.StatusCode != 503 || !strings.Contains(body, "engine not ready") {
		t.Error("ready although the engine is not", body)
	}
	if res, body := r.do("GET", routeHealth, "", ""); res.StatusCode != 503 || !strings.Contains(body, models.NotReady) {
		t.Errorf("health of an engine that gave up: %d %s", res.StatusCode, body)
	}
	b.notReady = false
	if res, body := r.do("GET", routeHealth, "", ""); res.StatusCode != 200 {
		t.Errorf("health of an engine that serves: %d %s", res.StatusCode, body)
	}
	if res, _ := r.do("GET", routeReady, "", ""); res.StatusCode != 200 {
		t.Error("not ready although all is")
	}
	if res, _ := r.do("HEAD", routeHealth, "", ""); res.StatusCode != 200 {
		t.Error("HEAD is refused where GET is served")
	}
}

// recorder keeps what the hooks tell.
type recorder struct {
	mu       sync.Mutex
	starts   []edge.RequestStart
	finishes []edge.RequestFinish
	first    []time.Duration
	gaps     []time.Duration
	routes   []string
	panics   []string
}

func (r *recorder) hooks() edge.Hooks {
	with := func(f func()) { r.mu.Lock(); defer r.mu.Unlock(); f() }
	return edge.Hooks{
		OnRequestStart:  func(s edge.RequestStart) { with(func() { r.starts = append(r.starts, s) }) },
		OnRequestFinish: func(f edge.RequestFinish) { with(func() { r.finishes = append(r.finishes, f) }) },
		OnFirstToken:    func(_ *edge.RequestStart, d time.Duration) { with(func() { r.first = append(r.first, d) }) },
		OnTokenGap:      func(_ *edge.RequestStart, d time.Duration, _ bool) { with(func() { r.gaps = append(r.gaps, d) }) },
		OnResponse: func(route, method string, status int, _ time.Duration) {
			with(func() { r.routes = append(r.routes, method+" "+route+" "+http.StatusText(status)) })
		},
		OnPanic: func(where string, _ any, _ []byte) { with(func() { r.panics = append(r.panics, where) }) },
	}
}

func TestHooksTellTheStoryOfARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := &recorder{}
		c := DefaultConfig()
		c.Hooks = rec.hooks()
		b := &fakeBackend{
			script: func(r *fakeRun) {
				r.stream.SetProgress(inference.Progress{PrefillTokens: 13, CachedTokens: 8})
				r.say("Hello world", 2*time.Second)
			},
			refuse: func(r *inference.Request) error {
				if r.N == 3 {
					return inference.ErrQueueFull
				}
				return nil
			},
		}
		r := newRig(t, c, b)
		r.do("POST", routeChat, "X-Stainless-Retry-Count: 2\r\n", chatWith(`"stream":true`))
		r.post(routeChat, chatWith(`"n":3`))
		r.post(routeChat, chatWith(`"n":0`))
		r.do("PROPFIND", "/nowhere", "", "")
		r.close()
		time.Sleep(time.Minute)

		if len(rec.starts) != 2 || len(rec.finishes) != 2 {
			t.Fatalf("%d starts, %d finishes, want 2 and 2", len(rec.starts), len(rec.finishes))
		}
		s, f := rec.starts[0], rec.finishes[0]
		if !s.Stream || s.Endpoint != routeChat || s.Model != "test-model" || s.PromptTokens == 0 || s.Retries != 2 || s.Prompts != 1 || s.N != 1 {
			t.Errorf("start %+v", s)
		}
		if f.ID != s.ID || f.Status != 200 || f.Code != "" || f.OutputTokens != 3 || f.CachedTokens != 8 || f.Reasons[0] != inference.FinishStop {
			t.Errorf("finish %+v", f)
		}
		if d := f.FirstToken.Sub(f.Arrived); d != 2*time.Second || len(rec.first) != 1 || rec.first[0] != d {
			t.Errorf("first token after %v, hook said %v", d, rec.first)
		}
		if len(rec.gaps) != 2 || rec.gaps[0] != 2*time.Second || f.LastToken.Sub(f.FirstToken) != 4*time.Second {
			t.Errorf("gaps %v, last token %v", rec.gaps, f.LastToken)
		}
		if f := rec.finishes[1]; f.Status != 503 || f.Code != "server_is_overloaded" || len(f.Reasons) != 0 {
			t.Errorf("finish of a refused request %+v", f)
		}
		want := []string{"POST /v1/chat/completions OK", "POST /v1/chat/completions Service Unavailable", "POST /v1/chat/completions Bad Request", "other other Not Found"}
		if strings.Join(rec.routes, "\n") != strings.Join(want, "\n") {
			t.Errorf("responses %q, want %q", rec.routes, want)
		}
	})
}

// A bug below a stream or a handler ends one request.
func TestPanicsAreContained(t *testing.T) {
	rec := &recorder{}
	c := DefaultConfig()
	c.Hooks = rec.hooks()
	c.Hooks.OnTokenGap = func(*edge.RequestStart, time.Duration, bool) { panic("secret detail") }
	b := &fakeBackend{script: untilCancelled(time.Millisecond)}
	r := newRig(t, c, b)
	defer r.close()
	status, body := r.post(routeChat, chatWith(`"stream":true`))
	if status != 200 || !strings.Contains(body, `"code":"internal_error"`) || strings.Contains(body, "[DONE]") || strings.Contains(body, "secret") {
		t.Errorf("stream: %d %s", status, body)
	}
	status, body = r.post(routeChat, chatWith(`"n":1`))
	if _, code, _ := parseError(t, body); status != 500 || code != "internal_error" {
		t.Errorf("whole: %d %s", status, body)
	}
	for i := range 2 {
		waitFor(t, b.run(t, i).cancelled, "the cancel after a panic")
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if strings.Join(rec.panics, ",") != "stream,handler" {
		t.Errorf("panics %q", rec.panics)
	}
	for _, f := range rec.finishes {
		if f.Status != 500 || f.Code != "internal_error" || f.Reasons[0] != inference.FinishError {
			t.Errorf("finish %+v", f)
		}
	}
}

// A refused prompt takes the others along: none starts.
func TestPromptsStartTogetherOrNotAtAll(t *testing.T) {
	b := &fakeBackend{script: untilCancelled(0)}
	b.refuse = func(r *inference.Request) error {
		if len(r.Prompt) == 3 {
			return &inference.LimitError{Err: inference.ErrNeverFits, What: "KV blocks", Need: 3, Limit: 2, Remedy: "shorten the prompt"}
		}
		return nil
	}
	r := newRig(t, DefaultConfig(), b)
	defer r.close()
	status, body := r.post(routeCompletions, `{"prompt":["a","b","abc"]}`)
	if _, code, text := parseError(t, body); status != 400 || code != "request_never_fits" || !strings.Contains(text, "KV blocks 3, limit 2") {
		t.Errorf("%d %s", status, body)
	}
	if len(b.runs) != 0 {
		t.Errorf("%d prompts of a refused call began", len(b.runs))
	}
}

// A choice that met its stop string is cancelled alone.
func TestStopStringCancelsItsChoice(t *testing.T) {
	b := &fakeBackend{}
	b.script = func(r *fakeRun) {
		for _, id := range []inference.TokenID{65, 66, 67} { // b, c, d in the test vocabulary's order
			r.token(0, id)
		}
		for !r.wasCancelled(0) {
			time.Sleep(time.Millisecond)
		}
		r.finish(0, inference.FinishCancelled)
		r.token(1, 68)
		r.finish(1, inference.FinishLength)
		r.stream.Close(nil)
	}
	r := newRig(t, DefaultConfig(), b)
	defer r.close()
	stop := b.tok.Decode([]inference.TokenID{66}, false)
	status, body := r.post(routeChat, chatWith(`"n":2,"max_tokens":5,"stop":"`+stop+`"`))
	want := []string{
		`"content":"` + b.tok.Decode([]inference.TokenID{65}, false) + `","refusal":null},"logprobs":null,"finish_reason":"stop"`,
		`"content":"` + b.tok.Decode([]inference.TokenID{68}, false) + `","refusal":null},"logprobs":null,"finish_reason":"length"`,
	}
	for _, w := range want {
		if status != 200 || !strings.Contains(body, w) {
			t.Errorf("%d %s lacks %s", status, body, w)
		}
	}
}

func TestMinTokensProtectFromStopStrings(t *testing.T) {
	b := &fakeBackend{script: say("xxxxx", 0)}
	r := newRig(t, DefaultConfig(), b)
	defer r.close()
	_, body := r.post(routeChat, chatWith(`"stop":"x","min_tokens":3`))
	if !strings.Contains(body, `"content":"xxx",`) {
		t.Error(body)
	}
}
