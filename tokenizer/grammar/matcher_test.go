package grammar

import (
	"testing"

	"weir/tokenizer/grammar/regex"
)

// bytesVocabulary has a token for each byte, the texts, and control tokens by name.
func bytesVocabulary(texts []string, control ...string) *Vocabulary {
	var pieces [][]byte
	for b := range 256 {
		pieces = append(pieces, []byte{byte(b)})
	}
	for _, t := range texts {
		pieces = append(pieces, []byte(t))
	}
	names := map[string]int32{}
	for _, c := range control {
		names[c] = int32(len(pieces))
		pieces = append(pieces, nil)
	}
	return NewVocabulary(pieces, names)
}

func mustMatcher(t testing.TB, b *Builder, start Symbol, v *Vocabulary) *Matcher {
	t.Helper()
	g, err := b.Compile(start)
	if err != nil {
		t.Fatal(err)
	}
	m, err := g.Matcher(v)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// fits feeds a text byte by byte and reports whether it is taken in and may end.
func fits(t *testing.T, m *Matcher, text string) bool {
	t.Helper()
	m = m.Fork()
	for i := range len(text) {
		if !m.Allows(int32(text[i])) {
			return false
		}
		if err := m.Accept(int32(text[i])); err != nil {
			t.Fatal(err)
		}
	}
	end, err := m.Mask(make([]uint64, m.e.v.Words()))
	if err != nil {
		t.Fatal(err)
	}
	return end
}

// arithmetic is a grammar with recursion at both ends and in the middle.
func arithmetic(b *Builder) Symbol {
	number := b.Regex(regex.Repeat(regex.ByteRange('0', '9'), 1, 3))
	sum, product, atom := b.Rule("sum"), b.Rule("product"), b.Rule("atom")
	b.Add(sum, []Symbol{product}, []Symbol{sum, b.Literal("+"), product})
	b.Add(product, []Symbol{atom}, []Symbol{atom, b.Literal("*"), product})
	b.Add(atom, []Symbol{number}, []Symbol{b.Literal("("), sum, b.Literal(")")})
	return sum
}

func TestGrammarTakesItsTextsAndNoOthers(t *testing.T) {
	b := NewBuilder(Limits{})
	m := mustMatcher(t, b, arithmetic(b), bytesVocabulary(nil))
	for text, want := range map[string]bool{
		"1": true, "12+3*4": true, "(1+2)*3": true, "((7))": true, "1+2+3+4": true, "1*2*3*4": true, "999*(1)": true,
		"": false, "1+": false, "()": false, "1234": false, "(1": false, "1)": false, "+1": false,
	} {
		if got := fits(t, m, text); got != want {
			t.Errorf("%q: fits %v, want %v", text, got, want)
		}
	}
}

func TestMarkersEndFreeText(t *testing.T) {
	b := NewBuilder(Limits{})
	call := b.Define("call", []Symbol{b.Literal("<tool>"), b.Regex(regex.Literal("f()"))})
	m := mustMatcher(t, b, b.Define("answer", []Symbol{b.Regex(regex.Without("<tool>")), b.Repeat(call, 0, 1)}), bytesVocabulary(nil))
	for text, want := range map[string]bool{
		"": true, "hello": true, "a <too": true, "é<<tool>f()": true, "<tool>f()": true, "<tool>": false, "x<tool>g": false,
		"<tool>f()<tool>": false, "\xff": false,
	} {
		if got := fits(t, m, text); got != want {
			t.Errorf("%q: fits %v, want %v", text, got, want)
		}
	}
}

func TestRepetitionsCount(t *testing.T) {
	b := NewBuilder(Limits{})
	pair := b.Define("pair", []Symbol{b.Literal("a")}, []Symbol{b.Literal("bc")})
	v := bytesVocabulary(nil)
	for _, c := range []struct {
		least, most int
		fit, not    []string
	}{
		{0, -1, []string{"", "a", "abca", "aaaaaaaa"}, []string{"b", "abb"}},
		{2, 3, []string{"aa", "bca", "abca"}, []string{"", "a", "aaaa", "bcb"}},
		{2, -1, []string{"aa", "aaaaaa"}, []string{"", "bc"}},
		{0, 1, []string{"", "bc"}, []string{"aa"}},
		{0, 0, []string{""}, []string{"a"}},
		{1000, 1 << 29, nil, []string{"", "aaaa"}},
	} {
		m := mustMatcher(t, b, b.Repeat(pair, c.least, c.most), v)
		for _, s := range c.fit {
			if !fits(t, m, s) {
				t.Errorf("{%d,%d}: %q does not fit", c.least, c.most, s)
			}
		}
		for _, s := range c.not {
			if fits(t, m, s) {
				t.Errorf("{%d,%d}: %q fits", c.least, c.most, s)
			}
		}
	}
}

func TestControlTokensAreTerminals(t *testing.T) {
	b := NewBuilder(Limits{})
	start := b.Define("answer", []Symbol{b.Token("<think>"), b.Regex(regex.Without("x")), b.Token("</think>"), b.Literal("ok")})
	v := bytesVocabulary(nil, "<think>", "</think>")
	m := mustMatcher(t, b, start, v)
	open, shut := v.control["<think>"], v.control["</think>"]
	for i, id := range []int32{open, 'h', 'm', shut, 'o', 'k'} {
		for _, other := range []int32{open, shut} {
			if got := m.Allows(other); got != (other == id || other == shut && (i == 1 || i == 2)) {
				t.Errorf("token %d: control token %d allowed: %v", i, other, got)
			}
		}
		if err := m.Accept(id); err != nil {
			t.Fatal(err)
		}
	}
	if !m.Done() {
		t.Error("the answer is complete, and Done says otherwise")
	}
	g, err := b.Compile(b.Token("<none>"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Matcher(v); err == nil {
		t.Error("a control token that the vocabulary lacks is not refused")
	}
}
