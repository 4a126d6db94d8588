package family

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// joined is an answer put together: neighbouring parts of one kind become one.
type joined struct {
	Kind     Kind
	Call     int
	ID, Name string
	Text     string
}

func join(dst []joined, parts []Part) []joined {
	for _, p := range parts {
		last := len(dst) - 1
		if last >= 0 && dst[last].Kind == p.Kind && dst[last].Call == p.Call && p.Kind != CallStart && p.Kind != CallEnd {
			dst[last].Text += string(p.Bytes)
			continue
		}
		dst = append(dst, joined{Kind: p.Kind, Call: p.Call, ID: p.ID, Name: p.Name, Text: string(p.Bytes)})
	}
	return dst
}

// parse reads an answer given in pieces.
func parse(f *Family, o Options, pieces ...string) []joined {
	p := f.NewParser(o)
	var out []joined
	for _, piece := range pieces {
		out = join(out, p.Append(nil, []byte(piece), false))
	}
	return join(out, p.Close(nil))
}

// show is an answer in one line: T(text) R(thought) C(name arguments).
func show(parts []joined) string {
	var b strings.Builder
	for _, p := range parts {
		switch p.Kind {
		case Content:
			fmt.Fprintf(&b, "T(%s)", p.Text)
		case Reasoning:
			fmt.Fprintf(&b, "R(%s)", p.Text)
		case CallStart:
			fmt.Fprintf(&b, "C(%s ", p.Name)
		case CallArguments:
			b.WriteString(p.Text)
		case CallEnd:
			b.WriteByte(')')
		}
	}
	return b.String()
}

var weatherTools = []Tool{
	{Name: "get_weather", Parameters: []byte(`{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"},
		"exact":{"type":"boolean"},"where":{"type":"array"},"o":{"type":"object"},"s":{"type":["string","null"]}},"required":["city"]}`)},
	{Name: "sum", Parameters: []byte(`{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}}}`)},
	{Name: "noop"},
}

func auto() Options {
	return Options{Tools: weatherTools, Choice: Choice{Mode: Auto, Parallel: true}}
}

// checkSplits parses an answer as a whole, in pieces of several sizes and cut in two at many places, and demands the same parts.
func checkSplits(t *testing.T, f *Family, o Options, text string) []joined {
	t.Helper()
	whole := parse(f, o, text)
	for _, p := range whole {
		if p.Kind == CallArguments && !json.Valid([]byte(p.Text)) {
			t.Errorf("%s: arguments %s of %q", f.Name, p.Text, text)
		}
	}
	want := show(whole)
	for _, size := range []int{1, 2, 3, 7} {
		if got := show(parse(f, o, cutUp(text, size)...)); got != want {
			t.Errorf("%s: %q in pieces of %d\n  got %s\nwhole %s", f.Name, text, size, got, want)
		}
	}
	step := 1
	if len(text) > 64 {
		step = 5
	}
	for i := len(text) % step; i < len(text); i += step {
		if got := show(parse(f, o, text[:i], text[i:])); got != want {
			t.Errorf("%s: %q|%q\n  got %s\nwhole %s", f.Name, text[:i], text[i:], got, want)
		}
	}
	return whole
}

func cutUp(text string, size int) []string {
	var pieces []string
	for at := 0; at < len(text); at += size {
		pieces = append(pieces, text[at:min(len(text), at+size)])
	}
	return pieces
}

