package openai

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"weir/api/openai/models"
	"weir/internal/inference"
	"weir/tokenizer"
	"weir/tokenizer/chat"
	"weir/tokenizer/family"
)

// Answers with calls and thoughts over HTTP. Numbers in names of tests are those of the
// list of scenarios in docs/scenarios.md.

const (
	weatherTool = `{"type":"function","function":{"name":"get_weather","description":"Weather of a city",` +
		`"parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}}`
	timeTool = `{"type":"function","function":{"name":"get_time"}}`
	bothTool = `"tools":[` + weatherTool + `,` + timeTool + `]`

	parisCall = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>"
	romeCall  = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\"}}\n</tool_call>"
	timeCall  = "<tool_call>\n{\"name\": \"get_time\", \"arguments\": {}}\n</tool_call>"
)

// answered is a chat's answer as a client puts it together.
type answered struct {
	Role      string
	Content   *string
	Reasoning string
	Calls     []calledFunction
	Reason    string
	Function  *calledFunction // of the older shape
	Output    int
	Thought   int // tokens
}

type calledFunction struct {
	ID, Name, Arguments string
}

func (a *answered) text() string {
	if a.Content == nil {
		return ""
	}
	return *a.Content
}

// names are the calls as name and arguments, which is what tests compare: ids are drawn.
func (a *answered) names() (list []string) {
	for _, c := range a.Calls {
		list = append(list, c.Name+" "+c.Arguments)
	}
	return list
}

// messageFields are those of a message or of a delta.
type messageFields struct {
	Role      *string
	Content   *string
	Reasoning *string
	Older     *string `json:"reasoning_content"`
	Calls     []struct {
		Index    *int
		ID       *string
		Type     *string
		Function struct{ Name, Arguments *string }
	} `json:"tool_calls"`
	Function *struct{ Name, Arguments *string } `json:"function_call"`
}

type callUsage struct {
	Output  int `json:"completion_tokens"`
	Details *struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func (a *answered) used(u *callUsage) {
	if u == nil {
		return
	}
	if a.Output = u.Output; u.Details != nil {
		a.Thought = u.Details.Reasoning
	}
}

// ask sends one chat and reads the whole answer.
func (r *rig) ask(body string) *answered {
	r.t.Helper()
	status, text := r.post(routeChat, body)
	if status != 200 {
		r.t.Fatalf("%s: %d %s", body, status, text)
	}
	var out struct {
		Choices []struct {
			Message messageFields
			Reason  string `json:"finish_reason"`
		}
		Usage *callUsage
	}
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		r.t.Fatalf("%v in %s", err, text)
	}
	m := out.Choices[0].Message
	a := &answered{Role: *m.Role, Content: m.Content, Reason: out.Choices[0].Reason}
	if m.Reasoning != nil {
		a.Reasoning = *m.Reasoning
	}
	if (m.Reasoning == nil) != (m.Older == nil) || m.Older != nil && *m.Older != *m.Reasoning {
		r.t.Errorf("reasoning and reasoning_content differ in %s", text)
	}
	for _, c := range m.Calls {
		a.Calls = append(a.Calls, calledFunction{*c.ID, *c.Function.Name, *c.Function.Arguments})
	}
	if m.Function != nil {
		a.Function = &calledFunction{Name: *m.Function.Name, Arguments: *m.Function.Arguments}
	}
	a.used(out.Usage)
	return a
}

// stream sends the chat as a stream and puts the answer together as the official SDKs
// do: all strings of a call's entry are joined, so what came twice is doubled.
func (r *rig) stream(body string) *answered {
	r.t.Helper()
	status, text := r.post(routeChat, strings.Replace(body, "{", `{"stream":true,"stream_options":{"include_usage":true},`, 1))
	if status != 200 {
		r.t.Fatalf("%s: %d %s", body, status, text)
	}
	a := &answered{}
	for line := range strings.Lines(text) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var chunk struct {
			Choices []struct {
				Delta  messageFields
				Reason *string `json:"finish_reason"`
			}
			Usage *callUsage
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			r.t.Fatalf("%v in %s", err, data)
		}
		a.used(chunk.Usage)
		for _, c := range chunk.Choices {
			if a.Reason != "" {
				r.t.Fatalf("a chunk follows the finish reason in %s", text)
			}
			r.join(a, &c.Delta)
			if c.Reason != nil {
				a.Reason = *c.Reason
			}
		}
	}
	if a.Reason == "" {
		r.t.Fatalf("no finish reason in %s", text)
	}
	return a
}

