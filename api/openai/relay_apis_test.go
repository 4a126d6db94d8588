package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"weir/api"
	"weir/api/edge"
	"weir/api/openai/models"
	"weir/api/openai/relay"
	"weir/internal/inference"
	"weir/router"
	"weir/router/fleet"
	"weir/scheduler/quota"
)

// relayRigOf is an edge whose model "front" is served by another edge, which is a server of some kind.
func relayRigOf(t *testing.T, c Config, s fleet.Source) *rig {
	t.Helper()
	s.APIKey, s.Model = "sk-upstream", "test-model"
	upstream, err := fleet.New(fleet.Config{Model: "front", Sources: []fleet.Source{s}})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, c, &fakeBackend{})
	if err := r.openai.SetModels(&models.Model{ID: "front", Created: 1, Upstream: upstream}); err != nil {
		t.Fatal(err)
	}
	return r
}

// passing is what two answers to one question differ in.
var passing = regexp.MustCompile(`"(created_at|created)":\d+|(resp_|msg_|fc_|rs_|chatcmpl-)[0-9A-Za-z_]+|call_[0-9A-Za-z]+|"signature":"[^"]*"`)

// promptUsage stands in the first event of a message, where a chat behind it has told nothing yet.
var promptUsage = regexp.MustCompile(`("usage":\{"input_tokens":)\d+(,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":)\d+\}\}`)

const weatherInput = `"tools":[{"name":"get_weather","input_schema":{"type":"object","properties":{"city":{"type":"string"}}}}]`

var apiQuestions = []struct{ path, body, says string }{
	{routeMessages, `{"model":"MODEL","max_tokens":40,"system":"Be kind.","messages":[{"role":"user","content":"Hello"}]}`, "Hello world, é👋"},
	{routeMessages, `{"model":"MODEL","max_tokens":40,"stream":true,"messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]}]}`, "Hello world"},
	{routeMessages, `{"model":"MODEL","max_tokens":3,"stream":true,"messages":[{"role":"user","content":"Hi"}]}`, "Hello world the end"},
	{routeMessages, `{"model":"MODEL","max_tokens":40,"stop_sequences":["wor"],"messages":[{"role":"user","content":"Hi"}]}`, "Hello world"},
	{routeMessages, `{"model":"MODEL","max_tokens":90,"stream":true,` + weatherInput + `,"messages":[{"role":"user","content":"Hi"}]}`,
		"So.<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\"}}\n</tool_call>"},
	{routeMessages, `{"model":"MODEL","max_tokens":90,` + weatherInput + `,"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"get_weather","input":{}}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"warm"}]}]}`, "It is warm"},
	{routeResponses, `{"model":"MODEL","input":"Hello","instructions":"Be kind.","store":false,"temperature":0.5,"metadata":{"model":"x"}}`, "Hello world"},
	{routeResponses, `{"model":"MODEL","input":"Hello","store":false,"stream":true,"max_output_tokens":2}`, "Hello world the end"},
	{routeResponses, `{"model":"MODEL","input":[{"role":"user","content":"Hi"}],"store":false,"stream":true,"tools":[{"type":"function","name":"now","parameters":{"type":"object"}}]}`,
		"<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>"},
}

// wideUpstream is edgeUpstream with a context for descriptions of tools.
func wideUpstream(t *testing.T, b *fakeBackend) (baseURL string) {
	t.Helper()
	c := DefaultConfig()
	c.APIKeys = []string{"sk-upstream"}
	t.Cleanup(b.wg.Wait)
	s := newServer(t, c, b)
	m := testModel(t, b)
	m.MaxModelLen = 4096
	if err := s.SetModels(m); err != nil {
		t.Fatal(err)
	}
	return serveOn(t, api.New(api.DefaultConfig(), muxOf(s))) + "/v1"
}

// askUpstream asks the server behind a model itself.
func askUpstream(t *testing.T, base, path, body string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+strings.TrimPrefix(path, "/v1"), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer sk-upstream")
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(text)
}

