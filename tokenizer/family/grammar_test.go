package family

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"weir/internal/reference"
	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/regex"
)

// flatSchema compiles the schemas of these tests: objects of scalars, closed, properties in order.
func flatSchema(b *grammar.Builder, schema []byte, strict bool) (grammar.Symbol, error) {
	if bytes.Contains(schema, []byte(`"properties"`)) {
		list := properties(schema)
		g := builder{b: b, layout: layout{style: styleGemma}}
		members := make([][]grammar.Symbol, len(list))
		for i, p := range list {
			value, err := flatSchema(b, p.schema, strict)
			if err != nil {
				return 0, err
			}
			members[i] = []grammar.Symbol{b.Literal(`"` + p.name + `":`), value}
		}
		all := g.members(list, members, 0, false, map[progress]grammar.Symbol{})
		return b.Define("object", []grammar.Symbol{b.Literal("{"), all, b.Literal("}")}), nil
	}
	var s struct {
		Enum    []json.RawMessage
		Pattern string
	}
	if err := json.Unmarshal(schema, &s); err != nil {
		return 0, err
	}
	var forms []*regex.Regex
	for _, v := range s.Enum {
		forms = append(forms, regex.Literal(string(v)))
	}
	if len(forms) > 0 {
		return b.Regex(regex.Or(forms...)), nil
	}
	t := typesIn(schema, nil, 0)
	if s.Pattern != "" { // of flatTools
		return b.Regex(regex.Concat(regex.Literal(`"`), regex.Repeat(regex.ByteRange('A', 'Z'), 2, 3), regex.Literal(`"`))), nil
	}
	for _, f := range []struct {
		types   types
		pattern string
	}{
		{typeString, `^"[ -!#-\[\]-~à-ü]{0,12}"$`}, {typeInteger, `^-?(0|[1-9][0-9]{0,5})$`}, {typeBoolean, `^(true|false)$`}, {typeNull, `^null$`},
		{typeArray, `^\[("a<b"(, "c")?)?\]$`}, {typeObject, `^\{("k": 1)?\}$`},
	} {
		if t&f.types != 0 {
			r, err := regex.Parse(f.pattern, regex.JavaScript)
			if err != nil {
				return 0, err
			}
			forms = append(forms, r)
		}
	}
	return b.Regex(regex.Or(forms...)), nil
}

var flatTools = []Tool{
	{Name: "get_weather", Strict: true, Parameters: []byte(`{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"},
		"unit":{"type":"string","enum":["celsius","fahrenheit"]},"exact":{"type":"boolean"},"where":{"type":"array"},
		"code":{"type":"string","minLength":2,"maxLength":3,"pattern":"^[A-Z]*$"},"level":{"enum":[1,2]}},"required":["city","unit"]}`)},
	{Name: "store", Parameters: []byte(`{"type":"object","properties":{"o":{"type":"object"},"n":{"type":["integer","null"]}},"required":["o","n"]}`)},
	{Name: "noop", Parameters: []byte(`{"type":"object","properties":{}}`)},
}

// fitsFlat checks arguments against the schemas of flatTools.
func fitsFlat(name, arguments string) error {
	var got map[string]any
	if err := json.Unmarshal([]byte(arguments), &got); err != nil {
		return err
	}
	i := slices.IndexFunc(flatTools, func(t Tool) bool { return t.Name == name })
	if i < 0 {
		return fmt.Errorf("no tool %q", name)
	}
	var s struct {
		Properties map[string]struct {
			Type      any
			Enum      []any
			MinLength int
			MaxLength *int
			Pattern   string
		}
		Required []string
	}
	if err := json.Unmarshal(flatTools[i].Parameters, &s); err != nil {
		return err
	}
	for _, r := range s.Required {
		if _, ok := got[r]; !ok {
			return fmt.Errorf("%s is missing", r)
		}
	}
	for k, v := range got {
		p, ok := s.Properties[k]
		if !ok {
			return fmt.Errorf("%s is no property", k)
		}
		if len(p.Enum) > 0 && !slices.Contains(p.Enum, v) {
			return fmt.Errorf("%s is %v", k, v)
		}
		raw, _ := json.Marshal(v)
		schema, _ := json.Marshal(map[string]any{"type": p.Type})
		if p.Type != nil && typeOfJSON(raw)&typesIn(schema, nil, 0) == 0 {
			return fmt.Errorf("%s is %s", k, raw)
		}
		text, _ := v.(string)
		if n := utf8.RuneCountInString(text); n < p.MinLength || p.MaxLength != nil && n > *p.MaxLength || p.Pattern != "" && strings.ToUpper(text) != text {
			return fmt.Errorf("%s is %q", k, text)
		}
	}
	return nil
}