// join adds a delta to an answer, and checks the order that SDKs need.
func (r *rig) join(a *answered, d *messageFields) {
	r.t.Helper()
	if d.Role != nil {
		a.Role += *d.Role
	}
	if d.Content != nil {
		if len(d.Calls) > 0 {
			r.t.Errorf("a chunk has content and calls")
		}
		joined := a.text() + *d.Content
		a.Content = &joined
	}
	if d.Reasoning != nil {
		a.Reasoning += *d.Reasoning
	}
	if d.Function != nil {
		if a.Function == nil {
			a.Function = &calledFunction{}
		}
		if d.Function.Name != nil {
			a.Function.Name += *d.Function.Name
		}
		a.Function.Arguments += *d.Function.Arguments
	}
	for _, c := range d.Calls {
		switch n := len(a.Calls); {
		case c.Index == nil:
			r.t.Fatal("a call without index")
		case *c.Index == n:
			if c.ID == nil || c.Function.Name == nil || c.Type == nil || *c.Function.Arguments != "" {
				r.t.Fatalf("the first entry of call %d lacks id, name or type, or has arguments", n)
			}
			a.Calls = append(a.Calls, calledFunction{ID: *c.ID, Name: *c.Function.Name})
		case *c.Index == n-1:
			if c.ID != nil || c.Function.Name != nil || c.Type != nil {
				r.t.Fatalf("id, name or type of call %d come again", n-1)
			}
			a.Calls[n-1].Arguments += *c.Function.Arguments
		default:
			r.t.Fatalf("an entry of call %d after %d calls", *c.Index, n)
		}
	}
}

// sayBytes generates a text byte by byte: the finest split that tokens can have.
func sayBytes(text string) func(*fakeRun) {
	return func(r *fakeRun) {
		var ids []inference.TokenID
		for i := range len(text) {
			ids = append(ids, byteToken(r.backend.tok, text[i]))
		}
		r.sayTokens(ids, 0)
	}
}

func byteToken(tok *tokenizer.Tokenizer, b byte) inference.TokenID {
	for id := range inference.TokenID(256) {
		if piece := tok.AppendPiece(nil, id, false); len(piece) == 1 && piece[0] == b {
			return id
		}
	}
	return -1
}

// longModel has room for prompts with tools.
func longModel(r *rig) {
	m := testModel(r.t, r.backend)
	m.MaxModelLen = 1 << 14
	if err := r.openai.SetModels(m); err != nil {
		r.t.Fatal(err)
	}
}

// both asks for an answer of a model that says text, whole and as a stream, in words and
// byte by byte, and wants the same of all.
func both(t *testing.T, text, fields string) *answered {
	t.Helper()
	var first *answered
	for _, script := range []func(*fakeRun){say(text, 0), sayBytes(text)} {
		r := newRig(t, DefaultConfig(), &fakeBackend{script: script})
		longModel(r)
		body := chatWith(fields)
		whole, stream := r.ask(body), r.stream(body)
		r.close()
		if first == nil {
			first = whole
		}
		for kind, a := range map[string]*answered{"whole": whole, "stream": stream} {
			if a.text() != first.text() || a.Reasoning != first.Reasoning || a.Reason != first.Reason || a.Role != "assistant" ||
				!slices.Equal(a.names(), first.names()) || fmt.Sprint(a.Function) != fmt.Sprint(first.Function) {
				t.Errorf("%q, %s: got %+v, want %+v", text, kind, a, first)
			}
		}
		if whole.Output != stream.Output || whole.Thought != stream.Thought {
			t.Errorf("%q: the stream used %d and %d tokens, the whole answer %d and %d",
				text, stream.Output, stream.Thought, whole.Output, whole.Thought)
		}
	}
	return first
}

func TestCallsOfAnAnswer(t *testing.T) {
	for _, c := range []struct {
		name, says, fields string
		text, calls        string // calls by line
		reason             string
	}{
		{"22 one call", parisCall, bothTool, "", `get_weather {"city": "Paris"}`, "tool_calls"},
		{"23 no parameters", timeCall, bothTool, "", `get_time {}`, "tool_calls"},
		{"25 the same tool again", parisCall + "\n" + romeCall + "\n" + parisCall, bothTool, "",
			`get_weather {"city": "Paris"}` + "\n" + `get_weather {"city": "Rome"}` + "\n" + `get_weather {"city": "Paris"}`, "tool_calls"},
		{"27 none keeps text", parisCall, bothTool + `,"tool_choice":"none"`, parisCall, "", "stop"},
		{"29 no parallel calls", parisCall + "\n" + romeCall, bothTool + `,"parallel_tool_calls":false`, "", `get_weather {"city": "Paris"}`, "tool_calls"},
		{"31 prose before", "Let me look.\n" + parisCall, bothTool, "Let me look.", `get_weather {"city": "Paris"}`, "tool_calls"},
		{"34 a word like a marker", "The tag <tool_calling> is no call, nor is <tool", bothTool, "The tag <tool_calling> is no call, nor is <tool", "", "stop"},
		{"text alone", "Hello world", bothTool, "Hello world", "", "stop"},
		{"no tools", parisCall, `"n":1`, parisCall, "", "stop"},
		{"a named tool", parisCall, bothTool + `,"tool_choice":{"type":"function","function":{"name":"get_weather"}}`, "", `get_weather {"city": "Paris"}`, "stop"},
		{"allowed tools", parisCall, bothTool + `,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"get_weather"}}]}}`,
			"", `get_weather {"city": "Paris"}`, "tool_calls"},
		{"a stop string in arguments", parisCall, bothTool + `,"stop":["Paris","tool"]`, "", `get_weather {"city": "Paris"}`, "tool_calls"},
		{"a stop string in text", "Let me stop here" + parisCall, bothTool + `,"stop":"stop"`, "Let me ", "", "stop"},
		{"a stop string held back", "Let me sto" + parisCall, bothTool + `,"stop":"stop"`, "Let me sto", `get_weather {"city": "Paris"}`, "tool_calls"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := both(t, c.says, c.fields)
			if a.text() != c.text || strings.Join(a.names(), "\n") != c.calls || a.Reason != c.reason {
				t.Errorf("got %q, %q, %s; want %q, %q, %s", a.text(), a.names(), a.Reason, c.text, c.calls, c.reason)
			}
			seen := map[string]bool{}
			for _, call := range a.Calls {
				if seen[call.ID] || !strings.HasPrefix(call.ID, "call_") {
					t.Errorf("the id %q is no id of its own", call.ID)
				}
				seen[call.ID] = true
			}
		})
	}
}

