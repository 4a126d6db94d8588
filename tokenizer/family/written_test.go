package family

import (
	"testing"

	"weir/tokenizer/chat"
)

// written are answers as real models were seen to write them, by the tests of vLLM and llama.cpp, and by reports.
var written = []struct{ name, family, in, want string }{
	{"G4 a call in a thought that is never closed", "hermes", "<think>I call it.\n<tool_call>{\"name\": \"noop\"}</tool_call>", "R(I call it.)C(noop {})"},
	{"G4 the same in sections", "kimi-k2", "<think>Two.<|tool_calls_section_begin|><|tool_call_begin|>functions.noop:0<|tool_call_argument_begin|>{}<|tool_call_end|>",
		"R(Two.)C(noop {})"},
	{"G4 a call that is only thought of", "hermes", `<think>I could <tool_call>{"name": "noop"}</tool_call>.</think>No.`,
		`R(I could <tool_call>{"name": "noop"}</tool_call>.)T(No.)`},
	{"G4 a marker that is only thought of", "hermes", "<think>The tag is <tool_call>, I think.", "R(The tag is <tool_call>, I think.)"},
	{"G4 text that begins without the thought's end", "command-r7b", "<|START_THINKING|>a<|START_RESPONSE|>b<|END_RESPONSE|>", "R(a)T(b)"},

	{"LongCat's markers, by vLLM's test", "longcat", "Sure.\n<longcat_tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Tokyo\"}}</longcat_tool_call>\n<longcat_tool_call>{\"name\": \"noop\", \"arguments\": {}}</longcat_tool_call>",
		`T(Sure.)C(get_weather {"city": "Tokyo"})C(noop {})`},
	{"InternLM 2's markers, by vLLM's test", "internlm", "Let me see.<|action_start|><|plugin|>{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Tokyo\"}}<|action_end|>",
		`T(Let me see.)C(get_weather {"city": "Tokyo"})`},
	{"Jamba and Hunyuan A13B, by vLLM's tests", "apriel", " Sure! <tool_calls>[\n    {\"name\": \"get_weather\", \"arguments\": {\"city\": \"Dallas\"}},\n    {\"name\": \"noop\", \"arguments\": {}}\n]</tool_calls>",
		`T( Sure!)C(get_weather {"city": "Dallas"})C(noop {})`},
	{"xLAM's bare list behind a thought, by vLLM's test", "hermes", `<think>I'll help.</think>[{"name": "get_weather", "arguments": {"city": "Dallas"}}]`,
		`R(I'll help.)C(get_weather {"city": "Dallas"})`},

	{"G6 quotes in a string of Python", "lfm2", `<|tool_call_start|>[get_weather(city='sed -n '360,450p' /x', days=2)]<|tool_call_end|>`,
		`C(get_weather {"city": "sed -n '360,450p' /x", "days": 2})`},
	{"G6 double quotes in one", "lfm2", `<|tool_call_start|>[get_weather(city="say "hi" to all")]<|tool_call_end|>`, `C(get_weather {"city": "say \"hi\" to all"})`},
	{"G6 a set", "lfm2", `<|tool_call_start|>[get_weather(where={'agent','bug'}, o={'k': {1, 2}})]<|tool_call_end|>`,
		`C(get_weather {"where": ["agent","bug"], "o": {"k": [1, 2]}})`},
	{"G6 three quotes", "lfm2", "<|tool_call_start|>[get_weather(city=\"\"\"a\n\"b\" c\"\"\", days=1)]<|tool_call_end|>", `C(get_weather {"city": "a\n\"b\" c", "days": 1})`},
	{"G6 quotes in quotes in a string", "lfm2", "<|tool_call_start|> [get_weather(city='cd /x && python3 -c \"from sympy import latex\nprint(latex(3*x, mul_symbol='\\,'))\"')]<|tool_call_end|>",
		`C(get_weather {"city": "cd /x && python3 -c \"from sympy import latex\nprint(latex(3*x, mul_symbol='\\,'))\""})`},
	{"G6 quotes that are escaped", "lfm2", `<|tool_call_start|>[get_weather(city='Martha\'s Vineyard', s='\"cool units\"')]<|tool_call_end|>`,
		`C(get_weather {"city": "Martha's Vineyard", "s": "\"cool units\""})`},
	{"G6 a bracket in a string", "lfm2", `<|tool_call_start|>[get_weather(city='grep -F "]" log.txt')]<|tool_call_end|>`, `C(get_weather {"city": "grep -F \"]\" log.txt"})`},
	{"G6 zeros in front", "lfm2", `<|tool_call_start|>[sum(a=07, b=05)]<|tool_call_end|>`, `C(sum {"a": 7, "b": 5})`},
	{"G6 what cannot be read is text", "lfm2", "<|tool_call_start|>[get_weather(city=open('x'))]<|tool_call_end|>", "T(<|tool_call_start|>[get_weather(city=open('x'))]<|tool_call_end|>)"},
	{"G6 the second call cannot be read", "lfm2", "<|tool_call_start|>[noop(), sum(a=x y)]<|tool_call_end|>", "C(noop {})T(, sum(a=x y)]<|tool_call_end|>)"},
	{"G6 JSON that breaks off", "hermes", `<tool_call>{"name": "sum", "arguments": {"a": 1 "b": 2}}</tool_call> Done.`, `C(sum {"a": 1})T("b": 2}}Done.)`},

	{"G7 the end of a value is missing", "qwen3-coder", "<tool_call>\n<function=get_weather>\n<parameter=city>\nDallas\n<parameter=days>\n2\n</parameter>\n</function>\n</tool_call>",
		`C(get_weather {"city": "Dallas", "days": 2})`},
	{"G7 the same of the last one", "qwen3-coder", "<tool_call>\n<function=get_weather>\n<parameter=city>\nDallas\n</function>\n</tool_call>", `C(get_weather {"city": "Dallas"})`},
	{"G7 of a number", "qwen3-coder", "<tool_call>\n<function=get_weather>\n<parameter=days>\n2\n<parameter=city>\nDallas\n</parameter>\n</function>\n</tool_call>",
		`C(get_weather {"days": 2, "city": "Dallas"})`},
	{"G7 a tag of no argument is text", "qwen3-coder", "<function=get_weather>\n<parameter=city>\na\n<parameter=nope>\nb </function> c\n</parameter>\n</function>\n</tool_call>",
		`C(get_weather {"city": "a\n<parameter=nope>\nb </function> c"})`},
	{"G7 in other tags", "minimax-m2", `<minimax:tool_call><invoke name="get_weather"><parameter name="city">a<parameter name="days">2</parameter></invoke></minimax:tool_call>`,
		`C(get_weather {"city": "a", "days": 2})`},

	{"G8 tags in tags", "minimax-m3", "]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"get_weather\">]<]minimax[>[<o>]<]minimax[>[<o>]<]minimax[>[<k>1]<]minimax[>[</k>]<]minimax[>[</o>]<]minimax[>[</o>" +
		"]<]minimax[>[<where>]<]minimax[>[<item>a b]<]minimax[>[</item>]<]minimax[>[<item>2]<]minimax[>[</item>]<]minimax[>[</where>]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>",
		`C(get_weather {"o": {"o": {"k": 1}}, "where": ["a b", 2]})`},
	{"G9 the opening marker again", "hermes", "<think>\n<think>\nhm</think>yes", "R(hm)T(yes)"},

	{"G10 an empty thought without a newline", "gemma4", "<|channel>thought<channel|>Hi", "T(Hi)"},
	{"G10 a channel again", "gemma4", "<|channel>thought\nhm<channel|><|channel>Hi", "R(hm)T(Hi)"},
	{"G10 a stray end", "gemma4", "Hi<channel|> there", "T(Hi there)"},
	{"a thought's channel without its name", "gemma4", "<|channel>Three cities.\n<channel|>Ulm", "R(Three cities.)T(Ulm)"},
	{"the same without an end", "gemma4", "<|channel>Three cit", "R(Three cit)"},
	{"the same behind text", "gemma4", "Ulm.<|channel>Hi", "T(Ulm.Hi)"},
	{"G10 a colon too many", "gemma4", "<|tool_call>:noop{}<tool_call|>", "C(noop {})"},
	{"G10 without call", "gemma4", `<|tool_call>get_weather{city:<|"|>Ulm<|"|>}<tool_call|>`, `C(get_weather {"city":"Ulm"})`},
	{"G10 without its opener", "gemma4", "<|channel>thought\nhm<channel|>call:noop{}", "R(hm)C(noop {})"},
	{"G10 the same on a line", "gemma4", "So:\ncall:noop{}", "T(So:)C(noop {})"},

	{"G14 a thought by its last channel", "harmony", "<|channel|>commentary to=assistant<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.",
		"R(Hm.)T(Yes.)"},
	{"G14 a tool that the request lacks", "harmony", `<|start|>assistant to=browser.search<|channel|>commentary<|message|>{"q": "x"}<|call|>`, `C(browser.search {"q": "x"})`},
	{"G15 granite's markers as text", "granite", `<tool_call>[{"name": "noop", "arguments": {}}]`, "C(noop {})"},
	{"G15 Llama's call behind prose", "llama3", `Here it is: {"name": "get_weather", "parameters": {"city": "Ulm"}} Anything else?`, `T(Here it is:)C(get_weather {"city": "Ulm"})T(Anything else?)`},
	{"G15 an object that is no call behind prose", "llama3", `Here it is: {"name": "Ulm", "people": 1}.`, `T(Here it is: {"name": "Ulm", "people": 1}.)`},
	{"G15 an object around the arguments", "deepseek-v3.2", "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"arguments\" string=\"false\">{\"city\": \"Ulm\"}" +
		"</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>", `C(get_weather {"city": "Ulm"})`},
	{"an object around the arguments by another name", "deepseek-v3.2", "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"input\" string=\"true\">" +
		"{\"city\": \"Ulm\", \"days\": 2}</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>", `C(get_weather {"city": "Ulm", "days": 2})`},
	{"an argument that only has such a name", "deepseek-v3.2", "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"input\" string=\"true\">" +
		"Ulm</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>", `C(get_weather {"input": "Ulm"})`},
	{"G15 a string that the tag calls JSON", "deepseek-v3.2", "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"city\" string=\"false\">null" +
		"</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>", `C(get_weather {"city": "null"})`},
	{"a string where the schema has a number", "deepseek-v3.2", "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"days\" string=\"true\">2" +
		"</｜DSML｜parameter>\n<｜DSML｜parameter name=\"city\" string=\"true\">2</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
		`C(get_weather {"days": 2, "city": "2"})`},
	{"escapes in attributes", "kimi-k3", `<|open|>tools<|sep|><|open|>call tool="get_weather" index="1"<|sep|><|open|>argument key="a&amp;b&quot;<c" type="string"<|sep|>x&amp;y` +
		"<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>", `C(get_weather {"a&b\"<c": "x&amp;y"})`},
	{"functools of Phi-4-mini", "phi4_mini_json", "Well.\nfunctools[{\"name\": \"noop\", \"arguments\": {}},\n {\"name\": \"sum\", \"arguments\": {\"a\": 1}}]",
		`T(Well.)C(noop {})C(sum {"a": 1})`},
	{"the markers of Phi-4-mini", "phi4_mini_json", `<|tool_call|>[{"name": "noop", "arguments": {}}]<|/tool_call|>`, "C(noop {})"},
	{"Python between Llama 4's markers", "llama4_pythonic", "<|python_start|>[get_weather(city='LA', days=2), noop()]<|python_end|>", `C(get_weather {"city": "LA", "days": 2})C(noop {})`},
	{"a name twice", "muse-glimmer", " to=noop.noop<|message|><atem:function_calls>\n<atem:invoke name=\"noop.noop\">\n</atem:invoke>\n</atem:function_calls><|eot|>", "C(noop {})"},

	{"noise in a section", "kimi-k2", "Reasoning. <|tool_calls_section_begin|> spurious noise <|tool_call_begin|>functions.noop:0 <|tool_call_argument_begin|>{\"k\": \"v\"} <|tool_call_end|><|tool_calls_section_end|>",
		`T(Reasoning.)C(noop {"k": "v"})`},
	{"a section that is only mentioned", "kimi-k2", "The marker <|tool_calls_section_begin|> opens a section, <|tool_calls_section_end|> ends it.",
		"T(The marker <|tool_calls_section_begin|> opens a section, <|tool_calls_section_end|> ends it.)"},
	{"a list of calls twice", "lfm2", "<|tool_call_start|>[get_weather(where=[{'name': 'apple', 'quantity': '2'}], city='123 Main St')]<|tool_call_end|>" +
		"[get_weather(where=[{'name': 'apple', 'quantity': '2'}], city='123 Main St')]<|tool_call_end|>", `C(get_weather {"where": [{"name": "apple", "quantity": "2"}], "city": "123 Main St"})`},
	{"the same, a name that the request lacks, and text behind", "lfm2", "<|tool_call_start|>[a.b(c='x'), noop()]<|tool_call_end|>\n[a.b(c='x'), noop()]\n<|tool_call_end|>\nDone.",
		`C(a.b {"c": "x"})C(noop {})T(Done.)`},
	{"another list behind the first", "lfm2", "<|tool_call_start|>[sum(a=1)]<|tool_call_end|>[sum(a=2)]<|tool_call_end|>", `C(sum {"a": 1})C(sum {"a": 2})`},
	{"an argument twice", "minicpm5", "<function name=\"get_weather\"><param name=\"city\">北京</param><param name=\"city\">上海</param></function>\n",
		"T(<function name=\"get_weather\"><param name=\"city\">北京</param><param name=\"city\">上海</param></function>\n)"},
	{"an argument without a name", "minicpm5", `<function name="get_weather"><param>北京</param><param name="days">2</param></function>`,
		`T(<function name="get_weather"><param>北京</param><param name="days">2</param></function>)`},
	{"an argument without a name in a call that streams", "qwen3-coder", "<tool_call>\n<function=get_weather>\n<parameter=city>\nUlm\n</parameter>\n<parameter=>\n2\n</parameter>\n</function>\n</tool_call>",
		"C(get_weather {\"city\": \"Ulm\"})T(<parameter=>\n2\n</parameter>\n</function>)"},
	{"arguments that are no JSON", "llama3", `{"name": "noop", "parameters": {invalid json}`, `T({"name": "noop", "parameters": {invalid json})`},
	{"the same between markers", "hermes", `<tool_call>{"name": "noop", "arguments": {invalid json}}</tool_call>`, `T(<tool_call>{"name": "noop", "arguments": {invalid json}}</tool_call>)`},
	{"the same behind a name", "kimi-k2", "<|tool_calls_section_begin|><|tool_call_begin|>functions.noop:0<|tool_call_argument_begin|>{invalid}<|tool_call_end|><|tool_calls_section_end|>",
		"T(<|tool_calls_section_begin|><|tool_call_begin|>functions.noop:0<|tool_call_argument_begin|>{invalid}<|tool_call_end|><|tool_calls_section_end|>)"},
	{"an item of a list that is no call", "hermes", `<tool_call>[{"name": "noop"}, {"city": "Ulm"}, {"name": "sum", "arguments": {"a": 1}}]</tool_call>`,
		`C(noop {})T({"city": "Ulm"})C(sum {"a": 1})`},

	{"G17 MiniCPM5, CDATA", "minicpm5", `<function name="get_weather"><param name="city"><![CDATA[a </param> <b>]]></param><param name="days">2</param></function>`,
		`C(get_weather {"city": "a </param> <b>", "days": 2})`},
	{"G17 MiniCPM5 without blanks, and an object around the arguments", "minicpm5", `<functionname="get_weather"><paramname="properties">{'city': 'Ulm'}</param></function>`,
		`C(get_weather {"city": "Ulm"})`},
	{"Seed-OSS, lines of a value", "seed-oss", "<seed:tool_call>\n<function=get_weather>\n<parameter=city>\nUlm\n</parameter>\n</function>\n</seed:tool_call>",
		`C(get_weather {"city": "\nUlm\n"})`},
	{"G17 Hy3", "hy3", "Checking.<tool_calls>\n<tool_call>get_weather<tool_sep>\n<arg_key>city</arg_key>\n<arg_value>Beijing</arg_value>\n</tool_call>\n<tool_call>noop<tool_sep></tool_call></tool_calls>",
		`T(Checking.)C(get_weather {"city": "Beijing"})C(noop {})`},
	{"G17 Solar Open2", "solar-open2", "<|think:start|>hm<|think:end|>Well.<|tool_call:start|>get_weather\n<|tool_arg:start|>city<|tool_arg:value|>Seoul<|tool_arg:end|>\n<|tool_call:end|>",
		`R(hm)T(Well.)C(get_weather {"city": "Seoul"})`},
	{"G17 Solar Open2, ends missing", "solar-open2", "<|tool_call:start|>get_weather\n<|tool_arg:start|>city<|tool_arg:value|>oops<|tool_call:end|><|tool_call:start|>noop\n<|tool_call:end|>",
		`C(get_weather {"city": "oops"})C(noop {})`},
	{"G17 Solar Open", "solar-open", "<|think|>hm<|end|><|begin|>assistant<|tool_calls|><|tool_call:begin|>123456789<|tool_call:name|>noop<|tool_call:args|>{}<|tool_call:end|><|calls|>",
		"R(hm)C(noop {})"},
	{"G17 Granite 20B FC", "granite-20b-fc", "<function_call> {\"name\": \"noop\", \"arguments\": {}}\n<function_call> {\"name\": \"sum\", \"arguments\": {\"a\": 1}}",
		`C(noop {})C(sum {"a": 1})`},
	{"G17 Muse Glimmer", "muse-glimmer", " to=self<|message|>hm<|eom|><|start|>assistant to=get_weather<|message|><atem:function_calls>\n<atem:invoke name=\"get_weather\">\n" +
		"<atem:parameter name=\"city\">Ulm</atem:parameter>\n</atem:invoke>\n</atem:function_calls><|eom|><|start|>assistant to=user<|message|>Done.<|eot|>",
		`R(hm)C(get_weather {"city": "Ulm"})T(Done.)`},
}

