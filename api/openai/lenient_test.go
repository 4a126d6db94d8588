package openai

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// ignored are requests with something that changes no answer: served with a
// warning that names it, or refused where the server is strict.
var ignored = []struct {
	path, body  string
	warning     string // the whole header
	param, code string // of the strict server's refusal
}{
	{routeChat, chatWith(`"tool_choices":1`), `ignored "tool_choices"`, "tool_choices", "unknown_parameter"},
	{routeChat, chatWith(`"":1`), `ignored ""`, "", "unknown_parameter"},
	{routeChat, chatWith(`"Seed":1`), `ignored "Seed"`, "Seed", "unknown_parameter"},
	{routeChat, chatWith(`"cache_prompt":true`), `ignored "cache_prompt"`, "cache_prompt", "unknown_parameter"},
	{routeChat, chatWith(`"thinking":{"type":"disabled"}`), `ignored "thinking"`, "thinking", "unknown_parameter"},
	{routeChat, chatWith(`"keep_alive":"5m","chat_id":"a"`), `ignored "keep_alive", ignored "chat_id"`, "keep_alive", "unknown_parameter"},
	{routeChat, chatWith(`"usage":{"include":true}`), `ignored "usage"`, "usage", "unknown_parameter"},
	{routeChat, chatWith(`"tool_choice":"auto","parallel_tool_calls":true`), `ignored "tool_choice", ignored "parallel_tool_calls"`, "tool_choice", "invalid_value"},
	{routeChat, chatWith(`"function_call":"auto"`), `ignored "function_call"`, "function_call", "unsupported_parameter"},
	{routeChat, chatWith(`"verbosity":"low"`), `ignored "verbosity"`, "verbosity", "unsupported_parameter"},
	{routeChat, chatWith(`"service_tier":"gold"`), `ignored "service_tier"`, "service_tier", "invalid_value"},
	{routeChat, chatWith(`"user":1`), `ignored "user"`, "user", "invalid_type"},
	{routeChat, chatWith(`"metadata":{"a":1}`), `ignored "metadata"`, "metadata.a", "invalid_type"},
	{routeChat, chatWith(`"metadata":"x"`), `ignored "metadata"`, "metadata", "invalid_type"},
	{routeChat, chatWith(`"stream_options":{"include_usage":true}`), `ignored "stream_options"`, "stream_options", "invalid_value"},
	{routeChat, message(`{"role":"user","content":"hi","foo":1}`), `ignored "messages[].foo"`, "messages[0].foo", "unknown_parameter"},
	{routeChat, message(`{"role":"user","content":"a","foo":1},{"role":"user","content":"b","foo":2}`), `ignored "messages[].foo"`, "messages[0].foo", "unknown_parameter"},
	{routeChat, message(`{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]}`),
		`ignored "messages[].content[].cache_control"`, "messages[0].content[0].cache_control", "unknown_parameter"},
	{routeCompletions, textWith(`"top_logprobs":1`), `ignored "top_logprobs"`, "top_logprobs", "unknown_parameter"},
	{routeCompletions, textWith(`"foo\r\nbar":1`), `ignored "foo\r\nbar"`, "foo\r\nbar", "unknown_parameter"},
	{routeResponses, `{"input":"hi","text":{"verbosity":"low"}}`, `ignored "text.verbosity"`, "text.verbosity", "unsupported_parameter"},
	{routeResponses, `{"input":"hi","verbosity":"low"}`, `ignored "verbosity"`, "verbosity", "unsupported_parameter"},
	{routeResponses, `{"input":"hi","metadata":{"a":1}}`, `ignored "metadata"`, "metadata.a", "invalid_type"},
	{routeResponses, `{"input":"hi","safety_identifier":1}`, `ignored "safety_identifier"`, "safety_identifier", "invalid_type"},
	{routeResponses, `{"input":"hi","thinking_token_budget":5}`, `ignored "thinking_token_budget"`, "thinking_token_budget", "unsupported_parameter"},
	{routeResponses, `{"input":"hi","max_tool_calls":5}`, `ignored "max_tool_calls"`, "max_tool_calls", "unsupported_parameter"},
	{routeResponses, `{"input":[{"role":"user","content":"hi","foo":1}]}`, `ignored "input[].foo"`, "input[0].foo", "unknown_parameter"},
	{routeResponses, `{"input":"hi","reasoning":{"foo":1}}`, `ignored "reasoning.foo"`, "reasoning.foo", "unknown_parameter"},
	{routeTokenize, `{"prompt":"a","foo":1}`, `ignored "foo"`, "foo", "unknown_parameter"},
	{routeTemplate, chatWith(`"stream":true`), `ignored "stream"`, "stream", "unknown_parameter"},
}