// Responses and Messages have the same answers where the server behind the model has these APIs, and where it
// is asked for a chat: those that it gives itself, under the model's own name.
func TestRelayedAPIsAnswerAsTheUpstreamDoes(t *testing.T) {
	for _, kind := range []fleet.Kind{fleet.Weir, fleet.VLLM} {
		t.Run(string(kind), func(t *testing.T) {
			backend := &fakeBackend{script: func(r *fakeRun) { r.say("", 0) }}
			base := wideUpstream(t, backend)
			r := relayRigOf(t, DefaultConfig(), fleet.Source{URL: base, Kind: kind})
			defer r.close()
			for _, q := range apiQuestions {
				backend.script = say(q.says, 0)
				direct, want := askUpstream(t, base, q.path, strings.Replace(q.body, "MODEL", "test-model", 1))
				res, got := r.do("POST", q.path, "", strings.Replace(q.body, "MODEL", "front", 1))
				if res.StatusCode != direct.StatusCode || res.Header.Get("Content-Type") != direct.Header.Get("Content-Type") {
					t.Errorf("%s: %d %v, want %d %v", q.body, res.StatusCode, res.Header, direct.StatusCode, direct.Header)
				}
				plain := func(text string) string {
					text = promptUsage.ReplaceAllString(passing.ReplaceAllString(text, "-"), "$1-$2-}}")
					return strings.ReplaceAll(text, `"model":"test-model"`, `"model":"front"`)
				}
				if plain(got) != plain(want) {
					t.Errorf("%s %s:\ngot  %s\nwant %s", q.path, q.body, plain(got), plain(want))
				}
			}
		})
	}
}

// What another weir has ignored of a request it tells, and the router passes that on.
func TestRelayedWarnings(t *testing.T) {
	r := relayRigOf(t, DefaultConfig(), fleet.Source{URL: edgeUpstream(t, &fakeBackend{})})
	defer r.close()
	res, text := r.do("POST", routeChat, "", `{"messages":[{"role":"user","content":"x"}],"logit_bios":7}`)
	if said := res.Header.Get(warningsHeader); res.StatusCode != http.StatusOK || !strings.Contains(said, "logit_bios") {
		t.Errorf("%d %q %s", res.StatusCode, said, text)
	}
}

// Wrong requests are refused in the words of their API.
func TestRelayedAPIsRefuse(t *testing.T) {
	for _, kind := range []fleet.Kind{fleet.Weir, fleet.VLLM, fleet.LlamaServer} {
		r := relayRigOf(t, DefaultConfig(), fleet.Source{URL: edgeUpstream(t, &fakeBackend{}), Kind: kind})
		for _, tc := range []struct{ path, body, want string }{
			{routeMessages, `{"messages":[{"role":"user","content":"x"}]}`, `"type":"invalid_request_error","message":"max_tokens is missing`},
			{routeMessages, `{"max_tokens":3,"messages":[{"role":"user","content":"x"}],"stop_sequences":7}`, `"type":"error"`},
			{routeResponses, `{"input":[]}`, `"param":"input"`},
			{routeResponses, `{"input":"x","background":true,"store":false}`, `"param":"background"`},
			{routeResponses, `{"input":"x","previous_response_id":"resp_none"}`, `previous_response_not_found`},
		} {
			if status, text := r.post(tc.path, tc.body); status != http.StatusBadRequest || !strings.Contains(text, tc.want) {
				t.Errorf("%s %s %s: %d %s", kind, tc.path, tc.body, status, text)
			}
		}
		r.close()
	}
	r := relayRigOf(t, DefaultConfig(), fleet.Source{URL: edgeUpstream(t, &fakeBackend{}), Kind: fleet.LlamaServer})
	defer r.close()
	for path, body := range map[string]string{
		routeMessages:  `{"max_tokens":3,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"y"}]}`,
		routeCount:     `{"messages":[{"role":"user","content":"x"}]}`,
		routeResponses: `{"input":"x","include":["message.output_text.logprobs"]}`,
	} {
		if status, text := r.post(path, body); status != http.StatusBadRequest || !strings.Contains(text, "front") {
			t.Errorf("%s %s: %d %s", path, body, status, text)
		}
	}
}

func TestRelayedTokensAreCounted(t *testing.T) {
	base := edgeUpstream(t, &fakeBackend{})
	r := relayRigOf(t, DefaultConfig(), fleet.Source{URL: base})
	defer r.close()
	const body = `{"model":"MODEL","system":"s","messages":[{"role":"user","content":"Hello world"}]}`
	_, want := askUpstream(t, base, routeCount, strings.Replace(body, "MODEL", "test-model", 1))
	if status, got := r.post(routeCount, strings.Replace(body, "MODEL", "front", 1)); status != 200 || got != want {
		t.Errorf("%d %s, want %s", status, got, want)
	}
}

