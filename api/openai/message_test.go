package openai

import (
	"encoding/json"
	"strings"
	"testing"

	"weir/api"
	"weir/api/openai/answer"
	"weir/api/openai/models"
	"weir/internal/inference"
)

func TestMessageEvents(t *testing.T) {
	e := encoderOf(t, &messageEndpoint, `{"messages":[{"role":"user","content":"hi"}],"max_tokens":50}`)
	text := streamed(e, thoughtsAndCalls)
	golden(t, "message_events.txt", text)
	blocks := map[string]int{}
	for line := range strings.SplitSeq(text, "\n") {
		if name, ok := strings.CutPrefix(line, "event: "); ok {
			blocks[name]++
		}
	}
	if blocks["message_start"] != 1 || blocks["content_block_start"] != 4 || blocks["content_block_stop"] != 4 || blocks["message_stop"] != 1 {
		t.Errorf("events %v", blocks)
	}
	if !strings.HasSuffix(text, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n") {
		t.Errorf("the stream ends with %q", text[len(text)-80:])
	}
	// A thought is in no block of text.
	for data := range strings.SplitSeq(text, "data: ") {
		if strings.Contains(data, "text_delta") && strings.Contains(data, "warm") {
			t.Errorf("a thought is told as text: %s", data)
		}
	}
}

func TestMessageWhole(t *testing.T) {
	d := whole(thoughtsAndCalls)
	d.Calls = append(d.Calls, answer.CallPart{Index: 2, ID: "call_3", Name: "broken", Arguments: []byte(`{"a":`)}, answer.CallPart{Index: 3, ID: "call_4", Name: "none"})
	e := encoderOf(t, &messageEndpoint, `{"messages":[{"role":"user","content":"hi"}],"max_tokens":50}`)
	text := string(e.AppendWhole(nil, []answer.Delta{d}, answer.Usage{Prompt: 9, Output: 12, Cached: 4}))
	golden(t, "message.txt", text+"\n")
	if !json.Valid([]byte(text)) {
		t.Errorf("no JSON: %s", text)
	}
}

func TestMessageStops(t *testing.T) {
	for _, tc := range []struct {
		end  answer.Delta
		want string
	}{
		{answer.Delta{Finish: inference.FinishStop}, `"stop_reason":"end_turn","stop_sequence":null`},
		{answer.Delta{Finish: inference.FinishStop, Called: true}, `"stop_reason":"tool_use","stop_sequence":null`},
		{answer.Delta{Finish: inference.FinishStop, Stopped: answer.StopReason{Text: "\"X"}}, `"stop_reason":"stop_sequence","stop_sequence":"\"X"`},
		{answer.Delta{Finish: inference.FinishLength}, `"stop_reason":"max_tokens","stop_sequence":null`},
	} {
		e := encoderOf(t, &messageEndpoint, `{"messages":[{"role":"user","content":"hi"}],"max_tokens":50}`)
		if got := streamed(e, []answer.Delta{{First: true, Content: []byte("x")}, tc.end}); !strings.Contains(got, tc.want) {
			t.Errorf("%+v gave %s", tc.end, got)
		}
	}
	long := encoderOf(t, &messageEndpoint, `{"messages":[{"role":"user","content":"hi"}],"max_tokens":5000}`)
	if got := streamed(long, []answer.Delta{{First: true, Finish: inference.FinishLength}}); !strings.Contains(got, `"model_context_window_exceeded"`) {
		t.Errorf("an answer that fills the context: %s", got)
	}
	broken := encoderOf(t, &messageEndpoint, `{"messages":[{"role":"user","content":"hi"}],"max_tokens":50}`)
	if got := string(broken.AppendFault(nil, api.Refuse("server_is_overloaded", "no \"room\""))); got !=
		"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"no \\\"room\\\"\"}}\n\n" {
		t.Errorf("a broken stream ends with %q", got)
	}
}

