package openai

import (
	"encoding/json"
	"strings"
	"testing"

	"weir/api/openai/job"
	"weir/api/openai/toolset"
	"weir/api/openai/translation"
)

func input(item string) string { return `{"input":[` + item + `]}` }

func blocks(role, block string) string {
	return `{"max_tokens":5,"messages":[{"role":"user","content":"hi"},{"role":"` + role + `","content":[` + block + `]}]}`
}

// refusedRewordings are requests whose refusal must name the field that the client sent.
var refusedRewordings = []struct{ path, body, param, code string }{
	{routeResponses, `{}`, "input", "missing_required_parameter"},
	{routeResponses, `{"input":7}`, "input", "invalid_type"},
	{routeResponses, `{"input":[]}`, "input", "invalid_value"},
	{routeResponses, input(`7`), "input[0]", "invalid_type"},
	{routeResponses, input(`{"content":"hi"}`), "input[0].role", "missing_required_parameter"},
	{routeResponses, input(`{"role":"robot","content":"hi"}`), "input[0].role", "invalid_value"},
	{routeResponses, input(`{"role":"user"}`), "input[0].content", "missing_required_parameter"},
	{routeResponses, input(`{"role":"user","content":[{"type":"input_image","image_url":"x"}]}`), "input[0].content[0].type", "unsupported_parameter"},
	{routeResponses, input(`{"role":"user","content":[{"type":"input_text"}]}`), "input[0].content[0].text", "missing_required_parameter"},
	{routeResponses, input(`{"type":"item_reference","id":"x"}`), "input[0].type", "unsupported_parameter"},
	{routeResponses, input(`{"type":"web_search_call","id":"x"}`), "input[0].type", "unsupported_parameter"},
	{routeResponses, input(`{"type":"function_call","name":"f","arguments":"{}"}`), "input[0].call_id", "missing_required_parameter"},
	{routeResponses, input(`{"type":"function_call_output","call_id":"c"}`), "input[0].output", "missing_required_parameter"},
	{routeResponses, input(`{"role":"user","content":"x"},{"type":"function_call_output","call_id":"c","output":"r"}`), "input[1].call_id", "invalid_value"},
	{routeResponses, input(`{"role":"user","content":"x"},{"role":"assistant","content":"y"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},` +
		`{"type":"function_call","call_id":"","name":"f","arguments":"{}"}`), "input[3].call_id", "missing_required_parameter"},
	{routeResponses, input(`{"type":"custom_tool_call","call_id":"c","name":"","input":"{}"}`), "input[0].name", "missing_required_parameter"},
	{routeResponses, input(`{"role":"developer","content":"x"},{"role":"user","content":"raise"}`), "input", "template_error"},
	{routeResponses, `{"input":"` + strings.Repeat("x", 300) + `"}`, "input", "context_length_exceeded"},
	{routeResponses, `{"input":"hi","instructions":[]}`, "instructions", "unsupported_parameter"},
	{routeResponses, `{"input":"hi","messages":[]}`, "messages", "unsupported_parameter"},
	{routeResponses, `{"input":"hi","prompt":{"id":"p"}}`, "prompt", "unsupported_parameter"},
	{routeResponses, `{"input":"hi","max_output_tokens":0}`, "max_output_tokens", "invalid_value"},
	{routeResponses, `{"input":"hi","max_output_tokens":"x"}`, "max_output_tokens", "invalid_type"},
	{routeResponses, `{"input":"hi","temperature":3}`, "temperature", "invalid_value"},
	{routeResponses, `{"input":"hi","n":2}`, "n", "unsupported_parameter"},
	{routeResponses, `{"input":"hi","include":"x"}`, "include", "invalid_type"},
	{routeResponses, `{"input":"hi","reasoning":7}`, "reasoning", "invalid_type"},
	{routeResponses, `{"input":"hi","text":{"format":{"type":"json_schema"}}}`, "", ""},
	{routeResponses, `{"input":"hi","text":{"format":7}}`, "text.format", "invalid_type"},
	{routeResponses, `{"input":"hi","text":{"format":{}}}`, "text.format.type", "missing_required_parameter"},
	{routeResponses, `{"input":"hi","tools":[{"type":"web_search"}]}`, "tools[0].type", "unsupported_parameter"},
	{routeResponses, `{"input":"hi","tools":[{"type":"bingo"},{"type":"function","name":"f"}]}`, "tools[0].type", "unsupported_parameter"},
	{routeResponses, `{"input":"hi","tools":[{"type":"mcp"},{"type":"function","name":"a b"}]}`, "tools[1].name", "invalid_value"},
	{routeResponses, `{"input":"hi","tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"a b"}]}]}`, "tools[0].tools[0].name", "invalid_value"},
	{routeResponses, `{"input":"hi","tools":[{"type":"namespace","name":"n"}]}`, "tools[0].tools", "missing_required_parameter"},
	{routeResponses, `{"input":"hi","tools":[{"type":"function"}]}`, "tools[0].name", "missing_required_parameter"},
	{routeResponses, `{"input":"hi","tools":[{"type":"function","name":"a b"}]}`, "tools[0].name", "invalid_value"},
	{routeResponses, `{"input":"hi","tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"function","name":"g"}}`, "tool_choice.name", "invalid_value"},
	{routeResponses, `{"input":"hi","tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"mcp"}}`, "tool_choice.type", "unsupported_parameter"},
	{routeResponses, `{"input":"hi","tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"g"}]}}`,
		"tool_choice.tools[0].name", "invalid_value"},

	{routeMessages, `{"max_tokens":5}`, "messages", "missing_required_parameter"},
	{routeMessages, `{"max_tokens":5,"messages":[]}`, "messages", "invalid_value"},
	{routeMessages, `{"messages":[{"role":"user","content":"hi"}]}`, "max_tokens", "missing_required_parameter"},
	{routeMessages, `{"max_tokens":0,"messages":[{"role":"user","content":"hi"}]}`, "max_tokens", "invalid_value"},
	{routeMessages, `{"max_tokens":5,"messages":[{"role":"tool","content":"hi"}]}`, "messages[0].role", "invalid_value"},
	{routeMessages, `{"max_tokens":5,"messages":[{"role":"user"}]}`, "messages[0].content", "missing_required_parameter"},
	{routeMessages, `{"max_tokens":5,"messages":[{"role":"user","content":{}}]}`, "messages[0].content", "invalid_type"},
	{routeMessages, `{"max_tokens":5,"system":"s","messages":[{"role":"user","content":"` + strings.Repeat("x", 300) + `"}]}`, "messages", "context_length_exceeded"},
	{routeMessages, blocks("user", `{"type":"image","source":{}}`), "messages[1].content[0].type", "unsupported_parameter"},
	{routeMessages, blocks("user", `{"type":"tool_use","id":"a","name":"f","input":{}}`), "messages[1].content[0].type", "unsupported_parameter"},
	{routeMessages, blocks("assistant", `{"type":"tool_result","tool_use_id":"a"}`), "messages[1].content[0].type", "unsupported_parameter"},
	{routeMessages, blocks("assistant", `{"type":"tool_use","id":"a","name":"f","input":[]}`), "messages[1].content[0].input", "invalid_type"},
	{routeMessages, blocks("assistant", `{"type":"text","text":"x"},{"type":"tool_use","id":"","name":"f","input":{}}`), "messages[1].content[1].id", "missing_required_parameter"},
	{routeMessages, blocks("assistant", `{"type":"tool_use","id":"a","name":"","input":{}}`), "messages[1].content[0].name", "missing_required_parameter"},
	{routeMessages, blocks("user", `{"type":"tool_result","tool_use_id":"a"}`), "messages[1].content[0].tool_use_id", "invalid_value"},
	{routeMessages, blocks("user", `{"type":"text"}`), "messages[1].content[0].text", "missing_required_parameter"},
	{routeMessages, `{"max_tokens":5,"messages":[{"role":"user","content":"hi"}],"stop_sequences":[""]}`, "stop_sequences[0]", "invalid_value"},
	{routeMessages, `{"max_tokens":5,"messages":[{"role":"user","content":"hi"}],"thinking":{"type":"deep"}}`, "thinking.type", "invalid_value"},
	{routeMessages, `{"max_tokens":5,"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"f"}]}`, "tools[0].input_schema", "missing_required_parameter"},
	{routeMessages, `{"max_tokens":5,"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"web_search_20250305","name":"web_search"}]}`, "tools[0].type", "unsupported_parameter"},
	{routeMessages, `{"max_tokens":5,"messages":[{"role":"user","content":"hi"}],"tool_choice":{"type":"all"}}`, "tool_choice.type", "invalid_value"},
	{routeMessages, `{"max_tokens":5,"messages":[{"role":"user","content":"hi"}],"mcp_servers":[{}]}`, "mcp_servers", "unsupported_parameter"},
	{routeMessages, `{"max_tokens":5,"messages":[{"role":"user","content":"hi"}],"thread":{"type":"new"}}`, "thread", "thread_unsupported_request"},
}

