package openai

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// handle gives a request to the server without a connection and measures what
// answering it allocated.
func handle(s *Server, path, body string) (status int, text string, allocated uint64) {
	var ctx fasthttp.RequestCtx
	ctx.Request.Header.SetMethod("POST")
	ctx.Request.Header.SetContentType("application/json")
	ctx.Request.SetRequestURI(path)
	ctx.Request.SetBodyString(body)
	var before, after runtime.MemStats
	mux := muxOf(s)
	runtime.ReadMemStats(&before)
	mux.Handle(&ctx)
	runtime.ReadMemStats(&after)
	return ctx.Response.StatusCode(), string(ctx.Response.Body()), after.TotalAlloc - before.TotalAlloc
}

// TestHopelessPromptsAreNotTokenised: what cannot fit by its length costs a few
// copies of the body, not some dozen bytes for each of its bytes.
func TestHopelessPromptsAreNotTokenised(t *testing.T) {
	s := newServer(t, DefaultConfig(), &fakeBackend{})
	text := strings.Repeat("a", 4<<20)
	for path, body := range map[string]string{
		routeCompletions: `{"prompt":"` + text + `"}`,
		routeChat:        message(`{"role":"user","content":"` + text + `"}`),
	} {
		status, answer, allocated := handle(s, path, body)
		if _, code, words := parseError(t, answer); status != 400 || code != "context_length_exceeded" ||
			!strings.HasPrefix(words, "This model's maximum context length is 256 tokens.") || !strings.Contains(words, "at least") {
			t.Errorf("%s: %d %s", path, status, answer)
		}
		if limit := uint64(14 * len(body)); allocated > limit {
			t.Errorf("%s: %d bytes allocated for a body of %d, limit %d", path, allocated, len(body), limit)
		}
	}
}

// TestTokenizeHasALengthLimit: no context bounds it.
func TestTokenizeHasALengthLimit(t *testing.T) {
	s := newServer(t, DefaultConfig(), &fakeBackend{})
	for path, body := range map[string]string{
		routeTokenize: `{"prompt":"` + strings.Repeat("a", 1<<20) + `"}`,
		routeTemplate: message(`{"role":"user","content":"` + strings.Repeat("a", 1<<20) + `"}`),
	} {
		status, answer, _ := handle(s, path, body)
		if _, code, words := parseError(t, answer); status != 413 || code != "request_too_large" || !strings.Contains(words, "--max-tokenize-bytes") {
			t.Errorf("%s: %d %s", path, status, answer)
		}
	}
	if status, answer, _ := handle(s, routeTokenize, `{"prompt":"`+strings.Repeat("a", 1<<19)+`"}`); status != 200 || !strings.HasPrefix(answer, `{"count":524288,`) {
		t.Errorf("half of the limit: %d %.100s", status, answer)
	}
}

// TestPromptsOfExactlyTheContext are not refused by the early ends.
func TestPromptsOfExactlyTheContext(t *testing.T) {
	s := newServer(t, DefaultConfig(), &fakeBackend{})
	for n, want := range map[int]int{255: 200, 256: 400, 257: 400} {
		if status, answer, _ := handle(s, routeCompletions, `{"prompt":"`+strings.Repeat("x", n)+`","max_tokens":1}`); status != want {
			t.Errorf("%d tokens: %d %s", n, status, answer)
		}
	}
	long := `{"prompt":"` + strings.Repeat("x", 20_000) + `","max_tokens":1,"truncate_prompt_tokens":20}`
	if status, answer, _ := handle(s, routeCompletions, long); status != 200 {
		t.Errorf("a long prompt of which 20 tokens stay: %d %s", status, answer)
	}
}

// TestPermitsComeBack: whatever happens to a long request, its permit is free
// afterwards.
func TestPermitsComeBack(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{load: 1})
	defer r.close()
	long := strings.Repeat("the ", 1<<14)
	for _, tc := range []struct {
		path, body string
		status     int
	}{
		{routeCompletions, `{"prompt":"` + long + `"}`, 400},
		{routeChat, message(`{"role":"user","content":"` + long + `"}`), 400},
		{routeCompletions, `{"prompt":"hi","suffix":null,"user":"` + long + `"}`, 200},
		{routeCompletions, `{"prompt":"` + long, 400},
		{routeTokenize, `{"prompt":"` + long + `"}`, 200},
		{routeTokenize, `{"prompt":"` + long + `","model":"gpt-4o"}`, 404},
		{routeTemplate, message(`{"role":"user","content":"` + long + `"}`), 200},
		{routeDetokenize, `{"tokens":[` + strings.Repeat("1,", 1<<14) + `1]}`, 200},
	} {
		if status, body := r.post(tc.path, tc.body); status != tc.status {
			t.Errorf("%s: %d %.300s", tc.path, status, body)
		}
	}
	if n := r.openai.limiter.Taken(); n != 0 {
		t.Errorf("%d permits are taken after all requests", n)
	}
}

// TestHangUpEndsTokenising: a client that went away while its prompt is
// tokenised costs no more than the slice of work at hand.
func TestHangUpEndsTokenising(t *testing.T) {
	c := DefaultConfig()
	c.MaxTokenizeBytes = 8 << 20
	r := newRig(t, c, &fakeBackend{load: 1})
	defer r.close()
	conn, err := r.ln.Dial()
	if err != nil {
		t.Fatal(err)
	}
	// With its rests this text takes seconds.
	if _, err := conn.Write([]byte(rawRequest("POST", routeTokenize, "", `{"prompt":"`+strings.Repeat("a", 6<<20)+`"}`))); err != nil {
		t.Fatal(err)
	}
	s := r.openai.limiter
	eventually(t, "the permit to be taken", func() bool { return s.Taken() > 0 })
	time.Sleep(20 * time.Millisecond) // into the work
	conn.Close()
	began := time.Now()
	eventually(t, "the permit to come back", func() bool { return s.Taken() == 0 })
	t.Logf("free after %v", time.Since(began))
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