// Usage and ends of relayed answers reach the hooks, whatever the API and the way.
func TestRelayedAPIsReachTheHooks(t *testing.T) {
	for _, kind := range []fleet.Kind{fleet.Weir, fleet.VLLM} {
		c := DefaultConfig()
		finished := make(chan edge.RequestFinish, 1)
		c.Hooks.OnRequestFinish = func(f edge.RequestFinish) { finished <- f }
		r := relayRigOf(t, c, fleet.Source{URL: edgeUpstream(t, &fakeBackend{script: say("Hello world", 0)}), Kind: kind})
		for _, stream := range []string{"", `,"stream":true`} {
			for path, body := range map[string]string{
				routeMessages: `{"max_tokens":2,"messages":[{"role":"user","content":"Hello"}]`, routeResponses: `{"input":"Hello","store":false,"max_output_tokens":2`,
			} {
				if status, text := r.post(path, body+stream+"}"); status != 200 {
					t.Fatalf("%d %s", status, text)
				}
				f := <-finished
				if f.PromptTokens < 5 || f.OutputTokens != 2 || f.Status != 200 || f.Endpoint != path || len(f.Reasons) != 1 || f.Reasons[0].String() != "length" ||
					f.Cause != nil || f.Stream != !f.FirstToken.IsZero() {
					t.Errorf("%s %s%s: %+v", kind, path, stream, f)
				}
			}
		}
		r.close()
	}
}

// The router keeps responses itself: conversations go on although each of their requests may go to another server.
func TestRelayedConversationsGoOn(t *testing.T) {
	backend := &fakeBackend{}
	base := edgeUpstream(t, backend)
	r := relayRigOf(t, DefaultConfig(), fleet.Source{URL: base})
	defer r.close()
	_, body := r.post(routeResponses, `{"input":"hi","instructions":"Be kind."}`)
	first := readStored(t, body)
	if !first.Store || first.Status != "completed" {
		t.Fatalf("the first response is %s", body)
	}
	res, stream := r.do("POST", routeResponses, "", `{"input":[{"role":"user","content":"more"}],"previous_response_id":"`+first.ID+`","stream":true}`)
	if res.StatusCode != 200 {
		t.Fatal(stream)
	}
	_, data, _ := strings.Cut(stream[strings.LastIndex(stream, "event: response.completed"):], `"response":`)
	second := readStored(t, strings.TrimSuffix(data, "}\n\n"))
	want := "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nHello world<|im_end|>\n<|im_start|>user\nmore<|im_end|>\n<|im_start|>assistant\n"
	if text := backend.tok.Decode(backend.run(t, 1).req.Prompt, true); text != want {
		t.Errorf("the prompt is %q, want %q", text, want)
	}
	if status, body := r.get("/v1/responses/" + second.ID); status != 200 || readStored(t, body).Previous != first.ID {
		t.Errorf("the second response, read again: %d %s", status, body)
	}
	if res, text := askUpstream(t, base, routeResponses, `{"input":"x","previous_response_id":"`+first.ID+`"}`); res.StatusCode != http.StatusBadRequest {
		t.Errorf("the server behind the router keeps the response, too: %s", text)
	}
}

func (r *rig) get(path string) (int, string) {
	r.t.Helper()
	res, text := r.do("GET", path, "", "")
	return res.StatusCode, text
}

// ended waits for the end of a response in the background.
func (r *rig) ended(id string) storedBody {
	r.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		status, body := r.get("/v1/responses/" + id)
		var got storedBody
		if err := json.Unmarshal([]byte(body), &got); status != 200 || err != nil {
			r.t.Fatalf("%d %s", status, body)
		}
		if got.Status != "queued" && got.Status != "in_progress" {
			return got
		}
	}
	r.t.Fatalf("the response %s does not end", id)
	return storedBody{}
}