// Responses and Messages are refused in the words of their clients, not in those of the
// chat that they are read into.
func TestRewordingsAreRefusedByTheClientsNames(t *testing.T) {
	s := newServer(t, DefaultConfig(), &fakeBackend{})
	for _, tc := range refusedRewordings {
		e := &responseEndpoint
		if tc.path == routeMessages {
			e = &messageEndpoint
		}
		o, fault := job.ReadBody([]byte(tc.body), false)
		if fault != nil {
			t.Fatal(fault)
		}
		_, fault = e.read(s.config.reader(), o, testModel(t, &fakeBackend{tok: mustTokenizer(t)}))
		switch {
		case fault == nil:
			t.Errorf("%s %.200s is taken", tc.path, tc.body)
		case tc.code == "": // however it is refused
		case fault.Param != tc.param || fault.Code != tc.code:
			t.Errorf("%s %.200s: %s of %q, want %s of %q: %s", tc.path, tc.body, fault.Code, fault.Param, tc.code, tc.param, fault.Message)
		case tc.code != "template_error" && tc.param != "input" && tc.param != "messages" && !strings.Contains(fault.Message, tc.param):
			t.Errorf("%s %.200s: the message does not name %s: %s", tc.path, tc.body, tc.param, fault.Message)
		}
	}
}

