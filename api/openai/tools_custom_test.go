package openai

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"weir/api/openai/answer"
	"weir/api/openai/relay"
)

const (
	sqlTool = `{"type":"custom","custom":{"name":"sql","description":"Runs a query","format":{"type":"grammar","grammar":{"syntax":"lark",` +
		`"definition":"start: \"SELECT\" WS NAME (\",\" NAME)* WS \"FROM\" WS \"\\\"\" NAME \"\\\"\" \"\\n\"\nNAME: /[a-z]{1,8}/\nWS: \" \""}}}}`
	dateTool = `{"type":"custom","custom":{"name":"date","format":{"type":"grammar","grammar":{"syntax":"regex","definition":"[0-9]{4}\\\\[0-9]{2}"}}}}`
	codeTool = `{"type":"custom","custom":{"name":"code","format":{"type":"text"}}}`

	customTools = `"tools":[` + sqlTool + `,` + dateTool + `,` + codeTool + `,` + timeTool + `]`
)

// customCall is a call as a model writes it: with the text as the only argument.
func customCall(name, input string) string {
	return "<tool_call>\n{\"name\": \"" + name + "\", \"arguments\": {\"input\": " + strconv.Quote(input) + "}}\n</tool_call>"
}

// joined is a call that a client has put together as the official SDKs do: every string of
// its entry joined.
type joinedCall struct {
	ID, Type string
	Custom   struct{ Name, Input string }
	Function struct{ Name, Arguments string }
}

func callsOf(t *testing.T, text string) (calls []joinedCall, reason string) {
	t.Helper()
	if !strings.HasPrefix(text, "data: ") {
		var whole struct {
			Choices []struct {
				Message struct {
					Calls []joinedCall `json:"tool_calls"`
				}
				Reason string `json:"finish_reason"`
			}
		}
		if err := json.Unmarshal([]byte(text), &whole); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		return whole.Choices[0].Message.Calls, whole.Choices[0].Reason
	}
	for line := range strings.Lines(text) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var chunk struct {
			Choices []struct {
				Delta struct {
					Calls []struct {
						Index int
						joinedCall
					} `json:"tool_calls"`
				}
				Reason string `json:"finish_reason"`
			}
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		for _, c := range chunk.Choices {
			reason += c.Reason
			for _, p := range c.Delta.Calls {
				if p.Index == len(calls) {
					calls = append(calls, joinedCall{})
				}
				call := &calls[p.Index]
				call.ID, call.Type = call.ID+p.ID, call.Type+p.Type
				call.Custom.Name, call.Custom.Input = call.Custom.Name+p.Custom.Name, call.Custom.Input+p.Custom.Input
				call.Function.Name, call.Function.Arguments = call.Function.Name+p.Function.Name, call.Function.Arguments+p.Function.Arguments
			}
		}
	}
	return calls, reason
}

// Custom tools get their text as it is meant, whole and in pieces, beside functions.
func TestCustomToolsTakeText(t *testing.T) {
	const query, program = "SELECT a,b FROM \"t\"\n", "print(\"é\\n\")\n\t# \U0001F600 {\"input\": 1}"
	for _, bytewise := range []bool{false, true} {
		text := customCall("sql", query) + "\n" + timeCall + "\n" + customCall("code", program)
		script := say(text, 0)
		if bytewise {
			script = sayBytes(text)
		}
		r := newRig(t, DefaultConfig(), &fakeBackend{script: script})
		longModel(r)
		for _, stream := range []string{"false", "true"} {
			status, answer := r.post(routeChat, chatWith(customTools+`,"max_tokens":900,"stream":`+stream))
			if status != 200 {
				t.Fatalf("%d %s", status, answer)
			}
			calls, reason := callsOf(t, answer)
			if len(calls) != 3 || reason != "tool_calls" {
				t.Fatalf("%d calls, reason %q: %s", len(calls), reason, answer)
			}
			sql, now, code := calls[0], calls[1], calls[2]
			if sql.Type != "custom" || sql.Custom.Name != "sql" || sql.Custom.Input != query || sql.Function.Name != "" || sql.ID == "" {
				t.Errorf("the query is %+v", sql)
			}
			if now.Type != "function" || now.Function.Name != "get_time" || now.Function.Arguments != "{}" || now.Custom.Name != "" {
				t.Errorf("the function is %+v", now)
			}
			if code.Type != "custom" || code.Custom.Input != program {
				t.Errorf("the program is %+v", code)
			}
		}
		r.close()
	}
}