// An answer that its length cuts says so, and has neither half of a call that looks whole
// nor its markup as text: at most the beginning of a marker, which may be text.
func TestJ22ACutCallIsNotMadeWhole(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{script: sayBytes(parisCall)})
	defer r.close()
	longModel(r)
	for cut := 1; cut < len(parisCall); cut++ {
		body := chatWith(fmt.Sprintf(`%s,"max_completion_tokens":%d`, bothTool, cut))
		whole, stream := r.ask(body), r.stream(body)
		for _, a := range []*answered{whole, stream} {
			if said := a.text(); len(said) >= len("<tool_call>") || !strings.HasPrefix("<tool_call>", said) {
				t.Fatalf("cut at %d: text %q", cut, said)
			}
			if a.Reason != "length" || a.Calls != nil && len(a.Calls) == 0 {
				t.Fatalf("cut at %d: %+v", cut, a)
			}
		}
		if !slices.Equal(whole.names(), stream.names()) || whole.text() != stream.text() {
			t.Errorf("cut at %d: %v %q, as a stream %v %q", cut, whole.names(), whole.text(), stream.names(), stream.text())
		}
		for _, c := range whole.Calls {
			if want := `{"city": "Paris"}`; !strings.HasPrefix(want, c.Arguments) {
				t.Errorf("cut at %d: the arguments are %q", cut, c.Arguments)
			}
		}
	}
}

// The one call of an answer ends it: the engine is told, and nothing more is generated.
func TestTheOnlyCallEndsTheAnswer(t *testing.T) {
	b := &fakeBackend{script: sayBytes(parisCall + strings.Repeat(" and more", 50))}
	r := newRig(t, DefaultConfig(), b)
	defer r.close()
	longModel(r)
	a := r.ask(chatWith(bothTool + `,"parallel_tool_calls":false`))
	if len(a.Calls) != 1 || a.Reason != "tool_calls" || a.Output > len(parisCall) || !b.run(t, 0).wasCancelled(0) {
		t.Errorf("got %+v after %d tokens; the call has %d", a, a.Output, len(parisCall))
	}
}

// The older names of tools have the older answer.
func TestFunctionsOfTheOlderShape(t *testing.T) {
	a := both(t, parisCall+romeCall, `"functions":[{"name":"get_weather","parameters":{"type":"object"}}],"function_call":"auto"`)
	if a.Function == nil || a.Function.Name != "get_weather" || a.Function.Arguments != `{"city": "Paris"}` || a.Calls != nil || a.Reason != "function_call" {
		t.Errorf("got %+v", a)
	}
}

// toolTemplate writes tools, calls and thoughts as Qwen's template does.
const toolTemplate = `{% if tools %}{{ '<|im_start|>system\n<tools>' }}{% for t in tools %}{{ '\n' }}{{ t | tojson }}{% endfor %}{{ '\n</tools>` +
	`For each function call return <tool_call>\n{"name": <name>, "arguments": <args>}\n</tool_call><|im_end|>\n' }}{% endif %}` +
	`{% for m in messages %}{% if m.role == 'tool' %}{{ '<|im_start|>user\n<tool_response>\n' + m.content + '\n</tool_response><|im_end|>\n' }}` +
	`{% else %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.reasoning_content %}{{ '<think>\n' + m.reasoning_content + '\n</think>\n\n' }}{% endif %}{{ m.content }}` +
	`{% for c in m.tool_calls %}{{ '\n<tool_call>\n{"name": "' + c.function.name + '", "arguments": ' }}{{ c.function.arguments | tojson }}{{ '}\n</tool_call>' }}{% endfor %}` +
	`{{ '<|im_end|>\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}` +
	`{% if enable_thinking is defined and not enable_thinking %}{{ '<think>\n\n</think>\n\n' }}{% endif %}{% endif %}`

func toolModel(t testing.TB, b *fakeBackend, source string) *models.Model {
	t.Helper()
	template, err := chat.Parse(source, chat.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := testModel(t, b)
	m.Template, m.Family, m.MaxModelLen = template, family.Detect(template), 1<<14
	return m
}