// The same conversation in three APIs.
const (
	weatherItems = `"instructions":"Be kind.","input":[{"role":"developer","content":"In English."},{"role":"user","content":"Warm?"},` +
		`{"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"I look."}]},` +
		`{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Let me see.","annotations":[]}]},` +
		`{"type":"function_call","id":"fc_1","status":"completed","call_id":"c1","name":"get_weather","arguments":"{\"city\":\"Rome\"}"},` +
		`{"type":"function_call","call_id":"c2","name":"now","arguments":"{}"},` +
		`{"type":"function_call_output","call_id":"c1","output":"warm"},{"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"noon"}]}]`
	weatherBlocks = `"system":[{"type":"text","text":"Be kind.\n\nIn English."}],"messages":[{"role":"user","content":"Warm?"},` +
		`{"role":"assistant","content":[{"type":"thinking","thinking":"I look.","signature":"s"},{"type":"text","text":"Let me see."},` +
		`{"type":"tool_use","id":"c1","name":"get_weather","input":{"city":"Rome"}},{"type":"tool_use","id":"c2","name":"now","input":{}}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"warm"},` +
		`{"type":"tool_result","tool_use_id":"c2","content":[{"type":"text","text":"noon"}]}]}]`
	weatherChat = `"messages":[{"role":"system","content":"Be kind.\n\nIn English."},{"role":"user","content":"Warm?"},` +
		`{"role":"assistant","content":"Let me see.","reasoning_content":"I look.","tool_calls":[` +
		`{"id":"c1","type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Rome\"}"}},` +
		`{"id":"c2","type":"function","function":{"name":"now","arguments":"{}"}}]},` +
		`{"role":"tool","tool_call_id":"c1","content":"warm"},{"role":"tool","tool_call_id":"c2","content":"noon"}]`

	schemaOfCity = `{"type":"object","properties":{"city":{"type":"string"}}}`
	chatTools    = `"tools":[{"type":"function","function":{"name":"get_weather","description":"d","parameters":` + schemaOfCity + `}},{"type":"function","function":{"name":"now","parameters":{}}}]`
	itemTools    = `"tools":[{"type":"function","name":"get_weather","description":"d","parameters":` + schemaOfCity + `},{"type":"function","name":"now","parameters":{}}]`
	blockTools   = `"tools":[{"name":"get_weather","description":"d","input_schema":` + schemaOfCity + `,"cache_control":{"type":"ephemeral"}},{"name":"now","input_schema":{}}]`
)

// Scenario 40: the developer's words are the system's, and the history keeps its calls.
// Scenario 39: count_tokens counts tools.
func TestConversationsAreTheSamePrompt(t *testing.T) {
	b := &fakeBackend{}
	r := newRig(t, DefaultConfig(), b)
	defer r.close()
	if err := r.openai.SetModels(toolModel(t, b, toolTemplate)); err != nil {
		t.Fatal(err)
	}
	for i, tc := range []struct{ path, body string }{
		{routeChat, `{` + weatherChat + `,` + chatTools + `,"enable_thinking":false}`},
		{routeResponses, `{` + weatherItems + `,` + itemTools + `,"reasoning":{"effort":"none"}}`},
		{routeMessages, `{"max_tokens":20,` + weatherBlocks + `,` + blockTools + `}`},
	} {
		res, answer := r.do("POST", tc.path, "", tc.body)
		if res.StatusCode != 200 {
			t.Fatalf("%s: %d %s", tc.path, res.StatusCode, answer)
		}
		if w := res.Header.Get("X-Weir-Warnings"); w != "" {
			t.Errorf("%s: warnings %s", tc.path, w)
		}
		want, got := b.tok.Decode(b.run(t, 0).req.Prompt, true), b.tok.Decode(b.run(t, i).req.Prompt, true)
		if got != strings.ReplaceAll(want, `{"reasoning_effort":"none"}`, "") {
			t.Errorf("%s: the prompt is\n%s\nwant\n%s", tc.path, got, want)
		}
	}
	for _, want := range []string{"Be kind.", "In English.", "I look.", `"city": "Rome"`, "warm", "noon"} {
		if !strings.Contains(b.tok.Decode(b.run(t, 0).req.Prompt, true), want) {
			t.Errorf("the prompt lacks %s", want)
		}
	}
	status, counted := r.post(routeCount, `{`+weatherBlocks+`,`+blockTools+`,"tool_choice":{"type":"any"}}`)
	var count struct {
		N int `json:"input_tokens"`
	}
	if err := json.Unmarshal([]byte(counted), &count); err != nil || status != 200 || count.N != len(b.run(t, 0).req.Prompt) {
		t.Errorf("count_tokens: %d %s, the prompt has %d", status, counted, len(b.run(t, 0).req.Prompt))
	}
}