func TestRelayedResponsesInTheBackground(t *testing.T) {
	backend := &fakeBackend{}
	r := relayRigOf(t, DefaultConfig(), fleet.Source{URL: edgeUpstream(t, backend)})
	defer r.close()
	start := func() storedBody {
		t.Helper()
		status, body := r.post(routeResponses, `{"input":"hi","background":true}`)
		if got := readStored(t, body); status == 200 && got.Status == "queued" {
			return got
		}
		t.Fatalf("%d %s", status, body)
		return storedBody{}
	}
	if got := r.ended(start().ID); got.Status != "completed" || got.Output[0].Content[0].Text != "Hello world" {
		t.Errorf("%+v", got)
	}
	backend.mu.Lock()
	backend.script = func(run *fakeRun) {
		<-run.cancelled
		run.stream.Close(errors.New("cancelled"))
	}
	backend.mu.Unlock()
	id := start().ID
	backend.run(t, 1)
	if status, body := r.post("/v1/responses/"+id+"/cancel", ""); status != 200 || readStored(t, body).Status != "cancelled" {
		t.Errorf("%d %s", status, body)
	}
	if got := r.ended(id); got.Status != "cancelled" {
		t.Errorf("%+v", got)
	}
}

// A stream that breaks after content ends with the error of its API, and nothing that looks like an end.
func TestRelayedAPIsBreak(t *testing.T) {
	events := map[string]string{
		"/v1/messages": "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"x\",\"usage\":{\"input_tokens\":3}}}\n\n" +
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hel\"}}\n\n",
		"/v1/responses": "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\",\"status\":\"in_progress\",\"model\":\"x\"},\"sequence_number\":0}\n\n" +
			"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"Hel\",\"sequence_number\":4}\n\n",
		"/v1/chat/completions": "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hel\"}}]}\n\n",
	}
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, events[r.URL.Path])
		w.(http.Flusher).Flush() //nolint:forcetypeassert // it always is one
		panic(http.ErrAbortHandler)
	}))
	defer upstream.Close()
	for _, kind := range []fleet.Kind{fleet.Weir, fleet.VLLM} {
		r := relayRigOf(t, DefaultConfig(), fleet.Source{URL: upstream.URL + "/v1", Kind: kind})
		for _, tc := range []struct{ path, body, want, never string }{
			{routeMessages, `{"stream":true,"max_tokens":9,"messages":[{"role":"user","content":"x"}]}`, `data: {"type":"error","error":{"type":"api_error"`, "message_stop"},
			{routeResponses, `{"stream":true,"input":"x","store":false}`, `data: {"type":"response.failed"`, "response.completed"},
		} {
			status, text := r.post(tc.path, tc.body)
			if status != 200 || !strings.Contains(text, "Hel") || !strings.Contains(text, tc.want) || strings.Contains(text, tc.never) || strings.Contains(text, "[DONE]") {
				t.Errorf("%s %s: %d %s", kind, tc.path, status, text)
			}
			last := text[strings.LastIndex(text, "data: ")+len("data: "):]
			if !json.Valid([]byte(last)) || strings.Contains(text, `"model":"x"`) {
				t.Errorf("%s %s ends with %s", kind, tc.path, last)
			}
			if tc.path == routeResponses && (!strings.Contains(last, `"status":"failed"`) || !strings.Contains(last, `"error":{"code":"upstream_unavailable"`)) {
				t.Errorf("%s: the last object is %s", kind, last)
			}
		}
		r.close()
	}
}

// Wherever a stream breaks, what the client gets are whole events, and the last one is the error.
func TestRelayedStreamsBreakBetweenEvents(t *testing.T) {
	server := newServer(t, DefaultConfig(), &fakeBackend{})
	for name, tc := range map[string]struct {
		path   string
		form   relay.Form
		events string
	}{
		"messages": {routeMessages, relay.MessageForm, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"x\",\"usage\":{\"input_tokens\":3}}}\n\n" +
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hel\"}}\n\n"},
		"responses": {routeResponses, relay.ResponseForm, "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"a\",\"model\":\"x\"},\"sequence_number\":0}\n\n" +
			"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"Hel\",\"sequence_number\":4}\n\n"},
		"chats": {routeChat, relay.ChatForm, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hel\"}}]}\n\n: ping\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"lo\"}}]}\n\n"},
	} {
		for n := range len(tc.events) {
			s := relay.NewStream(&relay.Exchange{
				Relay: server.relay, Cause: func() error { return nil }, Form: tc.form, Route: &route{Route: edge.Route{Pattern: tc.path}}, Name: []byte(`"front"`),
				Answer: &router.Answer{Events: io.NopCloser(io.MultiReader(strings.NewReader(tc.events[:n]), iotest.ErrReader(io.ErrUnexpectedEOF)))},
			}, api.Direct{})
			all, err := io.ReadAll(s)
			if err != nil {
				t.Fatal(err)
			}
			last := ""
			for event := range strings.SplitSeq(string(all), "\n\n") {
				if event = strings.TrimSpace(event); event == "" || event == ": ping" {
					continue
				}
				at := strings.LastIndex(event, "data: ")
				if last = event; at < 0 || !json.Valid([]byte(event[at+len("data: "):])) {
					t.Fatalf("%s, cut after %d bytes: the event %q", name, n, event)
				}
			}
			if !strings.Contains(last, "did not answer, or not to the end") {
				t.Fatalf("%s, cut after %d bytes: the last event is %q", name, n, last)
			}
		}
	}
}

