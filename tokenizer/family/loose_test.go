package family

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"

	"weir/internal/reference"
	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/regex"
)

// openTools have schemas that name no arguments, or not all.
var openTools = []Tool{
	{Name: "store", Parameters: []byte(`{"type":"object","additionalProperties":true}`)},
	{Name: "find", Parameters: []byte(`{"$ref":"#/$defs/q"}`)},
}

// TestCallsOfOpenSchemasAreRead samples calls of tools that do not name their arguments, of every family.
func TestCallsOfOpenSchemasAreRead(t *testing.T) {
	for i, f := range every() {
		t.Run(f.Name, func(t *testing.T) {
			if testing.Short() && i%4 != 0 {
				t.Skip("a quarter of the families")
			}
			for _, special := range []bool{false, true} {
				s := newSampler(f, special, 7)
				g := compiled(t, f, Rules{
					Tools: openTools, Choice: Choice{Mode: Required}, Opening: openingsOf(f)[0], Control: controlIf(special),
					Schema: func(b *grammar.Builder, schema []byte, strict bool) (grammar.Symbol, error) {
						if strings.Contains(string(schema), "$ref") {
							return 0, errors.New("no such definition")
						}
						return flatSchema(b, schema, strict)
					},
					Loose: func(tool *Tool, _ error) {
						if tool.Name != "find" {
							t.Errorf("the schema of %s does not bind", tool.Name)
						}
					},
				})
				for range 4 {
					text, parts := s.draw(t, g, f.NewParser(Options{Tools: openTools, Choice: Choice{Mode: Auto, Parallel: true}, Opening: openingsOf(f)[0], Bound: true}))
					content, arguments, names := told(parts)
					if content != "" || len(names) != 1 || !json.Valid([]byte(arguments[0])) || arguments[0][0] != '{' {
						t.Errorf("%q: content %q, calls %q %q", text, content, names, arguments)
					}
				}
			}
		})
	}
}

// A strict tool's schema binds, or is refused.
func TestStrictToolsAreNeverLoose(t *testing.T) {
	for _, f := range every() {
		tools := []Tool{{Name: "store", Strict: true, Parameters: openTools[0].Parameters}}
		_, err := f.Grammar(grammar.NewBuilder(grammar.Limits{}), Rules{
			Tools: tools, Choice: Choice{Mode: Auto}, Loose: func(*Tool, error) { t.Errorf("%s: a strict tool is loose", f.Name) },
			Schema: func(*grammar.Builder, []byte, bool) (grammar.Symbol, error) { return 0, errors.New("not enforced") },
		})
		if err == nil {
			t.Errorf("%s: no error", f.Name)
		}
	}
}

