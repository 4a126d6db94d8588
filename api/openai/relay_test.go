package openai

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/api"
	"weir/api/edge"
	"weir/api/openai/models"
	"weir/internal/inference"
	"weir/router/fleet"
)

// relayRig is an edge whose model "front" is served by an upstream.
func relayRig(t *testing.T, c Config, baseURL string) *rig {
	t.Helper()
	upstream, err := fleet.New(fleet.Config{Model: "front", Sources: []fleet.Source{{URL: baseURL, APIKey: "sk-upstream", Model: "test-model"}}})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, c, &fakeBackend{})
	if err := r.openai.SetModels(&models.Model{ID: "front", Aliases: []string{"gpt-4o"}, Created: 1, Version: "v1", Upstream: upstream}); err != nil {
		t.Fatal(err)
	}
	return r
}

// edgeUpstream is another edge, on a real connection.
func edgeUpstream(t *testing.T, b *fakeBackend) (baseURL string) {
	t.Helper()
	c := DefaultConfig()
	c.APIKeys = []string{"sk-upstream"}
	t.Cleanup(b.wg.Wait)
	return serveOn(t, api.New(api.DefaultConfig(), muxOf(newServer(t, c, b)))) + "/v1"
}

// serveOn serves on a real connection until the test ends.
func serveOn(t *testing.T, s *api.Server) (baseURL string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		<-served
	})
	return "http://" + ln.Addr().String()
}

// The bytes of a relayed answer are those that the upstream itself gives, except for the model's name.
func TestRelayedAnswersAreTheUpstreams(t *testing.T) {
	backend := &fakeBackend{script: say("Hello world, é👋", time.Millisecond)}
	base := edgeUpstream(t, backend)
	r := relayRig(t, DefaultConfig(), base)
	defer r.close()
	created := regexp.MustCompile(`"created":\d+`)
	for _, tc := range []struct{ path, body string }{
		{routeChat, `{"model":"MODEL","messages":[{"role":"user","content":"Hello"}],"seed":1,"logprobs":true,"top_logprobs":2}`},
		{routeChat, `{"messages":[{"role":"user","content":"\u0048i \\ \" 👋"}], "x" : [1, {"y":2.50}],"stream":true,"stream_options":{"include_usage":true},"model":"MODEL"}`},
		{routeCompletions, `{"prompt":["a","b"],"model":"MODEL","n":2,"echo":true}`},
		{routeCompletions, `{"model":"MODEL","prompt":"Hello","stream":true}`},
		{routeCompletions, `{"model":"MODEL","prompt":"Hello","temperature":9}`},
		{routeChat, `{"model":"MODEL"}`},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+strings.TrimPrefix(tc.path, "/v1"),
			strings.NewReader(strings.Replace(tc.body, "MODEL", "test-model", 1)))
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range map[string]string{"Authorization": "Bearer sk-upstream", "Content-Type": "application/json", "X-Request-Id": "same"} {
			req.Header.Set(k, v)
		}
		direct, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		want, err := io.ReadAll(direct.Body)
		direct.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		res, got := r.do("POST", tc.path, "X-Request-Id: same\r\n", strings.Replace(tc.body, "MODEL", "gpt-4o", 1))
		if res.StatusCode != direct.StatusCode || res.Header.Get("Content-Type") != direct.Header.Get("Content-Type") {
			t.Errorf("%s: %d %v, want %d %v", tc.body, res.StatusCode, res.Header, direct.StatusCode, direct.Header)
		}
		want = bytes.ReplaceAll(want, []byte(`"model":"test-model"`), []byte(`"model":"front"`))
		if got := created.ReplaceAllString(got, ""); got != created.ReplaceAllString(string(want), "") {
			t.Errorf("%s:\ngot  %s\nwant %s", tc.body, got, want)
		}
	}
}

func TestRelayedRequestsReachTheHooks(t *testing.T) {
	c := DefaultConfig()
	finished := make(chan edge.RequestFinish, 2)
	first := make(chan time.Duration, 2)
	c.Hooks.OnRequestFinish = func(f edge.RequestFinish) { finished <- f }
	c.Hooks.OnFirstToken = func(_ *edge.RequestStart, d time.Duration) { first <- d }
	r := relayRig(t, c, edgeUpstream(t, &fakeBackend{script: say("Hello", 0)}))
	defer r.close()
	for _, body := range []string{
		`{"model":"front","prompt":"abc"}`,
		`{"model":"front","prompt":"abc","stream":true,"stream_options":{"include_usage":true}}`,
	} {
		if status, text := r.post(routeCompletions, body); status != 200 {
			t.Fatalf("%d %s", status, text)
		}
		f := <-finished
		if f.PromptTokens != 3 || f.OutputTokens != 2 || f.Status != 200 || f.Model != "front" || f.Version != "v1" ||
			!slices.Equal(f.Reasons, []inference.FinishReason{inference.FinishStop}) || f.Cause != nil {
			t.Errorf("%s: finish %+v", body, f)
		}
		if f.Stream != (len(first) == 1) || f.Stream == f.FirstToken.IsZero() {
			t.Errorf("%s: %d first tokens, %v", body, len(first), f.FirstToken)
		}
	}
}