func TestMessagesOverHTTP(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	const prompt = `"system":[{"type":"text","text":"Be kind.","cache_control":{"type":"ephemeral"}},{"type":"text","text":"In English."}],` +
		`"messages":[{"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}]},` +
		`{"role":"assistant","content":"yes?"},{"role":"user","content":"go on"}]`
	body := `{"model":"test-model","max_tokens":30,` + prompt + `,"metadata":{"user_id":"u"},"stop_sequences":["zzz"],"temperature":0.5,"top_k":5}`
	res, whole := r.do("POST", routeMessages+"?beta=true", "Anthropic-Version: 2023-06-01\r\nAnthropic-Beta: unknown-2030\r\n", body)
	if id := res.Header.Get("Request-Id"); id == "" || id != res.Header.Get("X-Request-Id") {
		t.Errorf("Anthropic's clients are told %q, others %q", id, res.Header.Get("X-Request-Id"))
	}
	if res, _ := r.do("POST", routeMessages, "", "{}"); res.Header.Get("Request-Id") == "" {
		t.Error("a refusal has no Request-Id")
	}
	var got struct {
		ID, Type, Role string
		Content        []struct{ Type, Text string }
		StopReason     string `json:"stop_reason"`
		Usage          struct {
			Input  int `json:"input_tokens"`
			Output int `json:"output_tokens"`
		}
	}
	if err := json.Unmarshal([]byte(whole), &got); err != nil || res.StatusCode != 200 || got.Type != "message" || got.Role != "assistant" ||
		len(got.Content) != 1 || got.Content[0].Text != "Hello world" || got.StopReason != "end_turn" || got.Usage.Output != 3 {
		t.Errorf("%d %s: %v", res.StatusCode, whole, err)
	}
	if warnings := res.Header.Get("X-Weir-Warnings"); warnings != "" {
		t.Errorf("warnings: %s", warnings)
	}
	want := "<|im_start|>system\nBe kind.\nIn English.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nyes?<|im_end|>\n" +
		"<|im_start|>user\ngo on<|im_end|>\n<|im_start|>assistant\n"
	ran := r.backend.run(t, 0).req
	if text := r.backend.tok.Decode(ran.Prompt, true); text != want {
		t.Errorf("the prompt is %q, want %q", text, want)
	}
	status, counted := r.post(routeCount, `{"model":"test-model",`+prompt+`}`)
	var count struct {
		N int `json:"input_tokens"`
	}
	if err := json.Unmarshal([]byte(counted), &count); err != nil || status != 200 || count.N != len(ran.Prompt) || got.Usage.Input != count.N {
		t.Errorf("count_tokens: %d %s; the prompt has %d tokens, usage says %d", status, counted, len(ran.Prompt), got.Usage.Input)
	}
	_, stream := r.do("POST", routeMessages, "", strings.Replace(body, "{", `{"stream":true,`, 1))
	if !strings.HasPrefix(stream, "event: message_start\n") || !strings.HasSuffix(stream, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n") ||
		!strings.Contains(stream, `"text":"Hello"`) {
		t.Errorf("the stream is %s", stream)
	}
	r.post(routeMessages, `{"max_tokens":5,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"I say"}]}`)
	if text := r.backend.tok.Decode(r.backend.run(t, 2).req.Prompt, true); !strings.HasSuffix(text, "assistant\nI say") {
		t.Errorf("the prompt of an answer that has begun is %q", text)
	}
}

func TestMessagesFaults(t *testing.T) {
	c := DefaultConfig()
	const key = "sk-0123456789"
	c.APIKeys = []string{key}
	r := newRig(t, c, &fakeBackend{})
	defer r.close()
	const with = "X-Api-Key: " + key + "\r\n"
	good := `{"max_tokens":5,"messages":[{"role":"user","content":"hi"}]}`
	for _, tc := range []struct {
		header, body string
		status       int
		kind, word   string
	}{
		{"", good, 401, "authentication_error", "key"},
		{"X-Api-Key: sk-wrong-wrong\r\n", good, 401, "authentication_error", "key"},
		{"Authorization: Bearer sk-wrong-wrong\r\n" + with, good, 401, "authentication_error", "key"},
		{with, `{"messages":[{"role":"user","content":"hi"}]}`, 400, "invalid_request_error", "max_tokens"},
		{with, strings.Replace(good, "{", `{"model":"other",`, 1), 404, "not_found_error", "other"},
		{with, `{"max_tokens":5,"messages":[{"role":"user","content":[{"type":"image","source":{}}]}]}`, 400, "invalid_request_error", "messages[0].content[0].type"},
		{with + "Content-Type: text/plain\r\n", good, 415, "invalid_request_error", "Content-Type"},
	} {
		res, body := r.do("POST", routeMessages, tc.header, tc.body)
		var e struct {
			Type  string
			Error struct{ Type, Message string }
			ID    string `json:"request_id"`
		}
		if err := json.Unmarshal([]byte(body), &e); err != nil || res.StatusCode != tc.status || e.Type != "error" || e.Error.Type != tc.kind ||
			!strings.Contains(e.Error.Message, tc.word) || e.ID != res.Header.Get("X-Request-Id") {
			t.Errorf("%s %s: %d %s, %v", tc.header, tc.body, res.StatusCode, body, err)
		}
	}
	if res, body := r.do("POST", routeMessages, with, good); res.StatusCode != 200 {
		t.Errorf("with the right key: %d %s", res.StatusCode, body)
	}
}

// What is wrong with a format or a tool's schema is told in the words of Messages.
// Clients of Anthropic's API list models in its form, page by page.
func TestMessagesClientsListModels(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	var list []*models.Model
	for _, id := range []string{"a", "b", "c"} {
		list = append(list, &models.Model{ID: id, Created: 1, Upstream: &toldUpstream{}})
	}
	if err := r.openai.SetModels(list...); err != nil {
		t.Fatal(err)
	}
	const version = "Anthropic-Version: 2023-06-01\r\n"
	const b = `{"type":"model","id":"b","display_name":"b","created_at":"1970-01-01T00:00:01Z"}`
	a, c := strings.ReplaceAll(b, `"b"`, `"a"`), strings.ReplaceAll(b, `"b"`, `"c"`)
	page := func(more, first, last string, models ...string) string {
		return `{"data":[` + strings.Join(models, ",") + `],"has_more":` + more + `,"first_id":` + first + `,"last_id":` + last + `}`
	}
	for path, want := range map[string]string{
		"/v1/models":                        page("false", `"a"`, `"c"`, a, b, c),
		"/v1/models?limit=2":                page("true", `"a"`, `"b"`, a, b),
		"/v1/models?limit=2&after_id=b":     page("false", `"c"`, `"c"`, c),
		"/v1/models?limit=1&before_id=c":    page("true", `"b"`, `"b"`, b),
		"/v1/models?after_id=c":             page("false", "null", "null"),
		"/v1/models/b":                      b,
		"/v1/models?limit=0":                "limit",
		"/v1/models?limit=x":                "limit",
		"/v1/models?after_id=d":             "after_id",
		"/v1/models?after_id=a&before_id=":  "",
		"/v1/models?after_id=a&before_id=b": "before_id",
	} {
		res, body := r.do("GET", path, version, "")
		switch {
		case strings.HasPrefix(want, "{"):
			if res.StatusCode != 200 || strings.TrimSpace(body) != want {
				t.Errorf("%s: %d %s\nwant %s", path, res.StatusCode, body, want)
			}
		case want != "":
			if res.StatusCode != 400 || !strings.HasPrefix(body, `{"type":"error"`) || !strings.Contains(body, want) {
				t.Errorf("%s: %d %s\nwant a refusal of %s", path, res.StatusCode, body, want)
			}
		}
		if res, body := r.do("GET", "/v1/models", "", ""); res.StatusCode != 200 || !strings.HasPrefix(body, `{"object":"list","data":[{"id":"a","object":"model"`) {
			t.Errorf("without the field: %d %s", res.StatusCode, body)
		}
	}
}

// TestMessagesClientsReadTheirFaultsEverywhere: their library asks for models, and for paths that this server does not have, and reads one
// form of errors.
func TestMessagesClientsReadTheirFaultsEverywhere(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	const version = "Anthropic-Version: 2023-06-01\r\n"
	for _, tc := range []struct {
		method, path, header string
		own                  bool
	}{
		{"POST", "/v1/messages/batches", "", true},
		{"GET", "/v1/messages/batches/x/results?y", "", true},
		{"GET", "/v1/models/nobody", version, true},
		{"POST", "/v1/complete", version, true},
		{"GET", "/v1/models/nobody", "", false},
		{"GET", "/v1/messages-of-others", "", false},
		{"GET", "/nowhere", "", false},
	} {
		res, body := r.do(tc.method, tc.path, tc.header, "{}")
		own := strings.HasPrefix(body, `{"type":"error","error":{"type":"not_found_error","message":"`) && res.Header.Get("Request-Id") == res.Header.Get("X-Request-Id")
		if res.StatusCode != 404 || own != tc.own || !own && !strings.HasPrefix(body, `{"error":{"message":`) {
			t.Errorf("%s %s %q: %d %.200s", tc.method, tc.path, tc.header, res.StatusCode, body)
		}
	}
	if res, body := r.do("POST", routeChat, version, "{}"); res.StatusCode != 400 || !strings.HasPrefix(body, `{"error":{"message":`) {
		t.Errorf("a chat with a field of another API: %d %s", res.StatusCode, body)
	}
}

func TestMessageFaultsNameTheirOwnFields(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	longModel(r)
	const wrong = `{"type":"object","properties":{"a":{"type":"no"}},"required":["a"],"additionalProperties":false}`
	for fields, param := range map[string]string{
		`"output_config":{"format":{"type":"json_schema","schema":` + wrong + `}}`:          "output_config.format.schema#/properties/a/type",
		`"tools":[{"name":"f","strict":true,"input_schema":` + wrong + `}]`:                 "tools[0].input_schema#/properties/a/type",
		`"tools":[{"name":"a b","input_schema":{}}]`:                                        "tools[0].name",
		`"tools":[{"name":"f","input_schema":[]}]`:                                          "tools[0].input_schema",
		`"tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"tool","name":"g"}`: "tool_choice.name",
	} {
		status, body := r.post(routeMessages, `{"max_tokens":20,"messages":[{"role":"user","content":"hi"}],`+fields+`}`)
		for _, leak := range []string{"response_format", "json_schema.schema", "function", "parameters"} {
			if strings.Contains(body, leak) {
				t.Errorf("%s: %s speaks of %s", fields, body, leak)
			}
		}
		own, _, _ := strings.Cut(param, "#")
		if status != 400 || !strings.Contains(body, own) {
			t.Errorf("%s: %d %s, want %s", fields, status, body, param)
		}
	}
}
