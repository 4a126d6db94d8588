package tokenizer

import (
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestDecoderEmitsWholeRunes(t *testing.T) {
	tok := mustBuild(t, bytePairFields("gpt-2"))
	ids := func(text string) []int32 {
		var ids []int32
		for _, b := range []byte(text) {
			ids = append(ids, tok.model.(*bytePair).bytes[b])
		}
		return ids
	}
	for _, c := range []struct {
		name  string
		bytes string
		want  []string // what each byte sets free, then what Flush does
	}{
		{"ascii", "ab", []string{"a", "b", ""}},
		{"four bytes", "🦙", []string{"", "", "", "🦙", ""}},
		{"cut short", "🦙"[:3], []string{"", "", "", "\uFFFD"}},
		{"cut short by text", "\xe4\xb8a", []string{"", "", "\uFFFDa", ""}},
		{"cut short by another", "\xe4\xb8\xc3\xa9", []string{"", "", "\uFFFD", "é", ""}},
		{"continuation alone", "\x80a", []string{"\uFFFD", "a", ""}},
		{"impossible byte", "\xff\xfe", []string{"\uFFFD", "\uFFFD", ""}},
		{"overlong", "\xc0\x80", []string{"\uFFFD", "\uFFFD", ""}},
		{"surrogate", "\xed\xa0\x80", []string{"", "\uFFFD\uFFFD", "\uFFFD", ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := tok.NewDecoder(false)
			var got []string
			for _, id := range ids(c.bytes) {
				got = append(got, string(d.Append(nil, id)))
			}
			got = append(got, string(d.Flush(nil)))
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if again := d.Flush(nil); len(again) > 0 {
				t.Errorf("second Flush gave %q", again)
			}
		})
	}
}

func TestDecode(t *testing.T) {
	gpt2 := mustBuild(t, bytePairFields("gpt-2"))
	spm := mustBuild(t, sentencePieceFields())
	bare := mustBuild(t, sentencePieceFields().with("add_space_prefix", false))
	bert := mustBuild(t, wordPieceFields())
	for _, c := range []struct {
		name    string
		t       *Tokenizer
		entries []string
		special bool
		want    string
	}{
		{"bpe", gpt2, []string{"hello", "Ġworld"}, false, "hello world"},
		{"bpe keeps a leading space", gpt2, []string{"Ġworld"}, false, " world"},
		{"control hidden", gpt2, []string{"hello", "<|im_end|>"}, false, "hello"},
		{"control shown", gpt2, []string{"hello", "<|im_end|>"}, true, "hello<|im_end|>"},
		{"user-defined shown", gpt2, []string{"<tool>", "<|user|>"}, false, "<tool><|user|>"},
		{"unknown hidden", gpt2, []string{"<unk>", "hello"}, false, "hello"},
		{"spm drops the first space", spm, []string{"▁hello", "▁world"}, false, "hello world"},
		{"spm drops it after a hidden token", spm, []string{"<s>", "▁hello"}, false, "hello"},
		{"spm keeps it after a shown token", spm, []string{"<s>", "▁hello"}, true, "<s> hello"},
		{"spm drops one space", spm, []string{"▁▁", "▁hello"}, false, "  hello"},
		{"spm bytes", spm, []string{"▁", "<0xC3>", "<0x9F>"}, false, "ß"},
		{"spm without prefix", bare, []string{"▁hello"}, false, " hello"},
		{"wordpiece", bert, []string{"[CLS]", "▁un", "aff", "able", "▁!", "[SEP]"}, false, "unaffable !"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var ids []int32
			for _, e := range c.entries {
				id, ok := c.t.ID(e)
				if !ok {
					t.Fatalf("no entry %q", e)
				}
				ids = append(ids, id)
			}
			if got := c.t.Decode(ids, c.special); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestDecoderContinuesText(t *testing.T) {
	tok := mustBuild(t, sentencePieceFields())
	id, _ := tok.ID("▁world")
	if got := string(tok.NewDecoder(false).Append(nil, id)); got != " world" {
		t.Errorf("got %q, want the space kept: a completion goes on from its prompt", got)
	}
}

func TestIdsOutsideTheVocabularyHaveNoText(t *testing.T) {
	tok := mustBuild(t, bytePairFields("gpt-2"))
	if got := tok.Decode([]int32{-1, int32(tok.Size()), 1 << 30}, true); got != "" {
		t.Errorf("got %q", got)
	}
}

func TestTextComesBack(t *testing.T) {
	texts := readSplitGoldens(t).Texts
	for _, f := range []fields{bytePairFields("default"), bytePairFields("llama-bpe"), bytePairFields("qwen2"),
		bytePairFields("falcon"), sentencePieceFields()} {
		tok := mustBuild(t, f)
		for _, text := range texts {
			if strings.Contains(text, wordMark) {
				continue // SentencePiece cannot tell it from a space
			}
			if got := tok.Decode(tok.AppendEncode(nil, text, EncodeOptions{}), false); got != text {
				t.Errorf("%s %v: got %q, want %q", tok.Kind(), f["pre"], got, text)
			}
		}
	}
}

func TestHotPathsAllocateNothing(t *testing.T) {
	for _, f := range []fields{bytePairFields("llama-bpe"), sentencePieceFields().with("add_space_prefix", false)} {
		tok := mustBuild(t, f)
		text := strings.Repeat("hello world, the singing 中文字 \n", 20)
		ids := make([]int32, 0, 4*len(text))
		ids = tok.AppendEncode(ids, text, EncodeOptions{})
		d := tok.NewDecoder(false)
		out := make([]byte, 0, 2*len(text))
		for _, id := range ids {
			out = d.Append(out, id)
		}
		least := math.Inf(1) // a garbage collection in between takes the scratch memory away
		for range 5 {
			least = min(least, testing.AllocsPerRun(20, func() { tok.AppendEncode(ids[:0], text, EncodeOptions{}) }))
		}
		if least > 1 {
			t.Errorf("%s: AppendEncode allocates %v times", tok.Kind(), least)
		}
		if n := testing.AllocsPerRun(20, func() {
			for _, id := range ids {
				out = d.Append(out[:0], id)
			}
		}); n > 0 {
			t.Errorf("%s: Decoder.Append allocates %v times", tok.Kind(), n)
		}
	}
}

func FuzzDecoder(f *testing.F) {
	f.Add([]byte("hello"))
	f.Add([]byte{0xe4, 0xb8, 0xff, 1, 2, 3, 0xf0, 0x9f})
	toks := []*Tokenizer{mustBuild(f, bytePairFields("gpt-2")), mustBuild(f, sentencePieceFields()), mustBuild(f, wordPieceFields())}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, tok := range toks {
			var ids []int32
			for i, b := range data {
				ids = append(ids, int32(b)+int32(i%3)*150-5)
			}
			for _, special := range []bool{false, true} {
				d := tok.NewDecoder(special)
				d.dropSpace = tok.leadingSpace
				var whole []byte
				for _, id := range ids {
					chunk := d.Append(nil, id)
					if !utf8.Valid(chunk) {
						t.Fatalf("%s: id %d gave %q", tok.Kind(), id, chunk)
					}
					whole = append(whole, chunk...)
				}
				whole = d.Flush(whole)
				if got := tok.Decode(ids, special); got != string(whole) {
					t.Fatalf("%s: Decode gives %q, the decoder %q", tok.Kind(), got, whole)
				}
			}
		}
	})
}
