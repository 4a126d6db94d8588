package tag_test

import (
	"errors"
	"strings"
	"testing"

	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/schema"
	"weir/tokenizer/grammar/tag"
)

// octets is a vocabulary of bytes and one control token.
var octets = func() *grammar.Vocabulary {
	pieces := make([][]byte, 257)
	for b := range 256 {
		pieces[b] = []byte{byte(b)}
	}
	return grammar.NewVocabulary(pieces, map[string]int32{"<call>": 256})
}()

func compile(text string, control bool) (*grammar.Grammar, []schema.Ignored, error) {
	b := grammar.NewBuilder(grammar.Limits{})
	o := tag.Options{Schema: schema.Options{Closed: true}}
	if control {
		o.Control = func(text string) bool { return text == "<call>" }
	}
	s, ignored, err := tag.Add(b, []byte(text), o)
	if err != nil {
		return nil, nil, err
	}
	g, err := b.Compile(s)
	return g, ignored, err
}

// fits reports whether a text is one of the grammar's. With control, <call> in it is the token.
func fits(t *testing.T, g *grammar.Grammar, text string, control bool) bool {
	t.Helper()
	m, err := g.Matcher(octets)
	if err != nil {
		t.Fatal(err)
	}
	for text != "" {
		id, n := int32(text[0]), 1
		if control && strings.HasPrefix(text, "<call>") {
			id, n = 256, len("<call>")
		}
		if m.Accept(id) != nil {
			return false
		}
		text = text[n:]
	}
	end, err := m.Mask(make([]uint64, octets.Words()))
	if err != nil {
		t.Fatal(err)
	}
	return end
}

const tags = `[{"type":"tag","begin":"<f=a>","content":{"type":"json_schema","json_schema":{"type":"integer"}},"end":"</f>"},
	{"begin":"<f=b>","content":{"type":"regex","pattern":"[x-z]+"},"end":["</f>","</g>"]}]`

func triggered(more string) string {
	return `{"type":"structural_tag","format":{"type":"triggered_tags","triggers":["<f="],"tags":` + tags + more + `}}`
}