func TestAnswersAsRealModelsWriteThem(t *testing.T) {
	for _, c := range written {
		t.Run(c.name, func(t *testing.T) {
			if got := show(checkSplits(t, named(t, c.family), auto(), c.in)); got != c.want {
				t.Errorf("%q\n got %s\nwant %s", c.in, got, c.want)
			}
		})
	}
}

// TestUnreadableCallsAreCounted: what could not be read is text, and counted once, in any split.
func TestUnreadableCallsAreCounted(t *testing.T) {
	for _, c := range []struct {
		family, in string
		want       int
	}{
		{"hermes", `<tool_call>{"name": "sum", "arguments": {"a": 1 "b": 2}}</tool_call>`, 1},
		{"hermes", `<tool_call>{"name": "sum", "arguments": {"a": 1}}</tool_call>`, 0},
		{"hermes", "no call", 0},
		{"hermes", `<tool_call>{"name": "sum", "arguments": {invalid}}</tool_call>`, 1},
		{"hermes", `<tool_call>[{"name": "noop"}, {"name": "sum", "arguments": {invalid}}]</tool_call>`, 1},
		{"hermes", `<tool_call>[{"name": "noop"}, {"city": "Ulm"}]</tool_call>`, 1},
		{"llama3", `{"name": "noop", "parameters": {invalid json}`, 1},
		{"kimi-k2", "<|tool_call_begin|>functions.noop:0<|tool_call_argument_begin|>{invalid}<|tool_call_end|>", 1},
		{"kimi-k2", "<|tool_call_begin|>functions.noop:0<|tool_call_argument_begin|>invalid<|tool_call_end|>", 1},
		{"harmony", "<|start|>assistant to=python<|channel|>commentary<|message|>print(1)<|call|>", 1},
		{"lfm2", "<|tool_call_start|>[sum(a=x y)]<|tool_call_end|>", 1},
		{"lfm2", "<|tool_call_start|>[noop(), sum(a=x y)]<|tool_call_end|>", 1},
		{"minicpm5", `<function name="sum"><param name="a">1</param><param name="a">2</param></function>`, 1},
		{"qwen3-coder", "<tool_call>\n<function=sum>\n<parameter=>\n2\n</parameter>\n</function>\n</tool_call>", 1},
	} {
		for _, size := range []int{1, 3, len(c.in)} {
			p := named(t, c.family).NewParser(auto())
			for _, piece := range cutUp(c.in, size) {
				p.Append(nil, []byte(piece), false)
			}
			p.Close(nil)
			if p.Unreadable() != c.want {
				t.Errorf("%s: %q in pieces of %d: %d calls, want %d", c.family, c.in, size, p.Unreadable(), c.want)
			}
		}
	}
}

