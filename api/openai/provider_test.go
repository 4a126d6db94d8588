package openai

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"weir/api/edge"
	"weir/router/fleet"
)

// fakeProvider gives recorded answers of a provider, or a refusal.
type fakeProvider struct {
	kind    fleet.Kind
	stream  []byte // of requests for one
	whole   []byte
	status  int // of a refusal, whose body is whole; 0: none
	retry   string
	cut     int // bytes of the stream, behind which the connection breaks; 0: none
	asked   atomic.Pointer[[]byte]
	headers atomic.Pointer[http.Header]
	path    atomic.Pointer[string]
	calls   atomic.Int64
}

var streamTypes = map[fleet.Kind]string{fleet.Anthropic: "text/event-stream; charset=utf-8", fleet.Gemini: "text/event-stream", fleet.Bedrock: "application/vnd.amazon.eventstream"}

func (p *fakeProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	header, path := r.Header.Clone(), r.URL.RequestURI()
	p.asked.Store(&body)
	p.headers.Store(&header)
	p.path.Store(&path)
	p.calls.Add(1)
	streamed := strings.Contains(string(body), `"stream":true`) || strings.Contains(path, "tream")
	switch {
	case p.status != 0:
		if p.retry != "" {
			w.Header().Set("Retry-After", p.retry)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(p.status)
		_, _ = w.Write(p.whole)
	case !streamed:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(p.whole)
	default:
		w.Header().Set("Content-Type", streamTypes[p.kind])
		if p.cut == 0 {
			_, _ = w.Write(p.stream)
			return
		}
		_, _ = w.Write(p.stream[:p.cut])
		w.(http.Flusher).Flush() //nolint:forcetypeassert // it always is one
		panic(http.ErrAbortHandler)
	}
}

func recordedBy(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "router", "provider", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// providerRig is an edge whose model "front" is a provider's.
func providerRig(t *testing.T, p *fakeProvider) (r *rig, finished chan edge.RequestFinish) {
	t.Helper()
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	c := DefaultConfig()
	finished = make(chan edge.RequestFinish, 1)
	c.Hooks.OnRequestFinish = func(f edge.RequestFinish) { finished <- f }
	r = relayRigOf(t, c, fleet.Source{URL: server.URL, Kind: p.kind})
	t.Cleanup(r.close)
	return r, finished
}

// usageOfAny reads the last usage of an answer in the words of any of the three APIs: the prompt's tokens and the answer's.
func usageOfAny(t *testing.T, text string) (prompt, output int) {
	t.Helper()
	type used struct {
		Prompt  int `json:"prompt_tokens"`
		Output  int `json:"completion_tokens"`
		Input   int `json:"input_tokens"`
		Read    int `json:"cache_read_input_tokens"`
		Written int `json:"cache_creation_input_tokens"`
		Out     int `json:"output_tokens"`
	}
	for line := range strings.SplitSeq(text, "\n") {
		var said struct {
			Usage    *used
			Response struct{ Usage *used }
		}
		if json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &said) != nil {
			continue
		}
		for _, u := range []*used{said.Usage, said.Response.Usage} {
			if u != nil {
				prompt, output = u.Prompt+u.Input+u.Read+u.Written, u.Output+u.Out
			}
		}
	}
	return prompt, output
}

// oneLine is JSON without line ends between its values.
func oneLine(t *testing.T, data []byte) []byte {
	t.Helper()
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// providerAnswers are recorded answers and what all clients are told of them.
var providerAnswers = []struct {
	kind                   fleet.Kind
	stream, whole          string
	says                   []string // of a stream
	saysWhole              []string
	prompt, output         int // of a stream
	promptWhole, outWhole  int
	chat, message, replies string // why it ended, by API
}{
	{kind: fleet.Anthropic, stream: "anthropic/text.sse", whole: "anthropic/text.json", says: []string{"Hello", " there anything I can help you with?"},
		saysWhole: []string{"Hello! I'm doing well, thanks for asking."}, prompt: 12, output: 30, promptWhole: 12, outWhole: 29, chat: "stop", message: "end_turn", replies: "completed"},
	{kind: fleet.Anthropic, stream: "anthropic/json-other-tool.sse", whole: "anthropic/tool-no-args.json", says: []string{"weather", `San Francisco`}, saysWhole: []string{"updateIssueList"},
		prompt: 843, output: 28, promptWhole: 602, outWhole: 93, chat: "tool_calls", message: "tool_use", replies: "completed"},
	{kind: fleet.Gemini, stream: "gemini/text.sse", whole: "gemini/text.json", says: []string{"There are **3**", "awbe**rr**y"}, saysWhole: []string{"Here is the breakdown"},
		prompt: 9, output: 208, promptWhole: 9, outWhole: 272, chat: "stop", message: "end_turn", replies: "completed"},
	{kind: fleet.Gemini, stream: "gemini/tool-call.sse", whole: "gemini/tool-call.json", says: []string{"weather", "San Francisco"}, saysWhole: []string{"weather", "San Francisco"},
		prompt: 29, output: 60, promptWhole: 29, outWhole: 908, chat: "tool_calls", message: "tool_use", replies: "completed"},
	{kind: fleet.Bedrock, stream: "bedrock/thinking.eventstream", whole: "bedrock/text.json", says: []string{" user has", "How can I help"}, saysWhole: []string{"Let me count"},
		prompt: 36, output: 73, promptWhole: 22, outWhole: 57, chat: "stop", message: "end_turn", replies: "completed"},
	{kind: fleet.Bedrock, stream: "bedrock/call.eventstream", whole: "bedrock/tool-call.json", says: []string{"get_temperature", "Paris"}, saysWhole: []string{"bash", "ls -l"},
		prompt: 471, output: 91, promptWhole: 10, outWhole: 20, chat: "tool_calls", message: "tool_use", replies: "completed"},
}

// TestProvidersAnswerEveryClient: clients of chats, of Messages and of Responses are answered by a provider in their own words, and the
// usage that is charged is the one that they are told.
func TestProvidersAnswerEveryClient(t *testing.T) {
	for _, tc := range providerAnswers {
		for _, path := range []string{routeChat, routeMessages, routeResponses} {
			for _, streamed := range []bool{false, true} {
				t.Run(fmt.Sprint(tc.stream, path, streamed), func(t *testing.T) {
					p := &fakeProvider{kind: tc.kind, stream: recordedBy(t, tc.stream), whole: oneLine(t, recordedBy(t, tc.whole))}
					r, finished := providerRig(t, p)
					body := map[string]string{
						routeChat:      `{"model":"front","messages":[{"role":"user","content":"Hello"}],"stream_options":{"include_usage":true},"stream":%v}`,
						routeMessages:  `{"model":"front","max_tokens":100,"messages":[{"role":"user","content":"Hello"}],"stream":%v}`,
						routeResponses: `{"model":"front","input":"Hello","store":false,"stream":%v}`,
					}[path]
					status, text := r.post(path, fmt.Sprintf(body, streamed))
					f := <-finished
					says, prompt, output := tc.saysWhole, tc.promptWhole, tc.outWhole
					if streamed {
						says, prompt, output = tc.says, tc.prompt, tc.output
					}
					for _, want := range append(says, map[string]string{routeChat: tc.chat, routeMessages: tc.message, routeResponses: tc.replies}[path]) {
						if status != http.StatusOK || !strings.Contains(text, want) {
							t.Errorf("%d, without %q: %s", status, want, text)
						}
					}
					gotPrompt, gotOutput := usageOfAny(t, text)
					if gotPrompt != prompt || gotOutput != output || f.PromptTokens != prompt || f.OutputTokens != output || f.Estimated {
						t.Errorf("the client is told %d and %d tokens, %d and %d are charged, want %d and %d: %s", gotPrompt, gotOutput, f.PromptTokens, f.OutputTokens, prompt, output, text)
					}
					if h := *p.headers.Load(); h.Get("X-Weir-Deadline-Ms") != "" || h.Get("Traceparent") != "" || h.Get("User-Agent") != "weir" {
						t.Errorf("sent %v", h)
					}
				})
			}
		}
	}
}

// TestMessagesPassToAnthropicAsTheyAre: a client of Messages speaks with Anthropic's API itself; only the key and the model's name are changed.
func TestMessagesPassToAnthropicAsTheyAre(t *testing.T) {
	p := &fakeProvider{kind: fleet.Anthropic, stream: recordedBy(t, "anthropic/thinking.sse")}
	r, finished := providerRig(t, p)
	const sent = `"max_tokens":100,"thinking":{"type":"enabled","budget_tokens":1024},"system":[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}]}],"stream":true`
	res, text := r.do("POST", routeMessages, "x-api-key: own\r\nanthropic-version: 2026-10-21\r\nanthropic-beta: a-1,b-2\r\n", `{"model":"front",`+sent+`}`)
	<-finished
	if got := string(*p.asked.Load()); got != `{"model":"test-model",`+sent+`}` {
		t.Errorf("sent %s", got)
	}
	h := *p.headers.Load()
	if h.Get("X-Api-Key") != "sk-upstream" || h.Get("Authorization") != "" || h.Get("Anthropic-Version") != "2026-10-21" || h.Get("Anthropic-Beta") != "a-1,b-2" || *p.path.Load() != "/v1/messages" {
		t.Errorf("%s %v", *p.path.Load(), h)
	}
	if res.StatusCode != http.StatusOK || !strings.Contains(text, "signature_delta") || !strings.Contains(text, `"model":"front"`) || !strings.Contains(text, "message_stop") {
		t.Errorf("%d %s", res.StatusCode, text)
	}
}

// TestProviderStreamsThatAreCut: of a stream that breaks off the client hears, and what was delivered is charged.
func TestProviderStreamsThatAreCut(t *testing.T) {
	for _, tc := range providerAnswers {
		for _, path := range []string{routeChat, routeMessages} {
			whole := recordedBy(t, tc.stream)
			p := &fakeProvider{kind: tc.kind, stream: whole, cut: len(whole) * 3 / 4}
			r, finished := providerRig(t, p)
			_, text := r.post(path, `{"model":"front","max_tokens":9,"messages":[{"role":"user","content":"Hello"}],"stream":true}`)
			f := <-finished
			if !strings.Contains(text, `"error"`) || strings.Contains(text, "[DONE]") || strings.Contains(text, "message_stop") || f.OutputTokens == 0 || f.Status == http.StatusOK {
				t.Errorf("%s %s: %d tokens, status %d: %s", tc.stream, path, f.OutputTokens, f.Status, text)
			}
		}
	}
}

// TestProviderRefusals: what a provider cannot do is said by field in the client's own words, and never sent.
func TestProviderRefusals(t *testing.T) {
	p := &fakeProvider{kind: fleet.Anthropic}
	r, finished := providerRig(t, p)
	for _, tc := range []struct{ path, body, wants string }{
		{routeChat, `{"model":"front","messages":[{"role":"user","content":"x"}],"n":3}`, `"param":"n"`},
		{routeChat, `{"model":"front","messages":[{"role":"user","content":"x"}],"logprobs":true,"stream":true}`, `"param":"logprobs"`},
		{routeCompletions, `{"model":"front","prompt":"x"}`, `answers chats`},
	} {
		status, text := r.post(tc.path, tc.body)
		<-finished
		if status != http.StatusBadRequest || !strings.Contains(text, tc.wants) || !strings.Contains(text, `"unsupported_`) || p.calls.Load() != 0 {
			t.Errorf("%s: %d %s", tc.body, status, text)
		}
	}
	p.whole = oneLine(t, recordedBy(t, "anthropic/text.json"))
	res, text := r.do("POST", routeChat, "", `{"model":"front","messages":[{"role":"user","content":"x"}],"seed":7,"min_p":0.1}`)
	<-finished
	if got := res.Header.Get("X-Weir-Warnings"); res.StatusCode != http.StatusOK || !strings.Contains(got, "ignored seed") || !strings.Contains(got, "ignored min_p") {
		t.Errorf("%d %q %s", res.StatusCode, got, text)
	}
}

// TestProviderErrors: an error of a provider has the status of its kind, whatever API the client speaks, and the time to wait.
func TestProviderErrors(t *testing.T) {
	for _, tc := range []struct {
		status        int
		kind, message string
		want          int
	}{
		{400, "invalid_request_error", "max_tokens: too large", 400}, {401, "authentication_error", "invalid x-api-key", 502}, {404, "not_found_error", "model: x", 502},
		{429, "rate_limit_error", "slow down", 429}, {529, "overloaded_error", "Overloaded", 503}, {500, "api_error", "oops", 500},
		{400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API", 502},
	} {
		for _, path := range []string{routeChat, routeMessages, routeResponses} {
			body := fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%q}}`, tc.kind, tc.message)
			p := &fakeProvider{kind: fleet.Anthropic, status: tc.status, whole: []byte(body), retry: "17"}
			r, finished := providerRig(t, p)
			asked := `{"model":"front","max_tokens":9,"messages":[{"role":"user","content":"x"}]}`
			if path == routeResponses {
				asked = `{"model":"front","input":"x","store":false}`
			}
			res, text := r.do("POST", path, "", asked)
			f := <-finished
			want := tc.want
			if path == routeMessages && tc.status == 529 {
				want = 529 // Anthropic's own clients know it
			}
			if res.StatusCode != want || want < 500 && !strings.Contains(text, tc.message) || f.Status != want {
				t.Errorf("%s %d %s: %d %s", path, tc.status, tc.kind, res.StatusCode, text)
			}
			if (want == 429 || want == 503 || want == 529) && res.Header.Get("Retry-After") != "17" {
				t.Errorf("%s %d: Retry-After %q", path, want, res.Header.Get("Retry-After"))
			}
		}
	}
}
