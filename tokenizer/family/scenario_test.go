package family

import (
	"strings"
	"testing"

	"weir/tokenizer"
)

// named finds a family by its name.
func named(t testing.TB, name string) *Family {
	t.Helper()
	if own, ok := peerNames[name]; ok {
		name = own
	}
	for _, f := range every() {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("no family %q", name)
	return nil
}

// TestScenarios are answers that other servers were reported to read wrong, and the odd forms of each family.
func TestScenarios(t *testing.T) {
	const (
		v3      = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{\"city\": \"Ulm\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
		weather = `C(get_weather {"city": "Ulm"})`
	)
	for _, c := range []struct{ name, family, in, want string }{
		{"22 brace and end tag in one piece", "hermes", `<tool_call>{"name":"sum","arguments":{"a":1}}</tool_call>`, `C(sum {"a":1})`},
		{"23 no parameters in tags", "qwen3-coder", "<tool_call>\n<function=noop>\n</function>\n</tool_call>", "C(noop {})"},
		{"23 no parameters in a list", "lfm2", "<|tool_call_start|>[noop()]<|tool_call_end|>", "C(noop {})"},
		{"25 one tool three times", "lfm2", "<|tool_call_start|>[sum(a=1), sum(a=2), sum(a=3)]<|tool_call_end|>", `C(sum {"a": 1})C(sum {"a": 2})C(sum {"a": 3})`},
		{"26 an unknown name", "kimi-k2", "<|tool_calls_section_begin|><|tool_call_begin|>functions.what:0<|tool_call_argument_begin|>{}<|tool_call_end|>" +
			"<|tool_call_begin|>functions.noop:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>", "C(what {})C(noop {})"},
		{"31 prose before the call, odd tail", "deepseek-v3", "Well.\n" + v3 + "<｜tool▁calls▁end｜>  ", "T(Well.)" + weather},
		{"32 a value of another type", "qwen3-coder",
			"<function=get_weather>\n<parameter=days>\nmany\n</parameter>\n<parameter=exact>\nTrue\n</parameter>\n</function>",
			`C(get_weather {"days": "many", "exact": true})`},
		{"32 a string that looks like a number", "glm4",
			"<tool_call>get_weather<arg_key>city</arg_key><arg_value>12</arg_value><arg_key>days</arg_key><arg_value>12</arg_value></tool_call>",
			`C(get_weather {"city": "12", "days": 12})`},
		{"GLM with newlines", "glm4", "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Ulm</arg_value>\n</tool_call>", weather},
		{"33 a broken parameter", "qwen3-coder", "<tool_call><function=get_weather><parameter=\n<parameter=city>Ulm</parameter><parameter=days</function></tool_call>",
			`C(get_weather {"city": "Ulm"})`},
		{"33 an answer cut in a value", "qwen3-coder", "<function=get_weather><parameter=city>Ul", `C(get_weather {"city": "Ul"})`},
		{"JSON where tags are due", "qwen3-coder", `<tool_call>{"name": "get_weather", "arguments": {"city": "Ulm"}}</tool_call>`, weather},
		{"34 a trigger in a word", "functools", `What are functools[1]? See functools["x"].`, `T(What are functools[1]? See functools["x"].)`},
		{"35 garbled id", "kimi-k2", "<|tool_call_section_begin|><|tool_call_begin|>functionssum5<|tool_call_argument_begin|>{\"a\":1}<|tool_call_end|>" +
			"<|tool_call_section_end|>", `C(sum {"a":1})`},
		{"37 harmony, the usual", "harmony", "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather " +
			"<|constrain|>json<|message|>{\"city\": \"Ulm\"}<|call|>", "R(Hm.)" + weather},
		{"37 harmony, recipient first", "harmony", `<|start|>assistant to=functions.get_weather<|channel|>commentary json<|message|>{"city": "Ulm"}<|call|>`, weather},
		{"37 harmony, no start", "harmony", "<|channel|>analysis<|message|>Hm.<|end|><|channel|>final<|message|>Yes.<|return|>", "R(Hm.)T(Yes.)"},
		{"37 harmony, no end", "harmony", "<|channel|>analysis<|message|>Hm.<|start|>assistant<|channel|>final<|message|>Yes.", "R(Hm.)T(Yes.)"},
		{"37 harmony, no header", "harmony", "Just text.", "T(Just text.)"},
		{"37 harmony, preamble", "harmony", "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary to=functions.noop" +
			"<|message|>{}<|call|>", "T(I look.)C(noop {})"},
		{"Mistral up to v7", "mistral", `[TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Ulm"}}, {"name": "noop", "arguments": {}}]`, weather + "C(noop {})"},
		{"Ministral", "mistral-v13", `[TOOL_CALLS]get_weather[ARGS]{"city": "Ulm"}[TOOL_CALLS]noop[ARGS]{}`, weather + "C(noop {})"},
		{"Magistral's thought", "mistral-v11", "[THINK]a[/THINK]b", "R(a)T(b)"},
		{"Llama with a python tag", "llama3", `<|python_tag|>{"name": "get_weather", "parameters": {"city": "Ulm"}}`, weather},
		{"Llama's built-in call", "llama3", `<|python_tag|>sum.call(a="1")`, `C(sum {"a": "1"})`},
		{"Llama, JSON that is an answer", "llama3", `{"name": "Ulm", "people": 1}`, `T({"name": "Ulm", "people": 1})`},
		{"Llama, two calls", "llama3", `{"name": "noop", "parameters": {}}; {"name": "sum", "parameters": {"a": 1}}`, `C(noop {})C(sum {"a": 1})`},
		{"Llama, function with a type", "llama3", `{"type": "function", "name": "get_weather", "parameters": {"city": "Ulm"}}`, weather},
		{"Llama, code in Python", "llama3", "<|python_tag|>print(1)", "T(<|python_tag|>print(1))"},
		{"pythonic, positional and nested", "llama-pythonic", `[get_weather('Ulm', 2, where=[1, (2, 3)], o={'k': None})]`,
			`C(get_weather {"city": "Ulm", "days": 2, "where": [1, [2, 3]], "o": {"k": null}})`},
		{"functionary, text and call", "functionary-v3.2", ">>>all\nHi >>> there\n>>>sum\n{\"a\": 1}", `T(Hi >>> there)C(sum {"a": 1})`},
		{"functionary v3.1", "functionary-v3.1", `<function=get_weather>{"city": "Ulm"}</function>`, weather},
		{"Gemma", "gemma4", `<|channel>thought` + "\nHm.<channel|>" + `<|tool_call>call:get_weather{city:<|"|>U"l\m<|"|>,days:2,exact:true,o:{k:<|"|>v<|"|>}}<tool_call|>`,
			`R(Hm.)C(get_weather {"city":"U\"l\\m","days":2,"exact":true,"o":{"k":"v"}})`},
		{"MiniMax M3", "minimax-m3", "]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"get_weather\">]<]minimax[>[<city>Ulm]<]minimax[>[</city>" +
			"]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>", weather},
		{"Kimi K3, one JSON object", "kimi-k3", `<|open|>tools<|sep|><|open|>call tool="get_weather" index="1"<|sep|><|open|>json type="object"<|sep|>` +
			`{"city": "Ulm"}<|close|>json<|sep|><|close|>call<|sep|><|close|>tools<|sep|>`, weather},
		{"Kimi K3's channels", "kimi-k3", "<|open|>think<|sep|>a<|close|>think<|sep|><|open|>response<|sep|>b<|close|>response<|sep|>", "R(a)T(b)"},
		{"Command R, fenced", "command-r", "Action: ```json\n[\n  {\"tool_name\": \"get_weather\", \"parameters\": {\"city\": \"Ulm\"}}\n]```", weather},
		{"Command A's response", "command-r7b", "<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>b<|END_RESPONSE|>", "R(a)T(b)"},
		{"DSML, string by attribute", "deepseek-v3.2", "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"sum\">\n<｜DSML｜parameter name=\"a\" string=\"true\">one" +
			"</｜DSML｜parameter>\n<｜DSML｜parameter name=\"b\" string=\"false\">2</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
			`C(sum {"a": "one", "b": 2})`},
		{"Apriel, thought at once", "apriel", "so\n[BEGIN FINAL RESPONSE]\nHi[END FINAL RESPONSE]", "T(so\n[BEGIN FINAL RESPONSE]\nHi)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := show(checkSplits(t, named(t, c.family), auto(), c.in)); got != c.want {
				t.Errorf("%q\n got %s\nwant %s", c.in, got, c.want)
			}
		})
	}
}