// TestTemplatesAreKnownByWhatTheyWrite: markers that macros build, and calls without any.
func TestTemplatesAreKnownByWhatTheyWrite(t *testing.T) {
	for _, c := range []struct {
		name, source, family, end string
		thinking                  bool // where a prompt ends
	}{
		{"G3 Llama 3.2", `{{ bos_token }}{% for m in messages %}{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' }}` +
			`{% if m.tool_calls %}{% if m.tool_calls | length != 1 %}{{ raise_exception('This model only supports single tool-calls at once!') }}{% endif %}` +
			`{{ '{"name": "' + m.tool_calls[0].function.name + '", "parameters": ' }}{{ m.tool_calls[0].function.arguments | tojson }}{{ '}' }}` +
			`{% else %}{% if tools and m.role == 'user' %}{{ 'Respond in the format {"name": function name, "parameters": …}.\n' }}{{ tools | tojson }}{% endif %}{{ m.content }}{% endif %}{{ '<|eot_id|>' }}{% endfor %}` +
			`{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}`, "llama3", "</think>", false},
		{"G5 markers from a macro", `{% macro tag(how, name) %}<|{{ how }}|>{{ name }}<|sep|>{% endmacro %}{% for m in messages %}{{ m.content }}{% if m.reasoning_content %}` +
			`{{ tag('open', 'think') }}{{ m.reasoning_content }}{{ tag('close', 'think') }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ tag('open', 'think') }}{% endif %}`,
			"generic", "<|close|>think<|sep|>", true},
		{"G17 Hy3", history(`<tool_calls>{{ '\n' }}`, `<tool_call>{{ c.function.name }}<tool_sep>{{ '\n' }}{% for k, v in c.function.arguments.items() %}<arg_key>{{ k }}</arg_key>{{ '\n' }}<arg_value>{{ v }}</arg_value>{{ '\n' }}{% endfor %}</tool_call>{{ '\n' }}`,
			`</tool_calls>`), "hy3", "</think>", false},
		{"G17 Solar Open2", history("", `<|tool_call:start|>{{ c.function.name + '\n' }}{% for k, v in c.function.arguments.items() %}<|tool_arg:start|>{{ k }}<|tool_arg:value|>{{ v }}<|tool_arg:end|>{{ '\n' }}{% endfor %}<|tool_call:end|>`,
			"") + `{% if add_generation_prompt %}<|think:start|>{% else %}<|think:end|>{% endif %}`, "solar-open2", "<|think:end|>", true},
		{"G17 Solar Open", history("<|tool_calls|>", `<|tool_call:begin|>{{ c.id }}<|tool_call:name|>{{ c.function.name }}<|tool_call:args|>{{ c.function.arguments | tojson }}<|tool_call:end|>`,
			"<|calls|>") + `{% if add_generation_prompt %}<|think|>{% else %}<|end|>{% endif %}`, "solar-open", "<|end|>", true},
		{"G17 Granite 20B FC", history("", `<function_call> {{ {"name": c.function.name, "arguments": c.function.arguments} | tojson }}{{ '\n' }}`, ""), "granite-20b-fc", "</think>", false},
	} {
		template, err := chat.Parse(c.source, chat.Options{})
		if err != nil {
			t.Fatal(err)
		}
		f := Detect(template)
		if _, end := f.ThoughtMarkers(); f.Name != c.family || end != c.end {
			t.Errorf("%s: family %s, thoughts end with %q", c.name, f.Name, end)
		}
		spans, err := template.Render(chat.Input{Messages: fromJSON(`[{"role":"user","content":"hi"}]`), AddGenerationPrompt: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Opening(spans).Thinking; got != c.thinking {
			t.Errorf("%s: the prompt ends inside of a thought: %v", c.name, got)
		}
	}
}

// history is a template that lists tools and writes calls between two texts.
func history(begin, call, end string) string {
	return `{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}{{ '\n' }}{% if m.tool_calls %}` + begin +
		`{% for c in m.tool_calls %}` + call + `{% endfor %}` + end + `{% else %}{{ m.content }}{% endif %}<|im_end|>{% endfor %}`
}