func TestGenericForm(t *testing.T) {
	off := auto()
	off.Choice.Mode = None
	one := auto()
	one.Choice.Parallel = false
	inside := auto()
	inside.Opening.Thinking = true
	const call = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Zürich\"}}\n</tool_call>"
	for _, c := range []struct {
		name, in, want string
		o              Options
	}{
		{"text", "Hello 🙂 there.\n", "T(Hello 🙂 there.\n)", auto()},
		{"one call", call, `C(get_weather {"city": "Zürich"})`, auto()},
		{"prose before", "Let me see.\n" + call, `T(Let me see.)C(get_weather {"city": "Zürich"})`, auto()},
		{"two calls", call + "\n" + call, `C(get_weather {"city": "Zürich"})C(get_weather {"city": "Zürich"})`, auto()},
		{"no parameters", "<tool_call>{\"name\": \"noop\"}</tool_call>", `C(noop {})`, auto()},
		{"null parameters", "<tool_call>{\"name\": \"noop\", \"arguments\": null}</tool_call>", `C(noop {})`, auto()},
		{"arguments first", "<tool_call>{\"arguments\": {\"a\": 1}, \"name\": \"sum\"}</tool_call>", `C(sum {"a": 1})`, auto()},
		{"arguments as text", `<tool_call>{"name": "sum", "arguments": "{\"a\": 1}"}</tool_call>!`, `C(sum {"a": 1})T(!)`, auto()},
		{"OpenAI's object", `<tool_call>{"type": "function", "function": {"name": "sum", "arguments": {"a": 1}}}</tool_call>`, `C(sum {"a": 1})`, auto()},
		{"list", `<tool_call>[{"name": "sum", "arguments": {"a": 1}}, {"name": "noop"}]</tool_call>`, `C(sum {"a": 1})C(noop {})`, auto()},
		{"marker in a string", `<tool_call>{"name": "sum", "arguments": {"a": "</tool_call>"}}</tool_call>`, `C(sum {"a": "</tool_call>"})`, auto()},
		{"unknown name", `<tool_call>{"name": "nope", "arguments": {}}</tool_call>` + call, `C(nope {})C(get_weather {"city": "Zürich"})`, auto()},
		{"doubled braces", "<tool_call>\n{{\"name\": \"sum\", \"arguments\": {\"a\": 1}}}\n</tool_call>", `C(sum {"a": 1})`, auto()},
		{"no call", "<tool_call>\nplease</tool_call>", "T(<tool_call>\nplease</tool_call>)", auto()},
		{"an object without a name", `a <tool_call>{"a": 1}</tool_call>`, `T(a <tool_call>{"a": 1}</tool_call>)`, auto()},
		{"brace too many", "<tool_call>{\"name\": \"sum\", \"arguments\": {\"a\": 1}}}\n</tool_call>\n" + call, `C(sum {"a": 1})C(get_weather {"city": "Zürich"})`, auto()},
		{"brace missing", "<tool_call>{\"name\": \"sum\", \"arguments\": {\"a\": 1}\n</tool_call>" + call, `C(sum {"a": 1})C(get_weather {"city": "Zürich"})`, auto()},
		{"broken arguments", `<tool_call>{"name": "sum", "arguments": {"a": 1, "b": oops}}</tool_call>ok`, `C(sum {"a": 1, "b":null})T(oops}}ok)`, auto()},
		{"cut", `<tool_call>{"name": "sum", "arguments": {"a": "x`, `C(sum {"a": "x"})`, auto()},
		{"cut before the arguments", `<tool_call>{"name": "su`, `T(<tool_call>{"name": "su)`, auto()},
		{"mode none", call, "T(" + call + ")", off},
		{"parallel false", call + call, `C(get_weather {"city": "Zürich"})`, one},
		{"thought", "<think>\nhm\n</think>\n\nyes", "R(hm)T(yes)", auto()},
		{"thought with a call in it", "<think>" + call + "</think>" + call, "R(" + call + `)C(get_weather {"city": "Zürich"})`, auto()},
		{"thought open in the prompt", "hm\n</think>\nyes", "R(hm)T(yes)", inside},
		{"thought never closed", "hm <tool_call>", "R(hm <tool_call>)", inside},
		{"thought mentioned", "Use <think> and </think>.", "T(Use <think> and </think>.)", auto()},
		{"closing marker alone", "</think>\n\nyes", "T(yes)", auto()},
		{"raw newline in a string", "<tool_call>{\"name\": \"sum\", \"arguments\": {\"a\": \"x\ny\"}}</tool_call>", `C(sum {"a": "x\ny"})`, auto()},
		{"Python's words", "<tool_call>{'name': 'sum', 'arguments': {'a': True, 'b': None}}</tool_call>", `C(sum {"a": true, "b": null})`, auto()},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := show(checkSplits(t, generic(think), c.o, c.in)); got != c.want {
				t.Errorf("%q\n got %s\nwant %s", c.in, got, c.want)
			}
		})
	}
}