func TestIDsOfModelsAreKept(t *testing.T) {
	for _, c := range []struct{ family, in, want string }{
		{"kimi-k2", "<|tool_call_begin|>functions.noop:3<|tool_call_argument_begin|>{}<|tool_call_end|>", "functions.noop:3"},
		{"kimi-k2", "<|tool_call_begin|>functionsnoop3<|tool_call_argument_begin|>{}<|tool_call_end|>", "call_000000000000000000000000"},
		{"mistral-v11", "[TOOL_CALLS]noop[CALL_ID]aB3456789[ARGS]{}", "aB3456789"},
		{"mistral-v11", "[TOOL_CALLS]noop[ARGS]{}", "000000000"},
		{"mistral", `[TOOL_CALLS][{"id": "aB3456789", "name": "noop", "arguments": {}}]`, "aB3456789"},
	} {
		if got := parse(named(t, c.family), auto(), cutUp(c.in, 4)...); got[0].Kind != CallStart || got[0].ID != c.want {
			t.Errorf("%s: %q has id %q, want %q", c.family, c.in, got[0].ID, c.want)
		}
	}
}

func TestOpeningComesFromThePromptsEnd(t *testing.T) {
	control := func(text string) tokenizer.Span { return tokenizer.Span{Text: text, Control: true} }
	user := tokenizer.Span{Text: "Explain <think> and <|start|>."}
	for _, c := range []struct {
		family   string
		end      string
		thinking bool
		thought  bool
		markup   string
	}{
		{"hermes", "<|im_end|>\n<|im_start|>assistant\n", false, false, ""},
		{"hermes", "<|im_end|>\n<|im_start|>assistant\n<think>\n", true, false, ""},
		{"hermes", "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n", false, true, ""},
		{"hermes", "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n<|im_end|>\n<|im_start|>assistant\n", false, false, ""},
		{"deepseek-v4", "<｜Assistant｜></think>", false, true, ""},
		{"gemma4", "<turn|>\n<|turn>model\n<|channel>thought\n<channel|>", false, true, ""},
		{"gemma4", "<turn|>\n<|turn>model\n<|channel>thought\n", true, false, ""},
		{"apriel", "\n<|begin_assistant|>\nHere are my reasoning steps:\n", true, false, ""},
		{"apriel", "\n<|begin_assistant|>\n", true, false, ""},
		{"harmony", "<|end|><|start|>assistant", false, false, "<|start|>assistant"},
		{"harmony", "<|end|><|start|>assistant<|channel|>analysis<|message|>", true, false, "<|start|>assistant<|channel|>analysis<|message|>"},
		{"functionary-v3.2", "<|end_header_id|>\n\n>>>", false, false, ">>>"},
	} {
		got := named(t, c.family).Opening([]tokenizer.Span{control("<|im_start|>user\n"), user, control(c.end)})
		if got.Thinking != c.thinking || got.Thought != c.thought || got.Markup != c.markup {
			t.Errorf("%s, %q: %+v", c.family, c.end, got)
		}
	}
}