// A stream passes as it comes, and a client that hangs up ends it upstream.
func TestRelayStreamsWithoutBufferingAndCancels(t *testing.T) {
	more, cancelled := make(chan bool), make(chan bool)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for i := 0; ; i++ {
			fmt.Fprintf(w, "data: {\"n\":%d}\n\n", i)
			w.(http.Flusher).Flush() //nolint:forcetypeassert // it always is one
			select {
			case <-more:
			case <-r.Context().Done():
				close(cancelled)
				return
			}
		}
	}))
	defer upstream.Close()
	c := DefaultConfig()
	finished := make(chan edge.RequestFinish, 1)
	c.Hooks.OnRequestFinish = func(f edge.RequestFinish) { finished <- f }
	r := relayRig(t, c, upstream.URL)
	defer r.close()
	conn, err := r.ln.Dial()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, rawRequest("POST", routeChat, "", `{"stream":true}`)); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	body := bufio.NewReader(res.Body)
	for i := range 5 {
		line, err := body.ReadString('\n')
		if want := fmt.Sprintf("data: {\"n\":%d}\n", i); err != nil || line != want {
			t.Fatalf("%q %v, want %q", line, err, want)
		}
		_, _ = body.ReadString('\n')
		more <- true
	}
	conn.Close()
	waitFor(t, cancelled, "the cancel upstream")
	if f := <-finished; f.Status != edge.StatusHungUp || f.Reasons[0] != inference.FinishCancelled {
		t.Errorf("finish %+v", f)
	}
}

func TestRelayFaults(t *testing.T) {
	answer := func(status int, header, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if name, value, ok := strings.Cut(header, ": "); ok {
				w.Header().Set(name, value)
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		}
	}
	for _, tc := range []struct {
		name     string
		upstream http.HandlerFunc
		status   int
		want     string
		cause    string
	}{
		{"busy", answer(503, "Retry-After: 7", `{"error":{"message":"full","code":"busy"}}`), 503, `"full"`, ""},
		{"too many", answer(429, "Retry-After: 7", `{"error":{"message":"slower","code":429}}`), 429, `"slower"`, ""},
		{"wrong key", answer(401, "", `{"error":{"message":"sk-upstream is no key"}}`), 502, "refuses this server's credential (status 401)", "401"},
		{"no such model", answer(404, "", `{"error":{}}`), 502, "upstream_unavailable", "404"},
		{"redirect", answer(307, "Location: http://elsewhere", ""), 502, "upstream_unavailable", "307"},
		{"no method", answer(405, "", ""), 502, "on the path that it was asked on (status 405)", "405"},
		{"an error under 200", answer(200, "Retry-After: 7", `{"error":{"message":"full","code":503}}`), 503, `"full"`, ""},
		{"no choices", answer(200, "", `{"choices":[]}`), 502, "gave an answer with nothing in it (empty_answer); retry", "no choices"},
		{"a page", answer(200, "Content-Type: text/html", `<html>`), 502, "(bad_answer)", "no JSON"},
		{"cut off", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "{")
		}, 502, "upstream_unavailable", "EOF"},
		{"stream cut off", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"cho")
			w.(http.Flusher).Flush() //nolint:forcetypeassert // it always is one
			panic(http.ErrAbortHandler)
		}, 200, "\"a\"}}]}\n\n\n\ndata: {\"error\":", "EOF"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			upstream := httptest.NewServer(tc.upstream)
			defer upstream.Close()
			c := DefaultConfig()
			finished := make(chan edge.RequestFinish, 1)
			c.Hooks.OnRequestFinish = func(f edge.RequestFinish) { finished <- f }
			r := relayRig(t, c, upstream.URL)
			defer r.close()
			stream := strconv.FormatBool(strings.HasPrefix(tc.name, "stream"))
			res, text := r.do("POST", routeChat, "", `{"model":"front","messages":[],"stream":`+stream+`}`)
			if res.StatusCode != tc.status || !strings.Contains(text, tc.want) || strings.Contains(text, "sk-upstream") || strings.Contains(text, "[DONE]") {
				t.Errorf("%d %s", res.StatusCode, text)
			}
			if tc.status == 429 || tc.status == 503 {
				h := res.Header
				if h.Get("Retry-After") != "7" || h.Get("Retry-After-Ms") != "7000" || h.Get("X-Should-Retry") != "true" || h.Get("X-Weir-Reason") == "" {
					t.Errorf("advice %v", h)
				}
			}
			f := <-finished
			if f.Status < 400 || f.Code == "" || tc.cause != "" && (f.Cause == nil || !strings.Contains(f.Cause.Error(), tc.cause)) {
				t.Errorf("finish %+v", f)
			}
		})
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	r := relayRig(t, DefaultConfig(), gone.URL)
	defer r.close()
	if status, text := r.post(routeChat, `{"messages":[]}`); status != 502 || strings.Contains(text, "127.0.0.1") {
		t.Errorf("an upstream that is not there: %d %s", status, text)
	}
}

