package openai

import (
	"strings"
	"testing"

	"weir/api/openai/completion"
	"weir/api/openai/models"
	"weir/api/openai/toolset"
)

// promptOf gives the prompt that a request of a model with a template has.
func promptOf(t *testing.T, template, body string) string {
	t.Helper()
	return promptBy(t, template, body, func(*models.Model) {})
}

// promptBy is promptOf of a model that was changed.
func promptBy(t *testing.T, template, body string, change func(*models.Model)) string {
	t.Helper()
	b := &fakeBackend{script: say("Hello", 0)}
	r := newRig(t, DefaultConfig(), b)
	defer r.close()
	m := toolModel(t, b, template)
	change(m)
	if err := r.openai.SetModels(m); err != nil {
		t.Fatal(err)
	}
	if status, text := r.post(routeChat, body); status != 200 {
		t.Fatalf("%s: %d %s", body, status, text)
	}
	return b.tok.Decode(b.run(t, 0).req.Prompt, true)
}

// Templates get tools as transformers gives them, without strict, which no model knows,
// and with a description and parameters, which templates read unasked. The prompt is the same for every
// choice, so that the prefix cache is good for all.
func TestToolsReachTheTemplate(t *testing.T) {
	const want = `<tools>
{"type": "function", "function": {"description": "d", "name": "f", "parameters": {"type": "object", "properties": {"b": {"type": "string"}, "a": {}}}}}
{"type": "function", "function": {"name": "g", "description": "", "parameters": {"type": "object", "properties": {}}}}
</tools>`
	const tools = `"tools":[{"type":"function","function":{"strict":false,"description":"d","name":"f","parameters":{"type":"object","properties":{"b":{"type":"string"},"a":{}}}}},` +
		`{"function":{"name":"g","description":null,"parameters":null},"type":"function"}]`
	first := promptOf(t, toolTemplate, chatWith(tools))
	if !strings.Contains(first, want) {
		t.Errorf("the prompt is %s", first)
	}
	for _, choice := range []string{`"none"`, `"auto"`, `{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"g"}}]}}`} {
		if got := promptOf(t, toolTemplate, chatWith(tools+`,"tool_choice":`+choice)); got != first {
			t.Errorf("with tool_choice %s the prompt is %s", choice, got)
		}
	}
	older := promptOf(t, toolTemplate, chatWith(`"functions":[{"name":"g"}]`))
	if !strings.Contains(older, `{"type": "function", "function": {"name": "g", "description": "", "parameters": {"type": "object", "properties": {}}}}`) {
		t.Errorf("functions render %s", older)
	}
}

// With HideTools a request that may not call has the prompt of one without tools, whether the template lists them or weir does; others keep theirs.
func TestToolsOfNoChoiceAreLeftOut(t *testing.T) {
	hide := func(m *models.Model) { m.HideTools = true }
	for _, template := range []string{toolTemplate, chatML} {
		plain, listed := promptOf(t, template, chatWith(`"n":1`)), promptOf(t, template, chatWith(bothTool))
		if plain == listed {
			t.Fatal("the template lists no tools")
		}
		for choice, want := range map[string]string{`,"tool_choice":"none"`: plain, `,"tool_choice":"auto"`: listed, "": listed} {
			if got := promptBy(t, template, chatWith(bothTool+choice), hide); got != want {
				t.Errorf("%s: the prompt is %s", choice, got)
			}
		}
	}
}

const pastCalls = `{"role":"user","content":"hi"},` +
	`{"role":"assistant","content":null,"reasoning":"Hm.","tool_calls":[` +
	`{"index":0,"id":"functions.f:0","type":"function","function":{"name":"f","arguments":"{\"b\": 1, \"a\": [true]}"}},` +
	`{"id":"x","type":"function","function":{"name":"g","arguments":""}},{"id":"y","type":"function","function":{"name":"g","arguments":"{broken"}}]},` +
	`{"role":"tool","tool_call_id":"functions.f:0","content":"sun"},{"role":"tool","tool_call_id":"x","name":"g","content":[{"type":"text","text":"rain"}]},` +
	`{"role":"tool","content":"","tool_call_id":"y"}`