// An answer that thinks, speaks and calls a tool, in both APIs, whole and as events.
func TestRewordedAnswersHaveCallsAndThoughts(t *testing.T) {
	b := &fakeBackend{script: say("<think>\nI look.\n</think>\n\nLet me see.\n"+parisCall, 0)}
	r := newRig(t, DefaultConfig(), b)
	defer r.close()
	if err := r.openai.SetModels(toolModel(t, b, toolTemplate)); err != nil {
		t.Fatal(err)
	}
	_, whole := r.post(routeResponses, `{"input":"Warm?",`+itemTools+`}`)
	var response struct {
		Output []struct {
			Type, Name, Arguments string
			ID                    string `json:"id"`
			CallID                string `json:"call_id"`
			Content               []struct{ Text string }
		}
	}
	if err := json.Unmarshal([]byte(whole), &response); err != nil || len(response.Output) != 3 || response.Output[0].Type != "reasoning" ||
		strings.TrimSpace(response.Output[0].Content[0].Text) != "I look." || strings.TrimSpace(response.Output[1].Content[0].Text) != "Let me see." ||
		response.Output[2].Name != "get_weather" || response.Output[2].Arguments != `{"city": "Paris"}` || response.Output[2].CallID == "" {
		t.Fatalf("the response is %s: %v", whole, err)
	}
	_, stream := r.do("POST", routeResponses, "", `{"input":"Warm?","stream":true,`+itemTools+`}`)
	events := parseEvents(t, stream)
	var done []json.RawMessage
	for _, e := range events {
		if e.Type == "response.output_item.done" {
			done = append(done, e.Item)
		}
	}
	if last := events[len(events)-1]; last.Type != "response.completed" || len(last.Response.Output) != 3 || len(done) != 3 || string(done[2]) != string(last.Response.Output[2]) {
		t.Errorf("the stream is %s", stream)
	}
	_, whole = r.post(routeMessages, `{"max_tokens":200,"messages":[{"role":"user","content":"Warm?"}],`+blockTools+`,"thinking":{"type":"adaptive"}}`)
	var m struct {
		Content []struct {
			Type, Thinking, Text, Name string
			Input                      map[string]string
		}
		Stop string `json:"stop_reason"`
	}
	if err := json.Unmarshal([]byte(whole), &m); err != nil || len(m.Content) != 3 || m.Content[0].Type != "thinking" || m.Stop != "tool_use" ||
		strings.Contains(m.Content[1].Text, "I look") || m.Content[2].Input["city"] != "Paris" {
		t.Errorf("the message is %s: %v", whole, err)
	}
	_, stream = r.do("POST", routeMessages, "", `{"max_tokens":200,"stream":true,"messages":[{"role":"user","content":"Warm?"}],`+blockTools+`}`)
	if strings.Count(stream, "event: message_start\n") != 1 || strings.Count(stream, "event: content_block_start\n") != 3 ||
		!strings.Contains(stream, `"stop_reason":"tool_use"`) || !strings.Contains(stream, "input_json_delta") {
		t.Errorf("the stream is %s", stream)
	}
}

// What a model itself takes in of a call's arguments is what a client has sent.
func TestRewordedCallsKeepTheirArguments(t *testing.T) {
	w := translation.Messages{}
	w.AddCall("input[0]", toolset.Function, translation.Call{ID: "c", Name: "f", With: `{"a":"\u00e9 \"x\""}`})
	if got := string(w.End()); !json.Valid([]byte(got)) || !strings.Contains(got, `"arguments":"{\"a\":\"\\u00e9 \\\"x\\\"\"}"`) {
		t.Error(got)
	}
}