// sampler draws answers that a grammar allows.
type sampler struct {
	v       *grammar.Vocabulary
	pieces  [][]byte
	control []bool
	names   map[string]int32 // control tokens
	rand    *rand.Rand
	marks   map[int]bool // tokens of the family's markup
	ends    map[int]bool // tokens that help an answer to its end
}

// newSampler has a token for each byte, one for each piece of a family's markup (with the names of arguments where tags hold them), and the
// family's control tokens.
func newSampler(f *Family, special bool, seed uint64, keys ...string) *sampler {
	s := &sampler{rand: rand.New(rand.NewPCG(seed, 3)), marks: map[int]bool{}, ends: map[int]bool{}}
	names := map[string]int32{}
	s.names = names
	for b := range 256 {
		s.pieces = append(s.pieces, []byte{byte(b)})
		s.ends[b] = strings.ContainsRune("]})\"", rune(b))
	}
	l := f.layout
	ends := append([]string{l.end, l.close, "<|end|>"}, f.calls.closers...)
	if f.thought != nil {
		ends = append(ends, f.thought.close)
	}
	if m := f.calls.messages; m != nil {
		ends = append(ends, m.end)
	}
	if g := f.calls.tags; g != nil {
		ends = append(ends, g.end, "\n"+g.valueEnd)
		for _, key := range append(keys, "city", "code") {
			ends = append(ends, g.ends(key)...)
		}
	}
	if f.calls.syntax != nil {
		ends = append(ends, f.calls.syntax.quote)
	}
	marks := append(slices.Clone(f.calls.known), l.begin, l.open, l.mid, l.close, l.end, l.sep, l.param[0], l.param[1], l.paramEnd)
	marks = append(marks, ends...)
	slices.Sort(marks)
	for _, m := range slices.Compact(marks) {
		if m == "" {
			continue
		}
		list := []string{m}
		if special {
			list = controlTokens.FindAllString(m, -1)
			if len(list) == 0 {
				list = []string{m}
			}
		}
		for _, token := range list {
			if _, ok := names[token]; ok {
				continue
			}
			s.marks[len(s.pieces)] = true
			s.ends[len(s.pieces)] = slices.ContainsFunc(ends, func(e string) bool { return e != "" && strings.HasPrefix(e, token) })
			if special && isControl(token) {
				names[token] = int32(len(s.pieces))
			}
			s.pieces = append(s.pieces, []byte(token))
		}
	}
	texts := slices.Clone(s.pieces)
	s.control = make([]bool, len(texts))
	for _, id := range names {
		texts[id], s.control[id] = nil, true
	}
	s.v = grammar.NewVocabulary(texts, names)
	return s
}

// controlTokens are what the samplers with control tokens take for one.
var controlTokens = regexp.MustCompile(`<\|[a-zA-Z_"/]+\|?>|<[a-z_]+\|>|</?｜[^｜>]*｜>?|\[/?[A-Z_]+\]|</?tool_call>|</?think>`)

func isControl(text string) bool { return text != "" && controlTokens.FindString(text) == text }