func TestHarmlessFieldsAreIgnoredByName(t *testing.T) {
	strict := DefaultConfig()
	strict.Strict = true
	for _, c := range []Config{DefaultConfig(), strict} {
		r := newRig(t, c, &fakeBackend{})
		for _, tc := range ignored {
			res, body := r.do(http.MethodPost, tc.path, "", tc.body)
			if !c.Strict {
				if got := res.Header.Get("X-Weir-Warnings"); res.StatusCode != 200 || got != tc.warning {
					t.Errorf("%s %.100s\n got %d, warnings %s: %.200s\nwant 200, warnings %s", tc.path, tc.body, res.StatusCode, got, body, tc.warning)
				}
				continue
			}
			if res.StatusCode != 400 {
				t.Errorf("strict: %s %.100s: %d", tc.path, tc.body, res.StatusCode)
				continue
			}
			if param, code, text := parseError(t, body); param != tc.param || code != tc.code {
				t.Errorf("strict: %s %.100s\n got param %q code %q: %s\nwant param %q code %q", tc.path, tc.body, param, code, text, tc.param, tc.code)
			}
		}
		r.close()
	}
}

// A stream's options and header behave as those of a whole answer.
func TestStreamOptionsAreIgnoredByName(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	res, body := r.do(http.MethodPost, routeChat, "", chatWith(`"stream":true,"stream_options":{"foo":1,"include_obfuscation":true}`))
	const want = `ignored "stream_options.include_obfuscation", ignored "stream_options.foo"`
	if got := res.Header.Get("X-Weir-Warnings"); res.StatusCode != 200 || got != want {
		t.Errorf("got %d, warnings %s: %s", res.StatusCode, got, body)
	}
}

// The header stays one line of bounded length whatever a client sends.
func TestWarningsAreBounded(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	var b strings.Builder
	for i := range 200 {
		fmt.Fprintf(&b, `,"field-%d-%s":1`, i, strings.Repeat("é", 100))
	}
	res, body := r.do(http.MethodPost, routeChat, "", `{`+hi+b.String()+`}`)
	got := res.Header.Get("X-Weir-Warnings")
	if res.StatusCode != 200 || len(got) > 2000 || !strings.HasSuffix(got, "more") {
		t.Errorf("%d, %d bytes of warnings %s: %s", res.StatusCode, len(got), got, body)
	}
	for _, c := range []byte(got) {
		if c < ' ' || c > '~' {
			t.Fatalf("warnings hold byte %#x: %q", c, got)
		}
	}
}

