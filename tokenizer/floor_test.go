package tokenizer

import (
	"math/rand/v2"
	"strings"
	"testing"

	"weir/internal/reference"
)

// checkBounds compares MinTokens and every small Limit with the whole encoding.
func checkBounds(t testing.TB, tok *Tokenizer, spans []Span) {
	t.Helper()
	all := tok.AppendSpans(nil, spans, EncodeOptions{})
	if least := tok.MinTokens(spans); least > len(all) {
		t.Fatalf("%s: MinTokens is %d, AppendSpans gives %d ids, of %.200v", tok.Kind(), least, len(all), spans)
	}
	for _, limit := range []int{1, 2, 3, len(all) - 1, len(all), len(all) + 1} {
		if limit < 1 {
			continue
		}
		ids := tok.AppendSpans(nil, spans, EncodeOptions{Limit: limit})
		if len(all) <= limit && len(ids) != len(all) {
			t.Fatalf("%s: %d ids under a limit of %d, want all %d, of %.200v", tok.Kind(), len(ids), limit, len(all), spans)
		}
		if len(all) > limit && len(ids) <= limit {
			t.Fatalf("%s: %d ids under a limit of %d, want more of %d, of %.200v", tok.Kind(), len(ids), limit, len(all), spans)
		}
	}
}

// oddTokenizers cover each way in which bytes join, vanish or are swallowed.
func oddTokenizers(t testing.TB) map[string]*Tokenizer {
	holes := emptyFields("gpt2").with("pre", "gpt-2").with("merges", []string{"a b", "b z", "ab bz", "Ã ©"})
	for _, text := range []string{"a", "b", "ab", "abbz", "Ã©", "<tool> <tool>"} {
		kind := typeNormal
		if strings.HasPrefix(text, "<") {
			kind = typeUserDefined
		}
		holes.add(text, int32(kind), 0)
	}
	bert := wordPieceFields()
	bert.add("[two words]", int32(typeUserDefined), 0)
	toks := map[string]*Tokenizer{
		"bytes without entries":    mustBuild(t, holes),
		"spaces swallowed":         mustBuild(t, sentencePieceFields().with("general.name", "Phi-3 mini")),
		"no space prefix":          mustBuild(t, sentencePieceFields().with("add_space_prefix", false)),
		"sentencepiece":            mustBuild(t, sentencePieceFields()),
		"wordpiece":                mustBuild(t, bert),
		"wordpiece as BERT":        mustBuild(t, bert.with("normalizer.lowercase", true)),
		"wordpiece without [UNK]":  mustBuild(t, bert.with("unknown_token_id", uint32(1<<31))),
		"wordpiece, accents stay":  mustBuild(t, bert.with("normalizer.strip_accents", false)),
		"wordpiece, capitals stay": mustBuild(t, bert.with("normalizer.lowercase", false)),
	}
	for _, s := range preTokenizers() {
		toks[s.names[0]] = mustBuild(t, bytePairFields(s.names[0]))
	}
	return toks
}

// TestMinTokensIsNeverAboveTheCount makes texts of fragments that tokens may
// swallow: entries of the vocabulary, white space, accents, control characters,
// invalid UTF-8.
func TestMinTokensIsNeverAboveTheCount(t *testing.T) {
	reference.Slow(t)
	r := rand.New(rand.NewPCG(7, 8))
	parts := []string{
		" ", "  ", "\n\t", "\u00a0", "\u3000", "é", "e\u0301", "K", "İ", "ß", "각", "\x00", "\x01", "\u200d", "\u00ad", "\uFFFD",
		"\xff", "\xe4\xb8",
		"a", "A7", "ab", "z", "_", "~", "'", ".", "日本", "▁", "▁▁", "</s>", "<|im_start|>", "[MASK]", "[two words]", "<tool>",
		"<tool> <tool>", "x y",
	}
	for name, tok := range oddTokenizers(t) {
		for range 300 {
			var spans []Span
			for range 1 + r.IntN(4) {
				var b strings.Builder
				for range r.IntN(12) {
					if r.IntN(3) == 0 {
						b.WriteString(tok.TokenText(int32(r.IntN(tok.Size()))))
						continue
					}
					b.WriteString(strings.Repeat(parts[r.IntN(len(parts))], 1+r.IntN(3)))
				}
				spans = append(spans, Span{Text: b.String(), Control: r.IntN(2) == 0})
			}
			checkBounds(t, tok, spans)
		}
		for _, text := range hostileTexts(1 << 10) {
			checkBounds(t, tok, []Span{{Text: text}})
		}
		long := strings.Repeat("hello a ", 1<<14)
		if least := tok.MinTokens([]Span{{Text: long}}); least < 1<<10 && name != "wordpiece without [UNK]" {
			t.Errorf("%s: MinTokens is %d for %d bytes: too low to refuse any text", name, least, len(long))
		}
	}
}

// TestPauseEndsTheWork: pauses come between slices of one piece too, and false
// ends the call. A later call is not affected.
func TestPauseEndsTheWork(t *testing.T) {
	length := 1 << 18
	if testing.Short() {
		length = 1 << 16
	}
	for name, tok := range oddTokenizers(t) {
		text := strings.Repeat("a", length)
		pauses := 0
		whole := tok.AppendEncode(nil, text, EncodeOptions{Pause: func() bool { pauses++; return true }})
		if pauses < 4 {
			t.Errorf("%s: %d pauses in %d bytes", name, pauses, len(text))
		}
		calls := 0
		tok.AppendEncode(nil, text, EncodeOptions{Pause: func() bool { calls++; return calls < 2 }})
		if calls != 2 {
			t.Errorf("%s: %d pauses, want none after the second said no", name, calls)
		}
		if again := tok.AppendEncode(nil, text, EncodeOptions{}); len(again) != len(whole) {
			t.Errorf("%s: %d ids after a call that was ended, want %d", name, len(again), len(whole))
		}
	}
}

// TestLimitDoesNotSpoilTheCache: a piece that a limit cut is not remembered.
func TestLimitDoesNotSpoilTheCache(t *testing.T) {
	tok := mustBuild(t, bytePairFields("gpt-2"))
	want := len(mustBuild(t, bytePairFields("gpt-2")).AppendEncode(nil, "helping", EncodeOptions{}))
	tok.AppendEncode(nil, "helping", EncodeOptions{Limit: 1})
	if got := len(tok.AppendEncode(nil, "helping", EncodeOptions{})); got != want {
		t.Errorf("%d ids after a call with a limit, want %d", got, want)
	}
}