// draw samples an answer and feeds it to a parser.
func (s *sampler) draw(t *testing.T, g *grammar.Grammar, p *Parser) (text string, parts []joined) {
	t.Helper()
	m, err := g.Matcher(s.v)
	if err != nil {
		t.Fatal(err)
	}
	mask := make([]uint64, s.v.Words())
	for step := range 3000 {
		end, err := m.Mask(mask)
		if err != nil {
			t.Fatal(err)
		}
		var plain, marks, ends []int
		for id := range s.pieces {
			if mask[id>>6]>>(id&63)&1 == 0 {
				continue
			}
			if s.ends[id] {
				ends = append(ends, id)
			}
			if s.marks[id] {
				marks = append(marks, id)
			} else {
				plain = append(plain, id)
			}
		}
		if end && (len(plain)+len(marks) == 0 || s.rand.IntN(4) == 0 || step > 300) {
			return text, join(parts, p.Close(nil))
		}
		from := plain
		if len(marks) > 0 && (len(plain) == 0 || s.rand.IntN(6) == 0) {
			from = marks
		}
		if len(ends) > 0 && (s.rand.IntN(12) == 0 || step > 150) {
			from = ends
		}
		if len(from) == 0 {
			t.Fatalf("nothing may follow %q", text)
		}
		id := from[s.rand.IntN(len(from))]
		if err := m.Accept(int32(id)); err != nil {
			t.Fatal(err)
		}
		text += string(s.pieces[id])
		parts = join(parts, p.Append(nil, s.pieces[id], s.control[id]))
	}
	t.Fatalf("no end: %q", text)
	return "", nil
}

// openingsOf are the ends of prompts that a family's answers start from.
func openingsOf(f *Family) []Opening {
	switch f.Name {
	case "harmony":
		return []Opening{{Markup: "<|start|>assistant"}, {Markup: "<|start|>assistant<|channel|>analysis<|message|>", Thinking: true}}
	case "muse-glimmer":
		return []Opening{{Markup: "<|start|>assistant"}, {Markup: "<|start|>assistant to=self<|message|>", Thinking: true}}
	case "functionary-v3.2":
		return []Opening{{Markup: ">>>"}}
	}
	return []Opening{{}, {Thinking: true}}
}

// TestWhatTheGrammarAllowsIsRead samples answers of every family at random, with and without control tokens, and demands of the parser
// that it finds valid calls of the request's tools in them.
func TestWhatTheGrammarAllowsIsRead(t *testing.T) {
	reference.Slow(t)
	combination := 0
	for _, f := range every() {
		t.Run(f.Name, func(t *testing.T) {
			for _, choice := range []Choice{
				{Mode: Required, Parallel: true}, {Mode: Auto, Parallel: true}, {Mode: Required, Names: []string{"store"}}, {Mode: Required}, {Mode: None},
			} {
				for _, opening := range openingsOf(f) {
					for _, special := range []bool{false, true} {
						if combination++; combination%reference.Repeats(7, 3, 1) != 0 {
							continue
						}
						checkDraws(t, f, choice, opening, special, 2)
					}
				}
			}
		})
	}
}

func checkDraws(t *testing.T, f *Family, choice Choice, opening Opening, special bool, draws int) {
	t.Helper()
	s := newSampler(f, special, 1)
	g := compiled(t, f, Rules{
		Tools: flatTools, Choice: choice, Opening: opening, Thought: true, Schema: flatSchema, Control: controlIf(special),
	})
	for range draws {
		text, parts := s.draw(t, g, f.NewParser(Options{Tools: flatTools, Choice: Choice{Mode: choice.Mode, Parallel: true}, Opening: opening, Bound: true}))
		calls, name := 0, ""
		for _, p := range parts {
			switch p.Kind {
			case CallStart:
				calls, name = calls+1, p.Name
				if len(choice.Names) > 0 && !slices.Contains(choice.Names, name) {
					t.Errorf("%q: a call of %s", text, name)
				}
			case CallArguments:
				if err := fitsFlat(name, p.Text); err != nil {
					t.Errorf("%q: %s %s: %v", text, name, p.Text, err)
				}
			case Content:
				if choice.Mode == Required {
					t.Errorf("%q: content %q", text, p.Text)
				}
			default:
			}
		}
		if choice.Mode == Required && calls == 0 || choice.Mode == None && calls > 0 || !choice.Parallel && calls > 1 {
			t.Errorf("%q: %d calls", text, calls)
		}
	}
}