func TestTexts(t *testing.T) {
	for _, c := range []struct {
		name, tag string
		control   bool
		good, bad []string
	}{
		{name: "structures and triggers", tag: `{"structures":[{"begin":"<f=a>","schema":{"type":"object","properties":{"n":{"type":"integer"}}},"end":"</f>"}],
			"triggers":["<f="]}`,
			good: []string{"", "text < f", `x<f=a>{"n": 1}</f>y<f=a>{}</f>`}, bad: []string{"<f=", "<f=b>1</f>", "<f=a>{</f>", `<f=a>{"n":"1"}</f>`}},
		{name: "text with tags", tag: triggered(``),
			good: []string{"", "x", "<f", "<f=a>1</f>", "x<f=a>1</f>y<f=b>zz</g>!"}, bad: []string{"<f=", "x<f=a>1", "<f=a>x</f>", "<f=c>1</f>", "<f=a>1</g>"}},
		{name: "one tag at least stands in front", tag: triggered(`,"at_least_one":true`),
			good: []string{"<f=a>1</f>", "<f=a>1</f>y", "<f=a>1</f>y<f=a>2</f>"}, bad: []string{"", "x", "x<f=a>1</f>"}},
		{name: "the answer ends behind the first", tag: triggered(`,"stop_after_first":true`),
			good: []string{"", "x", "x<f=a>1</f>"}, bad: []string{"<f=a>1</f>y", "<f=a>1</f><f=a>1</f>"}},
		{name: "exactly one", tag: triggered(`,"stop_after_first":true,"at_least_one":true`),
			good: []string{"<f=a>1</f>"}, bad: []string{"", "x", "x<f=a>1</f>", "<f=a>1</f>y"}},
		{name: "excludes", tag: triggered(`,"excludes":["no"]`), good: []string{"n o", "x<f=a>1</f>n"}, bad: []string{"no", "<f=a>1</f>no"}},
		{name: "tags with a separator", tag: `{"type":"tags_with_separator","separator":", ","tags":` + tags + `}`,
			good: []string{"", "<f=a>1</f>", "<f=a>1</f>, <f=b>x</f>"}, bad: []string{"x", "<f=a>1</f>, ", "<f=a>1</f><f=a>1</f>"}},
		{name: "free text inside a tag ends at the tag's end", tag: `{"type":"tag","begin":"<t>","content":{"type":"any_text","excludes":["!"]},"end":["</t>","</u>"]}`,
			good: []string{"<t></t>", "<t>a < b</u>"}, bad: []string{"<t>a</t>b</u>", "<t>!</t>", "a<t></t>"}},
		{name: "what is put together", tag: `{"format":{"type":"sequence","elements":[{"type":"optional","content":{"type":"const_string","value":"a"}},
			{"type":"repeat","min":1,"max":2,"content":{"type":"or","elements":[{"type":"const_string","value":"b"},{"type":"const_string","value":"c"}]}},
			{"type":"plus","content":{"type":"const_string","value":"d"}},{"type":"star","content":{"type":"const_string","value":"e"}}]}}`,
			good: []string{"abd", "bcdde", "cd"}, bad: []string{"ad", "bbbd", "ab", "aabd"}},
		{name: "grammars, counts of characters and dispatch", tag: `{"format":{"type":"dispatch","loop":false,"rules":[["#",{"type":"grammar","grammar":"root ::= \"é\"+"}],
			["$",{"type":"any_text","max_chars":2}]]}}`, good: []string{"", "x#éé", "y$éé"}, bad: []string{"#", "$ééé", "#é#é"}},
		{name: "blanks", tag: `{"type":"json_schema","json_schema":{"enum":[[1,2]]},"max_whitespace_cnt":2}`,
			good: []string{"[1,2]", "[ \n1,\t2  ]"}, bad: []string{"[1,   2]"}},
		{name: "control tokens are tokens", control: true, tag: `{"structures":[{"begin":"<call>{","schema":{"type":"null"},"end":"}<call>"}],"triggers":["<call>"]}`,
			good: []string{"x", "x<call>{null}<call>y"}, bad: []string{"<call>null", "<call>{null}"}},
		{name: "tokens", control: true, tag: `{"format":{"type":"tag","begin":{"type":"token","token":"<call>"},"content":{"type":"const_string","value":"x"},
			"end":{"type":"token","token":65}}}`, good: []string{"<call>xA"}, bad: []string{"x", "xA"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, _, err := compile(c.tag, c.control)
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range c.good {
				if !fits(t, g, text, c.control) {
					t.Errorf("%q is refused", text)
				}
			}
			for _, text := range c.bad {
				if fits(t, g, text, c.control) {
					t.Errorf("%q is let through", text)
				}
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct{ tag, pointer, reason string }{
		{`[]`, "", "JSON object"},
		{`{}`, "", "needs a format"},
		{`{"type":"structural_tag"}`, "", "needs a format"},
		{`{"format":{"type":"any_tokens"}}`, "/format", `"any_tokens" is not served`},
		{`{"format":{"type":"json_schema","json_schema":{},"style":"qwen_xml"}}`, "/format", "qwen_xml"},
		{`{"format":{"type":"json_schema"}}`, "/format/json_schema", "is missing"},
		{`{"format":{"type":"json_schema","json_schema":{"type":"x"}}}`, "/format/json_schema", "is no type"},
		{`{"format":{"type":"any_text","max_tokens":5}}`, "/format", "max_tokens"},
		{`{"format":{"type":"any_text","max_chars":-1}}`, "/format", "max_chars"},
		{`{"format":{"type":"any_text","excludes":[""]}}`, "/format", "empty"},
		{`{"format":{"type":"const_string","values":"x"}}`, "/format", "unknown field"},
		{`{"format":{"type":"sequence","elements":[{"type":"regex","pattern":"("}]}}`, "/format/elements/0/pattern", ""},
		{`{"format":{"type":"grammar","grammar":"root ::= x"}}`, "/format/grammar", ""},
		{`{"format":{"type":"repeat","min":2,"max":1,"content":{"type":"any_text"}}}`, "/format", "min and max"},
		{`{"format":{"type":"tag","begin":1,"content":{"type":"any_text"},"end":""}}`, "/format/begin", "must be a text"},
		{`{"format":{"type":"triggered_tags","triggers":["<g"],"tags":[{"begin":"<f","content":{"type":"any_text"},"end":"x"}]}}`, "/format/tags/0", "none of the triggers"},
		{`{"structures":[],"triggers":["x"]}`, "/structures", "at least one"},
		{`{"structures":[{"begin":"x","end":"y"}],"triggers":["x"]}`, "/structures/0/schema", "is missing"},
		{`{"format":` + strings.Repeat(`{"type":"star","content":`, 40) + `{"type":"any_text"}` + strings.Repeat("}", 41), "", "formats deep"},
	} {
		_, _, err := compile(c.tag, false)
		var wrong *tag.Error
		if !errors.As(err, &wrong) || c.pointer != "" && wrong.Pointer != c.pointer || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%.100s: %v", c.tag, err)
		}
	}
}

// TestIgnored: what a schema inside of a tag does not enforce is told with its place.
func TestIgnored(t *testing.T) {
	_, ignored, err := compile(`{"structures":[{"begin":"x","schema":{"type":"array","items":{"type":"object"},"uniqueItems":true},"end":""}],"triggers":["x"]}`, false)
	if err != nil || len(ignored) != 1 || ignored[0].Pointer != "/structures/0/schema/uniqueItems" {
		t.Errorf("%v, %v", ignored, err)
	}
}

func FuzzAdd(f *testing.F) {
	f.Add(triggered(``), "x<f=a>1</f>")
	f.Add(`{"structures":[{"begin":"<f>","schema":{},"end":"</f>"}],"triggers":["<"]}`, "<f>{}</f>")
	f.Add(`{"format":{"type":"sequence","elements":[{"type":"any_text","max_chars":3},{"type":"token","token":65}]}}`, "abcA")
	f.Add(`{"format":{"type":"dispatch","rules":[["#",{"type":"regex","pattern":"a+"}]]}}`, "#aa")
	f.Fuzz(func(t *testing.T, text, answer string) {
		g, _, err := compile(text, true)
		if err != nil {
			return
		}
		m, err := g.Matcher(octets)
		if err != nil {
			return
		}
		mask := make([]uint64, octets.Words())
		for i := range min(len(answer), 64) {
			if _, err := m.Mask(mask); err != nil {
				return
			}
			id := int32(answer[i])
			if allowed := mask[id>>6]>>(id&63)&1 != 0; allowed != m.Allows(id) || allowed != (m.Accept(id) == nil) {
				t.Fatalf("%q: the mask says %v of byte %d of %q", text, allowed, i, answer)
			}
		}
	})
}