func compiled(t *testing.T, f *Family, r Rules) *grammar.Grammar {
	t.Helper()
	b := grammar.NewBuilder(grammar.Limits{})
	start, err := f.Grammar(b, r)
	if err != nil {
		t.Fatal(err)
	}
	g, err := b.Compile(start)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func controlIf(special bool) func(string) bool {
	if special {
		return isControl
	}
	return nil
}

// TestAutoLeavesTextAndThoughtsFree feeds the grammar of tool_choice auto what models write, by the tokens that their vocabularies have.
func TestAutoLeavesTextAndThoughtsFree(t *testing.T) {
	for _, c := range []struct {
		family, text string
		want         bool
	}{
		{"hermes", "Hi <tool or <tool_, and `{\"name\": \"noop\"}`.", true},
		{"hermes", "\n<think>hm {} hm</think>\n\nHi", true},
		{"hermes", "<tool_call>\n{\"name\": \"noop\", \"arguments\": {}}\n</tool_call>\n", true},
		{"hermes", "<tool_call>\n{\"name\": \"nope\"", false},
		{"hermes", "<tool_call>\n{\"name\": \"noop\", \"arguments\": []", false},
		{"hermes", "Hm <tool_call>please", false},
		{"mistral-v11", "[THINK]a[/THINK]Hi [THINK]b[/THINK] there[TOOL_CALLS]noop[CALL_ID]a23456789[ARGS]{}", true},
		{"command-r7b", "<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>b<|END_RESPONSE|>", true},
		{"kimi-k3", "<|open|>think<|sep|>a<|close|>think<|sep|><|open|>response<|sep|>b<|close|>response<|sep|>", true},
		{"llama3", "So:\n{\"name\": \"Ulm\", \"people\": 1}", true},
		{"llama3", "So:\n{\"name\": \"noop\", \"parameters\": {}}", true},
		{"llama3", "{\"type\": \"function\", \"name\": \"noop\", \"parameters\": {}}", true},
		{"llama3", "So: <|python_tag|>{\"name\": \"noop\", \"parameters\": {}}", true},
		{"llama3", "<|python_tag|>print(1)", false},
		{"llama3", "{\"name\": \"noop\", \"people\"", false},
		{"lfm2", "Let me see.<|tool_call_start|>[noop()]<|tool_call_end|>", true},
		{"lfm2", "[noop(1", false},
		{"llama-pythonic", "Well.\n[noop(), get_weather(city=\"Ulm\", unit=\"celsius\")]", true},
	} {
		f := named(t, c.family)
		s := newSampler(f, true, 1)
		g := compiled(t, f, Rules{
			Tools: flatTools, Choice: Choice{Mode: Auto, Parallel: true}, Thought: true, Schema: flatSchema, Control: isControl,
		})
		if whole := s.taken(t, g, c.text) == len(c.text); whole != c.want {
			t.Errorf("%s: %q: taken is %v, want %v", c.family, c.text, whole, c.want)
		}
	}
}

// taken is how many bytes of a text a grammar allows from its beginning, by the tokens that the sampler has for them.
func (s *sampler) taken(t *testing.T, g *grammar.Grammar, text string) (took int) {
	t.Helper()
	m, err := g.Matcher(s.v)
	if err != nil {
		t.Fatal(err)
	}
	for took < len(text) {
		rest, n := text[took:], 1
		id := int32(rest[0])
		if at := controlTokens.FindStringIndex(rest); at != nil && at[0] == 0 {
			if known, ok := s.names[rest[:at[1]]]; ok {
				id, n = known, at[1]
			}
		}
		if !m.Allows(id) || m.Accept(id) != nil {
			break
		}
		took += n
	}
	return took
}

// TestBoundAnswersBeginBehindAClosedThought: where the prompt has closed the thought, a required call or a format leaves the model no other one.
func TestBoundAnswersBeginBehindAClosedThought(t *testing.T) {
	body := func(b *grammar.Builder) *grammar.Symbol {
		s := b.Literal(`{"a":1}`)
		return &s
	}
	const call = "<|tool_call>call:noop{}<tool_call|>"
	for _, c := range []struct {
		family, thought, answer string
		choice                  Choice
		format                  bool
		free                    bool // a thought may stand in front of the answer, all the same
	}{
		{family: "gemma4", thought: "<|channel>thought\n", answer: call, choice: Choice{Mode: Required}},
		{family: "gemma4", thought: "<|channel>thought\n", answer: call, choice: Choice{Mode: Auto}, format: true},
		{family: "gemma4", thought: "<|channel>thought\n", answer: `{"a":1}`, format: true},
		{family: "gemma4", thought: "<|channel>thought\n", answer: "Hi " + call, choice: Choice{Mode: Auto}, free: true},
		{family: "hermes", thought: "<think>", answer: `{"a":1}`, format: true},
		{family: "hermes", thought: "<think>", answer: "Hi", free: true},
		{family: "mistral-v11", thought: "[THINK]", answer: "[TOOL_CALLS]noop[CALL_ID]a23456789[ARGS]{}", choice: Choice{Mode: Required}},
		{family: "command-r7b", thought: "<|START_THINKING|>", answer: `{"a":1}`, format: true},
	} {
		f := named(t, c.family)
		s := newSampler(f, true, 1)
		for _, closed := range []bool{false, true} {
			b := grammar.NewBuilder(grammar.Limits{})
			r := Rules{
				Tools: flatTools, Choice: c.choice, Opening: Opening{Thought: closed}, Thought: true, Schema: flatSchema, Control: isControl,
			}
			answer := c.answer
			if c.format {
				r.Body, answer = body(b), f.layout.contentOpen+answer
			}
			start, err := f.Grammar(b, r)
			if err != nil {
				t.Fatal(err)
			}
			g, err := b.Compile(start)
			if err != nil {
				t.Fatal(err)
			}
			if n := s.taken(t, g, answer); n != len(answer) {
				t.Errorf("%+v, closed %v: %d bytes of the answer are taken", c, closed, n)
			}
			whole := c.thought + "hm" + f.thought.close + answer
			if thinks := s.taken(t, g, whole) == len(whole); thinks != (c.free || !closed) {
				t.Errorf("%+v, closed %v: a thought is taken: %v", c, closed, thinks)
			}
		}
	}
}

// TestInputsAreReadBack samples calls of tools that take one text, in every family's form: the parser finds the text, and it is one of the
// grammar's, which has what JSON escapes and the beginnings of markers.
func TestInputsAreReadBack(t *testing.T) {
	reference.Slow(t)
	pattern := regex.Concat(regex.Literal("say\t\""), regex.Repeat(regex.Words("a", "\\", "é", "\n", "<", "{\"x\": 1}"), 1, 8), regex.Literal("\""))
	holds := regexp.MustCompile(`^say\t"(a|\\|é|\n|<|\{"x": 1\}){1,8}"$`)
	spelling := regex.NewSpelling(func(b byte) string {
		switch b {
		case '"', '\\':
			return `\` + string(rune(b))
		case '\n':
			return `\n`
		case '\t':
			return `\t`
		}
		return string([]byte{b})
	})
	tools := []Tool{{Name: "say", Strict: true, Parameters: []byte(`{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}`),
		Input: func(b *grammar.Builder, s InputSite) (grammar.Symbol, error) {
			if s.Quoted {
				return b.Regex(spelling.Regex(pattern)), nil
			}
			return b.Regex(regex.And(pattern, regex.Without(s.Ends...))), nil
		}}}
	for i, f := range every() {
		for _, choice := range []Choice{{Mode: Required}, {Mode: Required, Parallel: true}} {
			special := i%2 == 0
			s := newSampler(f, special, uint64(i), InputName)
			g := compiled(t, f, Rules{Tools: tools, Choice: choice, Opening: openingsOf(f)[0], Schema: flatSchema, Control: controlIf(special)})
			text, parts := s.draw(t, g, f.NewParser(Options{Tools: tools, Choice: choice, Opening: openingsOf(f)[0], Bound: true}))
			calls := 0
			for _, p := range parts {
				if p.Kind == CallArguments {
					calls++
					var got map[string]string
					if err := json.Unmarshal([]byte(p.Text), &got); err != nil || len(got) != 1 || !holds.MatchString(got[InputName]) {
						t.Errorf("%s: %q: %s: %v", f.Name, text, p.Text, err)
					}
				}
			}
			if calls == 0 {
				t.Errorf("%s: no call in %q", f.Name, text)
			}
		}
	}
}