func TestAnswersGoOnWhereThePromptEnds(t *testing.T) {
	for _, c := range []struct {
		family, in, want string
		o                Opening
	}{
		{"harmony", `<|channel|>final<|message|>Yes.`, "T(Yes.)", Opening{Markup: "<|start|>assistant"}},
		{"harmony", `Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.`, "R(Hm.)T(Yes.)",
			Opening{Thinking: true, Markup: "<|start|>assistant<|channel|>analysis<|message|>"}},
		{"functionary-v3.2", "sum\n{\"a\": 1}", `C(sum {"a": 1})`, Opening{Markup: ">>>"}},
		{"functionary-v3.2", "all\nHi", "T(Hi)", Opening{Markup: ">>>"}},
		{"apriel", "so\n[BEGIN FINAL RESPONSE]\nHi", "R(so)T(Hi)", Opening{Thinking: true}},
	} {
		o := auto()
		o.Opening = c.o
		if got := show(checkSplits(t, named(t, c.family), o, c.in)); got != c.want {
			t.Errorf("%s: %q: %s, want %s", c.family, c.in, got, c.want)
		}
	}
}

// TestLittleIsHeldBack is the bound on what streaming text waits for: the longest marker and the white space before it.
func TestLittleIsHeldBack(t *testing.T) {
	for _, f := range every() {
		longest := blankLimit
		for _, m := range f.calls.known {
			longest = max(longest, blankLimit+len(m))
		}
		p := f.NewParser(auto())
		text := strings.Repeat("a [ < { b \n\n >> ☃ ` \n", 40)
		given := 0
		for i := range len(text) {
			for _, part := range p.Append(nil, []byte(text[i:i+1]), false) {
				given += len(part.Bytes)
			}
			if held := i + 1 - given; held > longest {
				t.Fatalf("%s holds %d bytes back after %q", f.Name, held, text[max(0, i-40):i+1])
			}
		}
	}
}
