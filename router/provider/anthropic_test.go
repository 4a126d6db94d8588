package provider

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestAnthropicRequest: the request is what Anthropic's own SDK sends for the same conversation.
func TestAnthropicRequest(t *testing.T) {
	sameJSON(t, requestOf(t, Anthropic, "claude-sonnet-4-5", conversation), `{
		"model":"claude-sonnet-4-5","max_tokens":300,"stream":true,"temperature":1,"top_p":0.9,"stop_sequences":["END","FIN"],"metadata":{"user_id":"u1"},
		"system":"Be brief.\n\nBe kind.",
		"messages":[
			{"role":"user","content":[{"type":"text","text":"What is this, and how warm is it in Rome and in Oslo?"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}]},
			{"role":"assistant","content":[{"type":"tool_use","id":"call_1","name":"weather","input":{"city":"Rome"}},{"type":"tool_use","id":"call_2","name":"weather","input":{"city":"Oslo"}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"25"},{"type":"tool_result","tool_use_id":"call_2","content":"-3"},{"type":"text","text":"Go on."}]}],
		"tools":[{"name":"weather","description":"The weather","input_schema":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}},{"name":"now","input_schema":{"type":"object","properties":{}}}],
		"tool_choice":{"type":"any","disable_parallel_tool_use":true}}`)
}

// TestAnthropicThinking: how much a chat shall think is said in the words of the model's generation; a history of another model's calls
// turns it off, since the API would refuse it.
func TestAnthropicThinking(t *testing.T) {
	const user = `{"role":"user","content":"Hi"}`
	const called = user + `,{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":""}}]},{"role":"tool","tool_call_id":"a","content":""}`
	signed := strings.Replace(called, `"tool_calls"`, `"thinking_blocks":[{"type":"thinking","thinking":"So","signature":"sig"},{"type":"redacted_thinking","data":"xx"}],"tool_calls"`, 1)
	for _, tc := range []struct{ model, messages, fields, want string }{
		{"claude-sonnet-4-5", user, `"reasoning_effort":"high","max_tokens":100,"temperature":0.5`, `"thinking":{"type":"enabled","budget_tokens":16384},"max_tokens":16484`},
		{"claude-sonnet-4-5", user, `"thinking_token_budget":2000,"max_tokens":9000`, `"thinking":{"type":"enabled","budget_tokens":2000},"max_tokens":9000`},
		{"claude-opus-5", user, `"reasoning_effort":"minimal","max_tokens":100`, `"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"low"},"max_tokens":100`},
		{"claude-opus-5", user, `"reasoning_effort":"none","max_tokens":100`, `"thinking":{"type":"disabled"},"max_tokens":100`},
		{"claude-opus-5", user, `"max_tokens":100`, `"max_tokens":100`},
		{"claude-opus-5", called, `"reasoning_effort":"low","max_tokens":100`, `"output_config":{"effort":"low"},"max_tokens":100`},
		{"claude-opus-5", signed, `"chat_template_kwargs":{"enable_thinking":true},"max_tokens":100`, `"thinking":{"type":"adaptive","display":"summarized"},"max_tokens":100`},
		{"claude-3-haiku-20240307", user, `"stop":"x"`, `"max_tokens":4096,"stop_sequences":["x"]`},
		{"claude-3-5-haiku-latest", user, `"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{"type":"object"}}}`,
			`"max_tokens":8192,"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}}`},
		{"m", user, `"max_tokens":1,"tools":[{"type":"function","function":{"name":"f","strict":true,"parameters":{"type":"object"}}}],"tool_choice":{"type":"function","function":{"name":"f"}}`,
			`"max_tokens":1,"tools":[{"name":"f","strict":true,"input_schema":{"type":"object"}}],"tool_choice":{"type":"tool","name":"f"}`},
	} {
		got := requestOf(t, Anthropic, tc.model, `{"messages":[`+tc.messages+`],`+tc.fields+`}`)
		if strings.Contains(tc.messages, "sig") {
			sameJSON(t, got["messages"].([]any)[1], `{"role":"assistant","content":[{"type":"thinking","thinking":"So","signature":"sig"},{"type":"redacted_thinking","data":"xx"},{"type":"tool_use","id":"a","name":"f","input":{}}]}`) //nolint:forcetypeassert // it always is one
		}
		delete(got, "messages")
		delete(got, "model")
		delete(got, "stream")
		sameJSON(t, got, `{`+tc.want+`}`)
	}
}

// TestAnthropicErrors: each error of the API, as an answer and as an event of a stream, has the status of its kind.
func TestAnthropicErrors(t *testing.T) {
	for _, tc := range []struct {
		status  int
		kind    string
		message string
		want    int
	}{
		{400, "invalid_request_error", "max_tokens: too large", 400}, {401, "authentication_error", "invalid x-api-key", 401}, {402, "billing_error", "pay", 402},
		{403, "permission_error", "no", 403}, {404, "not_found_error", "model: claude-9", 404}, {413, "request_too_large", "large", 413},
		{429, "rate_limit_error", "slow down", 429}, {500, "api_error", "oops", 500}, {529, "overloaded_error", "Overloaded", 503}, {504, "timeout_error", "late", 504},
		{400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API.", 402}, {418, "new_error", "?", 418},
	} {
		body := fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%q},"request_id":"req_1"}`, tc.kind, tc.message)
		status, told := Error(Anthropic, tc.status, make(http.Header), []byte(body))
		want := fmt.Sprintf(`"message":%q`, tc.message)
		if status != tc.want || !strings.Contains(string(told), want) || !strings.Contains(string(told), `"error":{`) {
			t.Errorf("%d %s: %d %s", tc.status, tc.kind, status, told)
		}
		c, err := readStream(t, Anthropic, strings.NewReader("event: error\ndata: "+body+"\n\n"))
		if inStream := fmt.Sprintf("%d %s: %s", max(tc.want, 400), tc.kind, tc.message); err != nil || c.done || c.failed != inStream && tc.status != 418 {
			t.Errorf("%v, %+v, want %s", err, c, inStream)
		}
	}
	if status, told := Error(Anthropic, 529, make(http.Header), []byte("<html>")); status != 503 || strings.Contains(string(told), "html") {
		t.Errorf("%d %s", status, told)
	}
}

// TestAFailedServerIsNoFaultOfTheCaller: with a status of 500 or more a server has failed, whatever type its error has.
func TestAFailedServerIsNoFaultOfTheCaller(t *testing.T) {
	for _, c := range []struct {
		api  API
		body string
	}{
		{Anthropic, `{"error":{"message":"Strict mode: no fixture matched","type":"invalid_request_error"}}`}, // aimock 1.43.0
		{Gemini, `{"error":{"code":503,"message":"m","status":"INVALID_ARGUMENT"}}`},
		{Bedrock, `{"__type":"ValidationException","message":"m"}`},
	} {
		if status, _ := Error(c.api, 503, make(http.Header), []byte(c.body)); status != 503 {
			t.Errorf("%T: status %d of 503 %s", c.api, status, c.body)
		}
	}
}

func TestAnthropicUsage(t *testing.T) {
	c := readWhole(t, Anthropic, []byte(`{"type":"message","content":[{"type":"text","text":"a"}],"stop_reason":"stop_sequence","stop_sequence":"END",
		"usage":{"input_tokens":10,"cache_read_input_tokens":100,"cache_creation_input_tokens":1000,"output_tokens":7,"output_tokens_details":{"thinking_tokens":3}}}`))
	if c.usage != [4]int64{1110, 100, 7, 3} || c.reason != "stop" || c.stop != "END" {
		t.Errorf("%+v", c)
	}
}