func TestIDsOfCalls(t *testing.T) {
	o := auto()
	n := 0
	o.IDs = func(digits int) string { n++; return strings.Repeat(string(rune('a'+n)), digits) }
	const call = `<tool_call>{"name": "noop"}</tool_call>`
	got := parse(generic(think), o, call+call)
	if got[0].ID != "call_"+strings.Repeat("b", 24) || got[3].ID != "call_"+strings.Repeat("c", 24) {
		t.Errorf("ids %q and %q", got[0].ID, got[3].ID)
	}
	o.IDs = nil
	if got = parse(generic(think), o, call+call); got[3].ID != "call_000000000000000000000001" {
		t.Errorf("second id %q", got[3].ID)
	}
}

func TestControlTokensThatMarkNothingAreDropped(t *testing.T) {
	p := generic(think).NewParser(auto())
	got := join(nil, p.Append(nil, []byte("<|im_end|>"), true))
	got = join(got, p.Append(nil, []byte("<think>"), true))
	got = join(got, p.Append(nil, []byte("a"), false))
	got = join(got, p.Append(nil, []byte("</think>"), true))
	if p.Thinking() {
		t.Error("thinking after the closing marker")
	}
	got = join(got, p.Append(nil, []byte("b"), false))
	got = join(got, p.Append(nil, []byte("<|im_end|>"), true))
	if s := show(join(got, p.Close(nil))); s != "R(a)T(b)" {
		t.Error(s)
	}
}

func TestArgumentsStreamAsTheyCome(t *testing.T) {
	p := generic(think).NewParser(auto())
	p.Append(nil, []byte(`<tool_call>{"name": "get_weather", "arguments": {"city": "Zü`), false)
	parts := p.Append(nil, []byte("ri"), false)
	if len(parts) != 1 || parts[0].Kind != CallArguments || !bytes.Equal(parts[0].Bytes, []byte("ri")) {
		t.Errorf("%+v", parts)
	}
}

// TestValuesAreGivenWhenTheirEndHasCome: how long the head of a call was delays none of its values.
func TestValuesAreGivenWhenTheirEndHasCome(t *testing.T) {
	p := named(t, "kimi-k3").NewParser(auto())
	var parts []Part
	for _, c := range `<|open|>tools<|sep|><|open|>call tool="get_weather" index="1"<|sep|><|open|>argument key="days" type="number"<|sep|>2<|close|>argument<|sep|>` {
		parts = p.Append(nil, []byte(string(c)), false)
	}
	if len(parts) != 1 || string(parts[0].Bytes) != `"days": 2` {
		t.Errorf("%+v", parts)
	}
}

func TestSystemTextListsTools(t *testing.T) {
	text := generic(think).System(weatherTools)
	for _, want := range []string{`{"name":"get_weather","parameters":{"type":"object"`, "<tool_call>", `{"name":"noop"`} {
		if !strings.Contains(text, want) {
			t.Errorf("%q lacks %s", text, want)
		}
	}
	got := parse(generic(think), auto(), generic(think).CallText("Now.", []Call{{"sum", []byte(`{"a":1}`)}, {"noop", []byte(`{}`)}}))
	if show(got) != `T(Now.)C(sum {"a":1})C(noop {})` {
		t.Error(show(got))
	}
}