// What stands before a model's servers answers with pages of its own. Its status reaches a client, in the form of errors of the path that the client
// asked on, with the cause, and nothing of the page.
func TestPagesNeverReachAClient(t *testing.T) {
	status := 0
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "<html><center>nginx</center></html>")
	}))
	defer upstream.Close()
	r := relayRig(t, DefaultConfig(), upstream.URL)
	defer r.close()
	for path, body := range map[string]string{
		routeChat: `"messages":[{"role":"user","content":"x"}]`, routeCompletions: `"prompt":"x"`, routeResponses: `"input":"x"`,
		routeMessages: `"max_tokens":9,"messages":[{"role":"user","content":"x"}]`, routeEmbeddings: `"input":"x"`, routeCohereEmbed: `"texts":["x"],"input_type":"search_query"`,
		routeRerank: `"query":"x","documents":["y"]`,
	} {
		for _, tc := range []struct {
			status, want int
			tells        string
		}{
			{200, 502, "cannot be read"}, {302, 502, "redirects to another address"}, {400, 400, "refuses the request (status 400)"}, {401, 502, "refuses this server's credential (status 401)"},
			{404, 502, "does not know the model"}, {413, 413, "so large a request"}, {429, 429, "takes no more requests for now"}, {500, 500, "failed (status 500)"},
			{502, 502, "failed (status 502)"}, {504, 504, "failed (status 504)"},
		} {
			status = tc.status
			if tc.status == http.StatusNotFound && (path == routeEmbeddings || path == routeCohereEmbed || path == routeRerank) {
				tc.want, tc.tells = http.StatusBadRequest, "do not have "+path
			}
			for _, stream := range []string{"", `,"stream":true`} {
				res, text := r.do("POST", path, "Anthropic-Version: 2023-06-01\r\n", `{"model":"front",`+body+stream+`}`)
				var said struct {
					Type  string
					Error struct{ Type, Message string }
				}
				err := json.Unmarshal([]byte(text), &said)
				if res.StatusCode == http.StatusBadRequest && strings.Contains(text, "model_is_relayed") {
					continue // this path is for models of this process
				}
				if err != nil || res.StatusCode != tc.want || strings.Contains(text, "html") || !strings.Contains(said.Error.Message, tc.tells) ||
					said.Error.Type == "" || (said.Type == "error") != (path == routeMessages) {
					t.Errorf("%s %d%s: %d %s", path, tc.status, stream, res.StatusCode, text)
				}
			}
		}
	}
}

func TestRelayedModelsInTheTable(t *testing.T) {
	arrived := make(chan string, 1)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		arrived <- string(body)
		_, _ = w.Write(body)
	}))
	defer upstream.Close()
	r := relayRig(t, DefaultConfig(), upstream.URL)
	defer r.close()
	for _, path := range []string{routeTokenize, routeDetokenize, routeTemplate} {
		if status, text := r.post(path, `{"model":"front","prompt":"x"}`); status != 400 || !strings.Contains(text, "model_is_relayed") {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	_, list := r.do("GET", routeModels, "", "")
	if want := `"id":"front","object":"model","created":1,"owned_by":"weir","aliases":["gpt-4o"]}`; !strings.Contains(list, want) {
		t.Errorf("models: %s", list)
	}
	if res, _ := r.do("GET", routeReady, "", ""); res.StatusCode != 200 {
		t.Errorf("ready: %d", res.StatusCode)
	}
	// What arrives is the request with another model: all else byte for byte.
	_, back := r.post(routeChat, `{ "a":1.0 , "model":"gpt-4o", "b\u0062":{"model":"gpt-4o" }, "choices":[{"text":""}] }`)
	if want := `{"model":"front","a":1.0,"bb":{"model":"gpt-4o" },"choices":[{"text":""}]}`; back != want {
		t.Errorf("the client got %s, want %s", back, want)
	}
	got := <-arrived
	if want := `{"model":"test-model","a":1.0,"bb":{"model":"gpt-4o" },"choices":[{"text":""}]}`; got != want {
		t.Errorf("the upstream got %s, want %s", got, want)
	}
	both := *r.openai.models.Load().List[0]
	both.Backend = r.backend
	if err := r.openai.SetModels(&both); err == nil {
		t.Error("a model with an upstream and a backend was accepted")
	}
}

// A shutdown ends relayed streams with an error event.
func TestRelayedStreamsEndWithTheServer(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {}\n\n")
		w.(http.Flusher).Flush() //nolint:forcetypeassert // it always is one
		<-r.Context().Done()
	}))
	defer upstream.Close()
	r := relayRig(t, DefaultConfig(), upstream.URL)
	defer r.close()
	conn, err := r.ln.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, rawRequest("POST", routeChat, "", `{"stream":true}`)); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(res.Body).ReadString('\n'); err != nil {
		t.Fatalf("%q %v", line, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := r.openai.Drain(ctx); err != nil {
		t.Error(err)
	}
	rest, _ := io.ReadAll(res.Body)
	if !bytes.Contains(rest, []byte("server_shutting_down")) {
		t.Errorf("the stream ended with %q", rest)
	}
}
