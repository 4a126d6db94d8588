package family

import (
	"testing"

	"weir/tokenizer/grammar"
)

// taken is how many bytes of a text a grammar takes, and whether the answer may end behind them.
func taken(t *testing.T, s *sampler, g *grammar.Grammar, text string) (int, bool) {
	t.Helper()
	m, err := g.Matcher(s.v)
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(text) {
		if m.Accept(int32(text[i])) != nil {
			return i, false
		}
	}
	end, err := m.Mask(make([]uint64, s.v.Words()))
	if err != nil {
		t.Fatal(err)
	}
	return len(text), end
}

// TestStrictCallsWithoutMarkersAreBound: from the name of a tool on, a call without markers has the arguments of the tool's schema and the end of
// what it stands in, as one with markers has.
func TestStrictCallsWithoutMarkersAreBound(t *testing.T) {
	const call = `{"name": "get_weather", "arguments": {"city":"Ulm","unit":"celsius"}}`
	for _, c := range []struct {
		text string
		n    int // bytes that are taken; -1: all, and the answer may end
	}{
		{call, -1},
		{"\n" + call + "\n", -1},
		{"Sure:\n```json\n" + call + "\n```", -1},
		{"```json\n" + call, -1}, // the parser reads a fence without its end, too
		{"<tools>[" + call + `,{"type": "function", "function": {"name": "store", "parameters": {"o":{},"n":1}}}]</tools>`, -1},
		{"{" + call + "}", -1},
		{"One.\n" + call + "\n" + call, -1},
		{"Sure: " + call + ", or " + `{"name": "get_weather"}`, -1}, // within a line: text
		{`{"name": "get_weatherman"} is no tool.`, -1},
		{"```python\nprint({})\n```\nThat is all.", -1},
		{`{"name": "get_weather", "arguments": {"city":5`, len(`{"name": "get_weather", "arguments": {"city":`)},
		{`{"name": "get_weather"}`, len(`{"name": "get_weather"`)},
		{"So:\n[" + `{"name": "get_weather", "parameters": {"unit"`, len("So:\n[" + `{"name": "get_weather", "parameters": {"`)},
		{call + " is the call", len(call) + 1},
	} {
		for _, name := range []string{"hermes", "generic", "nemotron", "command-r7b"} {
			f := named(t, name)
			s := newSampler(f, false, 1)
			g := compiled(t, f, Rules{Tools: flatTools, Choice: Choice{Mode: Auto, Parallel: true}, Schema: flatSchema})
			n, end := taken(t, s, g, c.text)
			if c.n < 0 && (n < len(c.text) || !end) || c.n >= 0 && n != c.n {
				t.Errorf("%s: %q: %d bytes taken, the end %v", name, c.text, n, end)
			}
		}
	}
}

// Calls of Llama stand bare by its own rules, and in fences by these.
func TestStrictFencedCallsOfLlama(t *testing.T) {
	f := named(t, "llama3")
	g := compiled(t, f, Rules{Tools: flatTools, Choice: Choice{Mode: Auto}, Schema: flatSchema})
	for text, all := range map[string]bool{
		"Sure:\n```json\n" + `{"name": "store", "parameters": {"o":{},"n":null}}` + "\n```": true,
		"```json\n" + `{"name": "store", "parameters": {"n":null}}` + "\n```":               false,
		`{"name": "store", "parameters": {"o":{},"n":null}}`:                                true,
	} {
		if n, end := taken(t, newSampler(f, false, 1), g, text); (n == len(text) && end) != all {
			t.Errorf("%q: %d bytes taken, the end %v", text, n, end)
		}
	}
}

// TestBoundCallsWithoutMarkersStream: where a grammar binds the answer, calls behind text stream, too.
func TestBoundCallsWithoutMarkersStream(t *testing.T) {
	o := auto()
	o.Bound = true
	p := named(t, "hermes").NewParser(o)
	got := join(nil, p.Append(nil, []byte("Sure:\n```json\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"U"), false))
	if got := show(got); got != `T(Sure:)C(get_weather {"city": "U` {
		t.Error(got)
	}
	if got := show(checkSplits(t, named(t, "hermes"), o, "Sure:\n```json\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Ulm\"}}\n```")); got != `T(Sure:)C(get_weather {"city": "Ulm"})` {
		t.Error(got)
	}
}