// Names of models have slashes, which clients send as they are (vLLM's users) or escaped (OpenAI's clients).
func TestModelsWithSlashesAreFound(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	upstream := httptest.NewServer(http.NotFoundHandler())
	defer upstream.Close()
	front, err := fleet.New(fleet.Config{Model: "Qwen/Qwen2.5:0.5B", Sources: []fleet.Source{{URL: upstream.URL + "/v1", Kind: fleet.VLLM}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.openai.SetModels(&models.Model{ID: "Qwen/Qwen2.5:0.5B", Created: 1, Upstream: front}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"Qwen/Qwen2.5:0.5B", "Qwen%2FQwen2.5:0.5B", "Qwen%2fQwen2.5%3A0.5B", "Qwen/Qwen2.5:0.5B/"} {
		if status, text := r.get("/v1/models/" + path); status != http.StatusOK || !strings.Contains(text, `"id":"Qwen/Qwen2.5:0.5B"`) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	if status, text := r.get("/v1/models/Qwen"); status != http.StatusNotFound {
		t.Errorf("a part of the name: %d %s", status, text)
	}
}

// What a server says of trying again reaches the client, on every path: that the same request is refused each time, too.
func TestAdviceOfTheUpstreamReachesClients(t *testing.T) {
	for kind, refusal := range map[string]error{
		"never":   &quota.Refusal{Kind: quota.Tokens, Limit: 60, Left: 60, Need: 900},
		"in 7 s":  &quota.Refusal{Kind: quota.Tokens, Limit: 60, Left: 3, Need: 10, RetryAfter: 7 * time.Second},
		"in 1 h":  &quota.Refusal{Kind: quota.DailyTokens, Limit: 60, Left: 3, Need: 10, RetryAfter: time.Hour},
		"unknown": fmt.Errorf("%w: alone", inference.ErrNeverFits),
	} {
		backend := &fakeBackend{refuse: func(*inference.Request) error { return refusal }}
		base := wideUpstream(t, backend)
		for _, server := range []fleet.Kind{fleet.Weir, fleet.VLLM} {
			r := relayRigOf(t, DefaultConfig(), fleet.Source{URL: base, Kind: server})
			for _, q := range []struct{ path, body string }{
				{routeChat, `{"model":"MODEL","messages":[{"role":"user","content":"Hi"}]}`},
				{routeChat, `{"model":"MODEL","stream":true,"messages":[{"role":"user","content":"Hi"}]}`},
				{routeCompletions, `{"model":"MODEL","prompt":"Hi"}`},
				{routeResponses, `{"model":"MODEL","store":false,"input":"Hi"}`},
				{routeResponses, `{"model":"MODEL","stream":true,"input":"Hi"}`},
				{routeMessages, `{"model":"MODEL","max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}`},
			} {
				direct, _ := askUpstream(t, base, q.path, strings.Replace(q.body, "MODEL", "test-model", 1))
				res, text := r.do("POST", q.path, "", strings.Replace(q.body, "MODEL", "front", 1))
				for _, name := range []string{"Retry-After", "Retry-After-Ms", "X-Should-Retry", "X-Weir-Reason"} {
					if got, want := res.Header.Get(name), direct.Header.Get(name); got != want {
						t.Errorf("%s, %s, %s: %s %q, want %q: %d %s", kind, server, q.body, name, got, want, res.StatusCode, text)
					}
				}
			}
			r.close()
		}
	}
}
