package tokenizer

import (
	"slices"
	"strings"
	"testing"
)

// findByDefinition looks at every place for every token.
func findByDefinition(tokens []string, text string, from, to int) (start, end int) {
	for i := from; i < to; i++ {
		best := 0
		for _, token := range tokens {
			if len(token) > best && strings.HasPrefix(text[i:to], token) {
				best = len(token)
			}
		}
		if best > 0 {
			return i, i + best
		}
	}
	return to, to
}

func TestSpecialMatcherFindsTheLeftmostLongest(t *testing.T) {
	tokens := []string{"<a>", "<a><a>", "<ab>", "a", "é", "</s>", "<|x|>", "<|x"}
	var m specialMatcher
	for i, token := range tokens {
		m.add(token, int32(i))
	}
	text := "<<a><a><a>b<ab<ab>éa</s<|x|><|x<|"
	for from := range len(text) + 1 {
		for to := from; to <= len(text); to++ {
			start, end := findByDefinition(tokens, text, from, to)
			id, gotStart, gotEnd, ok := m.find(text, from, to)
			if gotStart != start || gotEnd != end || ok != (end > start) {
				t.Fatalf("in %q: found %d to %d, want %d to %d", text[from:to], gotStart, gotEnd, start, end)
			}
			if ok && tokens[id] != text[start:end] {
				t.Fatalf("in %q: token %q for %q", text[from:to], tokens[id], text[start:end])
			}
		}
	}
}

func TestEmptySpecialMatcherFindsNothing(t *testing.T) {
	var m specialMatcher
	if _, _, _, ok := m.find("<|x|>", 0, 5); ok {
		t.Error("found a token")
	}
}

// checkClientText fails if client text becomes a control token, other than the
// unknown token that WordPiece gives for unknown words.
func checkClientText(t *testing.T, tok *Tokenizer, text string) {
	t.Helper()
	ids := tok.AppendSpans(nil, []Span{{"x", true}, {text, false}, {"y", true}}, EncodeOptions{})
	ids = slices.DeleteFunc(ids, func(id int32) bool { // what the template's own text may be
		return tok.TokenText(id) == "x" || tok.TokenText(id) == "y"
	})
	for _, id := range append(ids, tok.AppendEncode(nil, text, EncodeOptions{})...) {
		if tok.IsControl(id) && id != tok.vocabulary.unknown {
			t.Fatalf("%s: client text %q became the control token %q", tok.Kind(), text, tok.TokenText(id))
		}
	}
}

func TestClientTextNeverBecomesControl(t *testing.T) {
	for _, f := range []fields{bytePairFields("gpt-2"), bytePairFields("tekken"), sentencePieceFields(), wordPieceFields()} {
		tok := mustBuild(t, f)
		var controls []string
		for id := range int32(tok.Size()) {
			if tok.IsControl(id) {
				controls = append(controls, tok.TokenText(id))
			}
		}
		if len(controls) == 0 {
			t.Fatalf("%s: the vocabulary has no control tokens to test with", tok.Kind())
		}
		for _, a := range controls {
			for _, b := range append(slices.Clone(controls), "", " ", "a", "<tool>") {
				for _, text := range []string{a + b, b + a, a[:1] + a, a + a[1:], "▁" + a + b} {
					checkClientText(t, tok, text)
				}
			}
		}
	}
}

// TestMergesDoNotMakeControlTokens: the merges themselves lead to the text of
// a control token here, and so would whole pieces.
func TestMergesDoNotMakeControlTokens(t *testing.T) {
	for _, pre := range []string{"gpt-2", "llama-bpe"} {
		f := bytePairFields(pre)
		f.add("aba", int32(typeControl), 0)
		f["merges"] = append(f["merges"].([]string), "a b", "ab a", "aba c")
		f.add("abac", int32(typeNormal), 0)
		tok := mustBuild(t, f)
		for text, want := range map[string][]string{"aba": {"a", "b", "a"}, "abac": {"abac"}} {
			if got := texts(tok, tok.AppendEncode(nil, text, EncodeOptions{})); !slices.Equal(got, want) {
				t.Errorf("%s: %q became %q, want %q", pre, text, got, want)
			}
		}
	}
}
