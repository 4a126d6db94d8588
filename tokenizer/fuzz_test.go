package tokenizer

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzEncode(f *testing.F) {
	for _, text := range readSplitGoldens(f).Texts {
		f.Add(text, uint8(len(text)))
	}
	f.Add("<|im_start|>hello<tool>\xff\xfe", uint8(3))
	var toks []*Tokenizer
	for _, s := range preTokenizers() {
		toks = append(toks, mustBuild(f, bytePairFields(s.names[0])))
	}
	toks = append(toks, mustBuild(f, sentencePieceFields()), mustBuild(f, wordPieceFields()))
	f.Fuzz(func(t *testing.T, text string, cut uint8) {
		at := min(int(cut), len(text))
		spans := []Span{{text[:at], true}, {text[at:], false}}
		for _, tok := range toks {
			checkIDs(t, tok, tok.AppendEncode(nil, text, EncodeOptions{AddSpecial: true, ParseSpecial: true}))
			checkIDs(t, tok, tok.AppendSpans(nil, spans, EncodeOptions{AddSpecial: true}))
			checkBounds(t, tok, spans)
			ids := tok.AppendEncode(nil, text, EncodeOptions{})
			checkIDs(t, tok, ids)
			checkClientText(t, tok, text)
			if tok.Kind() == kindBytePair && utf8.ValidString(text) {
				if got := tok.Decode(ids, false); got != text {
					t.Fatalf("%s: got %q, want %q", tok.vocabulary.pre, got, text)
				}
			}
		}
	})
}

func checkIDs(t *testing.T, tok *Tokenizer, ids []int32) {
	t.Helper()
	for _, id := range ids {
		if id < 0 || int(id) >= tok.Size() {
			t.Fatalf("%s: id %d of %d", tok.Kind(), id, tok.Size())
		}
	}
}

// FuzzNew builds tokenizers of arbitrary vocabularies and uses them.
func FuzzNew(f *testing.F) {
	f.Add(uint8(0), "a\nb\nab\n<s>", "a b\nb a", []byte{1, 1, 1, 3}, "aab<s>")
	f.Add(uint8(1), "<unk>\n<s>\n</s>\n▁a\na", "", []byte{2, 3, 3, 1, 1}, "aa a")
	f.Add(uint8(2), "[PAD]\n[UNK]\n▁a\nb", "", []byte{3, 3, 1, 1}, "ab c")
	f.Fuzz(func(t *testing.T, kind uint8, tokens, merges string, types []byte, text string) {
		v := fields{"model": []string{"gpt2", "llama", "bert"}[kind%3], "pre": "gpt-2"}
		v["tokens"], v["merges"] = strings.Split(tokens, "\n"), strings.Split(merges, "\n")
		if merges == "" {
			v["merges"] = []string{}
		}
		kinds := make([]int32, len(v["tokens"].([]string)))
		scores := make([]float32, len(kinds))
		for i := range kinds {
			kinds[i], scores[i] = int32(typeNormal), float32(i%7)
			if i < len(types) {
				kinds[i] = int32(types[i]) % 8
			}
		}
		v["token_type"], v["scores"], v["unknown_token_id"] = kinds, scores, uint32(0)
		tok, err := New(v.lookup)
		if err != nil {
			return
		}
		ids := tok.AppendEncode(nil, text, EncodeOptions{AddSpecial: true, ParseSpecial: true})
		checkIDs(t, tok, ids)
		checkBounds(t, tok, []Span{{text, true}})
		checkBounds(t, tok, []Span{{text, false}})
		checkClientText(t, tok, text)
		if !utf8.ValidString(tok.Decode(ids, true)) {
			t.Fatal("Decode gives invalid UTF-8")
		}
	})
}

func FuzzRanks(f *testing.F) {
	f.Add("YQ== 0\nYg== 1\n")
	f.Add("YQ== -1\n!! 3\n\n x")
	f.Fuzz(func(t *testing.T, data string) {
		ranks, err := parseRanks(data, "fuzz")
		if err == nil && len(ranks) < 256 {
			t.Fatalf("%d ranks", len(ranks))
		}
	})
}