// Habits of clients that mean no harm.
func TestHabitsOfClientsPass(t *testing.T) {
	b := &fakeBackend{}
	r := newRig(t, DefaultConfig(), b)
	defer r.close()
	for _, body := range []string{
		"\ufeff" + `{` + hi + `}`,
		chatWith(`"n":1.0,"max_tokens":1e1,"top_k":4.0,"seed":-5.00`),
		chatWith(`"max_tokens":100e-1,"min_tokens":0.2e1`),
		chatWith(`"top_logprobs":0`),
		chatWith(`"top_logprobs":0,"logprobs":false`),
		chatWith(`"stop":["0","1","2","3","4","5","6","7","8","9","a","b","c","d","e","f"]`),
		chatWith(`"temperature":null,"foo":null,"tools":null,"stream_options":null,"n":null,"user":null,"metadata":null,"logit_bias":null`),
		chatWith(`"stream":true,"stream_options":{"include_usage":null,"foo":null}`),
		message(`{"role":"user","content":"hi","name":null,"tool_calls":null,"refusal":null,"audio":null,"foo":null}`),
	} {
		res, answer := r.do(http.MethodPost, routeChat, "", body)
		if got := res.Header.Get("X-Weir-Warnings"); res.StatusCode != 200 || got != "" {
			t.Errorf("%s: %d, warnings %q: %s", body, res.StatusCode, got, answer)
		}
	}
	if q := b.runs[1].req; q.N != 1 || q.MaxTokens != 10 || q.Sampling.TopK != 4 || q.Sampling.Seed != uint64(1<<64-5) {
		t.Errorf("request %+v", q)
	}
	if q := b.runs[2].req; q.MaxTokens != 10 || q.MinTokens != 2 {
		t.Errorf("request %+v", q)
	}
}

// Warnings of requests that are read as chats name the fields of their own API, and so do the refusals of a strict server.
func TestTranslatedRequestsAreWarnedByTheirOwnNames(t *testing.T) {
	const message, response = `{"max_tokens":5,"messages":[{"role":"user","content":"hi"}],`, `{"input":"hi",`
	strict := DefaultConfig()
	strict.Strict = true
	for _, c := range []Config{DefaultConfig(), strict} {
		r := newRig(t, c, &fakeBackend{})
		longModel(r)
		for _, tc := range []struct{ path, body, field, warning string }{
			{routeMessages, message + `"thinking":{"type":"enabled","budget_tokens":1024}}`, "thinking.budget_tokens", ""},
			{routeMessages, message + `"thinking_token_budget":5}`, "thinking_token_budget", ""}, // a field of weir's own beside Anthropic's
			{routeMessages, message + `"thinking":{"type":"adaptive","foo":1}}`, "thinking.foo", ""},
			{routeMessages, message + `"output_config":{"foo":1}}`, "output_config.foo", ""},
			{routeMessages, message + `"metadata":{"user_id":1}}`, "metadata", ""},
			{routeMessages, message + `"tool_choice":{"type":"auto"}}`, "tool_choice", ""},
			{routeMessages, message + `"tools":[{"name":"f","input_schema":{},"foo":1}]}`, "tools[].foo", ""},
			{routeMessages, message + `"output_config":{"effort":"zzz"}}`, "", `output_config.effort "zzz" is not one of none minimal low medium high xhigh max`},
			{routeResponses, response + `"reasoning":{"effort":"zzz"}}`, "", `reasoning.effort "zzz" is not one of none minimal low medium high xhigh max`},
			{routeResponses, response + `"reasoning_effort":"zzz"}`, "", `reasoning_effort "zzz" is not one of none minimal low medium high xhigh max`},
			{routeChat, chatWith(`"reasoning_effort":"zzz"`), "", `reasoning_effort "zzz" is not one of none minimal low medium high xhigh max`},
			{routeResponses, response + `"tools":[{"type":"function","name":"f","foo":1}]}`, "tools[].foo", ""},
		} {
			if tc.warning == "" {
				tc.warning = `ignored "` + tc.field + `"`
			}
			res, body := r.do(http.MethodPost, tc.path, "", tc.body)
			if named := strings.ReplaceAll(tc.field, "[]", "[0]"); c.Strict && tc.field != "" {
				if res.StatusCode != 400 || !strings.Contains(body, named) {
					t.Errorf("strict: %s %s: %d %s, want %s", tc.path, tc.body, res.StatusCode, body, named)
				}
				continue
			}
			if got := res.Header.Get("X-Weir-Warnings"); res.StatusCode != 200 || got != tc.warning {
				t.Errorf("%s %s: %d %.300s\n got warnings %s\nwant warnings %s", tc.path, tc.body, res.StatusCode, body, got, tc.warning)
			}
		}
		r.close()
	}
}