// Templates get arguments as objects, in the order in which the model wrote them.
func TestCallsComeBack(t *testing.T) {
	got := promptOf(t, toolTemplate, message(pastCalls))
	const want = "<|im_start|>assistant\n<think>\nHm.\n</think>\n\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"b\": 1, \"a\": [true]}}\n</tool_call>\n" +
		"<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": \"g\", \"arguments\": \"{broken\"}\n</tool_call><|im_end|>\n" +
		"<|im_start|>user\n<tool_response>\nsun\n</tool_response><|im_end|>\n<|im_start|>user\n<tool_response>\nrain\n</tool_response><|im_end|>\n" +
		"<|im_start|>user\n<tool_response>\n\n</tool_response><|im_end|>\n"
	if !strings.Contains(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	older := promptOf(t, toolTemplate, message(`{"role":"assistant","content":"Let me see.","function_call":{"name":"f","arguments":"{\"a\":1}"}},{"role":"function","name":"f","content":"sun"}`))
	if want := "Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\nsun\n"; !strings.Contains(older, want) {
		t.Errorf("got %q, want %q", older, want)
	}
}

// A template that knows no tools has them in the system message, calls as text, and the
// results of one answer in one message of the user.
func TestTemplatesWithoutToolsAreTold(t *testing.T) {
	got := promptOf(t, chatML, `{`+bothTool+`,"messages":[{"role":"system","content":[{"type":"text","text":"Be brief."}]},`+pastCalls+`,{"role":"user","content":"so?"}]}`)
	head, rest, _ := strings.Cut(got, "<|im_end|>")
	for _, part := range []string{"<|im_start|>system\nBe brief.\n\n", `"get_weather"`, `"get_time"`} {
		if !strings.Contains(head, part) {
			t.Errorf("the system message lacks %q: %s", part, head)
		}
	}
	if roles := strings.Count(rest, "<|im_start|>user"); roles != 3 || strings.Count(rest, "<|im_start|>system") != 0 {
		t.Errorf("%d messages of the user in %s", roles, rest)
	}
	for _, part := range []string{`{"name": "f", "arguments": {"b": 1, "a": [true]}}`, "sun", "rain"} {
		if !strings.Contains(rest, part) {
			t.Errorf("the conversation lacks %q: %s", part, rest)
		}
	}
	if got := promptOf(t, chatML, chatWith(bothTool)); !strings.HasPrefix(got, "<|im_start|>system\n") || !strings.Contains(got, "get_weather") {
		t.Errorf("without a system message the prompt is %s", got)
	}
	if got := promptOf(t, chatML, chatWith(`"n":1`)); strings.Contains(got, "system") {
		t.Errorf("without tools the prompt is %s", got)
	}
}

func TestToolsAreRefusedByName(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	longModel(r)
	tool := func(fields string) string {
		return chatWith(`"tools":[{"type":"function","function":{` + fields + `}}]`)
	}
	custom := func(fields string) string {
		return chatWith(`"tools":[{"type":"custom","custom":{` + fields + `}}],"max_tokens":5`)
	}
	choice := func(value string) string { return chatWith(bothTool + `,"tool_choice":` + value) }
	call := func(fields string) string {
		return message(`{"role":"assistant","content":null,"tool_calls":[{` + fields + `}]}`)
	}
	many := strings.Repeat(timeTool+",", toolset.MaxTools) + timeTool
	for _, c := range []struct{ body, param, code string }{
		{chatWith(`"tools":{}`), "tools", "invalid_type"},
		{chatWith(`"tools":["f"]`), "tools[0]", "invalid_type"},
		{chatWith(`"tools":[{}]`), "tools[0].type", "missing_required_parameter"},
		{chatWith(`"tools":[{"type":"function"}]`), "tools[0].function", "missing_required_parameter"},
		{chatWith(`"tools":[{"type":"custom"}]`), "tools[0].custom", "missing_required_parameter"},
		{custom(`"name":"f","format":{"type":"text","grammar":{"syntax":"lark","definition":"start: A"}}`), "tools[0].custom.format.type", "invalid_value"},
		{custom(`"name":"f","format":{"type":"json"}`), "tools[0].custom.format.type", "invalid_value"},
		{custom(`"name":"f","format":{"type":"grammar"}`), "tools[0].custom.format.grammar", "missing_required_parameter"},
		{custom(`"name":"f","format":{"type":"grammar","grammar":{"syntax":"gbnf","definition":"x"}}`), "tools[0].custom.format.grammar.syntax", "invalid_value"},
		{custom(`"name":"f","format":{"type":"grammar","grammar":{"syntax":"regex"}}`), "tools[0].custom.format.grammar.definition", "missing_required_parameter"},
		{custom(`"name":"f","format":{"type":"grammar","grammar":{"syntax":"regex","definition":"a("}}`), "tools[0].custom.format.grammar.definition", "invalid_grammar"},
		{custom(`"name":"f","format":{"type":"grammar","grammar":{"syntax":"lark","definition":"start: B"}}`), "tools[0].custom.format.grammar.definition", "invalid_grammar"},
		{custom(`"name":"f","format":{"type":"grammar","grammar":{"syntax":"lark","definition":"start: <|end|>"}}`), "tools[0].custom.format.grammar.definition", "invalid_grammar"},
		{choice(`{"type":"custom","custom":{"name":"get_time"}}`), "tool_choice.custom.name", "invalid_value"},
		{chatWith(`"tools":[{"type":"web_search"}]`), "tools[0].type", "unsupported_parameter"},
		{chatWith(`"tools":[` + many + `]`), "tools", "invalid_value"},
		{chatWith(`"tools":[` + timeTool + `,` + timeTool + `]`), "tools[1].function.name", "invalid_value"},
		{chatWith(`"tools":[` + timeTool + `],"functions":[{"name":"f"}]`), "functions", "invalid_value"},
		{chatWith(`"functions":[{}]`), "functions[0].name", "missing_required_parameter"},
		{chatWith(`"functions":[{"name":"f"}],"function_call":"required"`), "function_call", "invalid_value"},
		{chatWith(`"functions":[{"name":"f"}],"function_call":{"name":"g"}`), "function_call.name", "invalid_value"},
		{tool(``), "tools[0].function.name", "missing_required_parameter"},
		{tool(`"name":"a b"`), "tools[0].function.name", "invalid_value"},
		{tool(`"name":""`), "tools[0].function.name", "invalid_value"},
		{tool(`"name":"` + strings.Repeat("x", 65) + `"`), "tools[0].function.name", "invalid_value"},
		{tool(`"name":"f","parameters":[]`), "tools[0].function.parameters", "invalid_type"},
		{tool(`"name":"f","strict":1`), "tools[0].function.strict", "invalid_type"},
		{tool(`"name":"f","description":"` + strings.Repeat("x", toolset.MaxDescriptionBytes+1) + `"`), "tools[0].function.description", "invalid_value"},
		{tool(`"name":"f","parameters":{"x":"` + strings.Repeat("x", toolset.MaxToolBytes) + `"}`), "tools[0]", "invalid_value"},
		{choice(`"any"`), "tool_choice", "invalid_value"},
		{choice(`1`), "tool_choice", "invalid_type"},
		{choice(`{}`), "tool_choice.type", "missing_required_parameter"},
		{choice(`{"type":"tool"}`), "tool_choice.type", "invalid_value"},
		{choice(`{"type":"function"}`), "tool_choice.function", "missing_required_parameter"},
		{choice(`{"type":"function","function":{"name":"f"}}`), "tool_choice.function.name", "invalid_value"},
		{choice(`{"type":"allowed_tools","allowed_tools":{"mode":"any","tools":[]}}`), "tool_choice.allowed_tools.mode", "invalid_value"},
		{choice(`{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[]}}`), "tool_choice.allowed_tools.tools", "invalid_value"},
		{choice(`{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"f"}}]}}`), "tool_choice.allowed_tools.tools[0].function.name", "invalid_value"},
		{chatWith(`"tool_choice":"required"`), "tool_choice", "invalid_value"},
		{chatWith(`"tool_choice":{"type":"function","function":{"name":"f"}}`), "tool_choice", "invalid_value"},
		{choice(`"auto","parallel_tool_calls":1`), "parallel_tool_calls", "invalid_type"},

		{call(``), "messages[0].tool_calls[0].function", "missing_required_parameter"},
		{call(`"id":"a","type":"tool","function":{}`), "messages[0].tool_calls[0].type", "unsupported_parameter"},
		{call(`"id":"a","type":"custom","function":{}`), "messages[0].tool_calls[0].custom", "missing_required_parameter"},
		{call(`"id":"a","type":"custom","custom":{"name":"f"}`), "messages[0].tool_calls[0].custom.input", "missing_required_parameter"},
		{call(`"function":{"name":"f"}`), "messages[0].tool_calls[0].id", "missing_required_parameter"},
		{call(`"id":"a","function":{}`), "messages[0].tool_calls[0].function.name", "missing_required_parameter"},
		{call(`"id":"a","function":{"name":"f","arguments":[]}`), "messages[0].tool_calls[0].function.arguments", "invalid_type"},
		{call(`"id":"` + strings.Repeat("x", completion.MaxCallIDBytes+1) + `","function":{"name":"f"}`), "messages[0].tool_calls[0].id", "invalid_value"},
		{message(`{"role":"user","content":"x","tool_calls":[{"id":"a","function":{"name":"f"}}]}`), "messages[0].tool_calls", "invalid_value"},
		{message(`{"role":"user","content":"x","function_call":{"name":"f"}}`), "messages[0].function_call", "invalid_value"},
		{message(`{"role":"user","content":"x","tool_call_id":"a"}`), "messages[0].tool_call_id", "invalid_value"},
		{message(`{"role":"assistant","content":"x","tool_calls":[{"id":"a","function":{"name":"f"}}],"function_call":{"name":"f"}}`), "messages[0].function_call", "invalid_value"},
		{message(`{"role":"tool","content":"x"}`), "messages[0].tool_call_id", "missing_required_parameter"},
		{message(`{"role":"assistant","content":"x","tool_calls":[{"id":"a","function":{"name":"f"}}]},{"role":"tool","tool_call_id":"b","content":"x"}`), "messages[1].tool_call_id", "invalid_value"},
		{message(`{"role":"tool","tool_call_id":"a"}`), "messages[0].tool_call_id", "invalid_value"},
		{message(`{"role":"assistant","content":null,"reasoning":1}`), "messages[0].reasoning", "invalid_type"},
	} {
		status, body := r.post(routeChat, c.body)
		if param, code, _ := parseError(t, body); status != 400 || param != c.param || code != c.code {
			t.Errorf("%.200s\n got %d %s\nwant %s %s", c.body, status, body, c.param, c.code)
		}
	}
}

// A refusal that a client sends back is what the assistant said: as a part, or in its own field where there is no content.
func TestRefusalsComeBack(t *testing.T) {
	const want = "<|im_start|>assistant\nI must not.<|im_end|>\n"
	for _, said := range []string{`"content":[{"type":"refusal","refusal":"I must not."}]`, `"content":null,"refusal":"I must not."`, `"refusal":"I must not."`} {
		got := promptOf(t, toolTemplate, message(`{"role":"user","content":"hi"},{"role":"assistant",`+said+`},{"role":"user","content":"why?"}`))
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s", said, got)
		}
	}
	if got := promptOf(t, toolTemplate, message(`{"role":"user","content":"hi"},{"role":"assistant","content":"Hm.","refusal":"I must not."}`)); strings.Contains(got, "must") {
		t.Errorf("beside content: %s", got)
	}
}

// A thought of the history reaches a template in the field that it reads, and not where the template refuses it beside a text.
func TestThoughtsReachTheFieldOfTheTemplate(t *testing.T) {
	template := strings.ReplaceAll(toolTemplate, "m.reasoning_content", "m.thinking")
	refusing := `{% for m in messages %}{% if m.tool_calls and m.content and m.thinking %}{{ raise_exception("both") }}{% endif %}{% endfor %}` + template
	const call = `"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]`
	said := func(fields string) string {
		return message(`{"role":"user","content":"hi"},{"role":"assistant",` + fields + `},{"role":"tool","tool_call_id":"c1","content":"5"}`)
	}
	for _, c := range []struct {
		template, fields string
		thought          bool
	}{
		{template, `"reasoning":"I look.","content":"Well.",` + call, true},
		{template, `"reasoning_content":"I look.","content":null,` + call, true},
		{refusing, `"reasoning_content":"I look.","content":"",` + call, true},
		{refusing, `"reasoning_content":"I look.","content":"Well.",` + call, false},
	} {
		if got := promptOf(t, c.template, said(c.fields)); strings.Contains(got, "<think>\nI look.\n</think>") != c.thought {
			t.Errorf("%s: the prompt is %q", c.fields, got)
		}
	}
}