// A grammar binds the text whatever the model would write, and the text may end where the
// grammar does only.
func TestCustomFormatsBind(t *testing.T) {
	for name, c := range map[string]struct {
		choice, wish string
		holds        func(input string) bool
	}{
		"lark": {`{"type":"custom","custom":{"name":"sql"}}`, customCall("sql", "SELECT a FROM t"), func(input string) bool {
			return strings.HasPrefix(input, "SELECT a FROM \"") && strings.HasSuffix(input, "\"\n")
		}},
		"regex": {`{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"custom","custom":{"name":"date"}}]}}`,
			customCall("date", `2026-11`), func(input string) bool { return len(input) == 7 && strings.HasPrefix(input, `2026\`) }},
		"lazy": {`"auto"`, "So:\n" + customCall("date", `12\34`), func(input string) bool { return len(input) == 7 && strings.HasPrefix(input, `12`) && input[4] == '\\' }},
	} {
		r := newRig(t, DefaultConfig(), &fakeBackend{script: insist(t, 1, c.wish)})
		longModel(r)
		status, answer := r.post(routeChat, chatWith(customTools+`,"max_tokens":900,"parallel_tool_calls":false,"tool_choice":`+c.choice))
		if calls, _ := callsOf(t, answer); status != 200 || len(calls) != 1 || !c.holds(calls[0].Custom.Input) {
			t.Errorf("%s: %d %s", name, status, answer)
		}
		r.close()
	}
}

// The template sees a function of one argument with the format in words, and earlier calls
// as calls of it.
func TestCustomToolsReachTheTemplate(t *testing.T) {
	past := `{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[{"id":"x","type":"custom","custom":{"name":"sql","input":"SELECT \"a\"\n"}}]},` +
		`{"role":"tool","tool_call_id":"x","content":"7"}`
	got := promptOf(t, toolTemplate, `{`+customTools+`,"messages":[`+past+`]}`)
	for _, want := range []string{
		`{"type": "function", "function": {"name": "code", "description": "", "parameters": {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"], "additionalProperties": false}}}`,
		"Text that this Lark grammar allows:\\nstart:", `Text that this regular expression matches: [0-9]{4}\\\\[0-9]{2}`,
		"<tool_call>\n{\"name\": \"sql\", \"arguments\": {\"input\": \"SELECT \\\"a\\\"\\n\"}}\n</tool_call>",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the prompt lacks %s:\n%s", want, got)
		}
	}
}

// Responses have items of their own for custom tools, and a conversation goes on behind them.
func TestCustomToolsOfResponses(t *testing.T) {
	const query = "SELECT a FROM \"t\"\n"
	const tools = `"tools":[{"type":"custom","name":"sql","description":"Runs a query","format":{"type":"grammar","syntax":"regex","definition":"(?s:.{1,40})"}},{"type":"custom","name":"code"}],` +
		`"tool_choice":{"type":"custom","name":"sql"}`
	r := newRig(t, DefaultConfig(), &fakeBackend{script: sayBytes(customCall("sql", query))})
	defer r.close()
	longModel(r)
	res, stream := r.do("POST", routeResponses, "", `{"input":"hi","stream":true,`+tools+`}`)
	if res.StatusCode != 200 {
		t.Fatal(stream)
	}
	input, done := "", ""
	for block := range strings.SplitSeq(stream, "\n\n") {
		_, data, _ := strings.Cut(block, "\ndata: ")
		var e struct{ Type, Delta, Input string }
		_ = json.Unmarshal([]byte(data), &e) // the last block is empty
		switch e.Type {
		case "response.custom_tool_call_input.delta":
			input += e.Delta
		case "response.custom_tool_call_input.done":
			done = e.Input
		}
	}
	events := parseEvents(t, stream)
	last := events[len(events)-1]
	var item struct {
		ID, Type, Status, Name, Input string
		Call                          string `json:"call_id"`
	}
	if err := json.Unmarshal(last.Response.Output[0], &item); err != nil || item.Type != "custom_tool_call" || item.Input != query || item.Status != "completed" ||
		!strings.HasPrefix(item.ID, "ctc_") || item.Name != "sql" || input != query || done != query {
		t.Errorf("deltas %q, done %q, item %+v: %v in %s", input, done, item, err, stream)
	}
	shown := `"tools":[{"type":"custom","name":"sql","description":"Runs a query","format":{"type":"grammar","syntax":"regex","definition":"(?s:.{1,40})"}},` +
		`{"type":"custom","name":"code","description":null,"format":{"type":"text"}}]`
	if !strings.Contains(stream, shown) {
		t.Errorf("the tools are not shown as they came: %s", stream)
	}
	status, body := r.post(routeResponses, `{"input":[{"role":"user","content":"hi"},`+string(last.Response.Output[0])+
		`,{"type":"custom_tool_call_output","call_id":"`+item.Call+`","output":[{"type":"input_text","text":"seven"}]}],`+tools+`}`)
	if prompt := r.backend.tok.Decode(r.backend.run(t, 1).req.Prompt, true); status != 200 || !strings.Contains(prompt, "seven") ||
		!strings.Contains(prompt, `{"input":"SELECT a FROM \"t\"\n"}`) {
		t.Errorf("%d %s: the prompt is %s", status, body, prompt)
	}
	status, body = r.post(routeResponses, `{"input":"hi","tools":[{"type":"custom","name":"sql","format":{"type":"grammar","syntax":"regex","definition":"("}}]}`)
	if param, code, _ := parseError(t, body); status != 400 || param != "tools[0].format.definition" || code != "invalid_grammar" {
		t.Errorf("a wrong format: %d %s", status, body)
	}
}

// Relayed chats with custom tools become items of Responses, too.
func TestChatsOfOthersHaveCustomCalls(t *testing.T) {
	var reader relay.ChatReader
	e := encoderOf(t, &responseEndpoint, `{"input":"hi"}`)
	var dst []byte
	for _, chunk := range []string{
		`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","type":"custom","custom":{"name":"sql","input":""}}]}}]}`,
		`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"custom":{"input":"SELECT"}}]}}]}`,
		`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"d","type":"function","function":{"name":"now","arguments":"{}"}}]}}]}`,
		`{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`,
	} {
		d, err := reader.Read([]byte(chunk))
		if err != nil {
			t.Fatal(err)
		}
		dst = e.AppendDelta(dst, d)
	}
	text := string(e.AppendEnd(dst, answer.Usage{}))
	for _, want := range []string{`"type":"custom_tool_call","status":"completed","call_id":"c","name":"sql","input":"SELECT"}`,
		`"type":"function_call","status":"completed","call_id":"d","name":"now","arguments":"{}"}`} {
		if !strings.Contains(text, want) {
			t.Errorf("the events lack %s: %s", want, text)
		}
	}
}
