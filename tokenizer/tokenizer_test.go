package tokenizer

import (
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestEncode(t *testing.T) {
	gpt2 := mustBuild(t, bytePairFields("gpt-2"))
	llama3 := mustBuild(t, bytePairFields("llama-bpe"))
	spm := mustBuild(t, sentencePieceFields())
	bare := mustBuild(t, sentencePieceFields().with("add_space_prefix", false))
	bert := mustBuild(t, wordPieceFields())
	both := EncodeOptions{AddSpecial: true, ParseSpecial: true}
	for _, c := range []struct {
		name string
		t    *Tokenizer
		text string
		o    EncodeOptions
		want string // entries, with blanks between
	}{
		{"bpe words", gpt2, "hello world the", EncodeOptions{}, "hello Ġworld Ġt he"},
		{"bpe spaces leave one to the word", gpt2, "hello     world", EncodeOptions{}, "hello ĠĠ ĠĠ Ġworld"},
		{"bpe parts", gpt2, "helping", EncodeOptions{}, "hel p ing"},
		{"bpe bytes", gpt2, "é", EncodeOptions{}, "Ã ©"},
		{"bpe han", gpt2, "中文字", EncodeOptions{}, "ä¸ŃæĸĩåŃĹ"},
		{"bpe invalid byte is U+FFFD", gpt2, "a\xffb", EncodeOptions{}, "a ï ¿ ½ b"},
		{"bpe empty", gpt2, "", both, ""},
		{"bpe beginning", llama3, "hello", both, "<|endoftext|> hello"},
		{"bpe digits in threes", llama3, "12341234", EncodeOptions{}, "123 4 12 3 4"},
		{"bpe digits together", gpt2, "12341234", EncodeOptions{}, "1234 1234"},
		{"control parsed", gpt2, "hello<|im_start|> world", EncodeOptions{ParseSpecial: true}, "hello <|im_start|> Ġworld"},
		{"control as text", gpt2, "<|im_start|>", EncodeOptions{}, "< | i m _ s t a r t | >"},
		{"mistyped control as text", gpt2, "<|im_end|>", EncodeOptions{}, "< | i m _ end | >"},
		{"user-defined always", gpt2, "hello<tool> world", EncodeOptions{}, "hello <tool> Ġworld"},
		{"longest special first", gpt2, "<tool><tool><tool>", EncodeOptions{}, "<tool><tool> <tool>"},
		{"chat marker of wrong type as text", gpt2, "<|user|>", EncodeOptions{}, "< | u s e r | >"},
		{"chat marker of wrong type parsed", gpt2, "<|user|>", EncodeOptions{ParseSpecial: true}, "<|user|>"},
		{"half a special token", gpt2, "<|im_st<|im_start|>", EncodeOptions{ParseSpecial: true}, "< | i m _ s t <|im_start|>"},

		{"spm words", spm, "hello world", EncodeOptions{}, "▁hello ▁world"},
		{"spm beginning", spm, "hello", both, "<s> ▁hello"},
		{"spm no space prefix", bare, "hello world", EncodeOptions{}, "hello ▁world"},
		{"spm empty", spm, "", both, "<s>"},
		{"spm leading space doubles", spm, " the", EncodeOptions{}, "▁ ▁the"},
		{"spm runs of spaces", spm, "a    the", EncodeOptions{}, "▁ a ▁▁ ▁ ▁the"},
		{"spm best score wins", spm, "helloing", EncodeOptions{}, "▁hello ing"},
		{"spm byte fallback", spm, "aß", EncodeOptions{}, "▁ a <0xC3> <0x9F>"},
		{"spm unknown control byte", spm, "\n", EncodeOptions{}, "▁ <0x0A>"},
		{"spm prefix after special", spm, "a</s>hello", EncodeOptions{ParseSpecial: true}, "▁ a </s> ▁hello"},
		{"spm text does not become control", spm, "<s>", EncodeOptions{}, "▁ <s >"},
		{"spm byte token as text", bare, "<0x41>", EncodeOptions{}, "< <0x30> <0x78> <0x34> <0x31> >"},
		{"spm literal word mark", spm, "▁the", EncodeOptions{}, "▁ ▁the"},
		{"spm ties go left", spm, "aaa", EncodeOptions{}, "▁ aa a"},

		{"wordpiece", bert, "Hello, unaffable WORLD!", both, "[CLS] ▁hello ▁, ▁un aff able ▁world ▁! [SEP]"},
		{"wordpiece accents of composed letters", bert, "CAFÉ", EncodeOptions{}, "▁cafe"},
		{"wordpiece han", bert, "中文", EncodeOptions{}, "▁中 ▁文"},
		{"wordpiece unknown word", bert, "hello xyz world", EncodeOptions{}, "▁hello [UNK] ▁world"},
		{"wordpiece drops controls", bert, "he\u200bllo\x00", EncodeOptions{}, "▁hello"},
		{"wordpiece control as text", bert, "[CLS]", EncodeOptions{}, "▁[ ▁cls ▁]"},
		{"wordpiece control parsed", bert, "hello[MASK]world", EncodeOptions{ParseSpecial: true}, "▁hello [MASK] ▁world"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := strings.Join(texts(c.t, c.t.AppendEncode(nil, c.text, c.o)), " ")
			if got != c.want {
				t.Errorf("%q: got %s, want %s", c.text, got, c.want)
			}
		})
	}
}

func TestWordPieceNormalisation(t *testing.T) {
	for _, c := range []struct {
		name string
		f    fields
		text string
		want string
	}{
		{"old files keep combining marks", wordPieceFields(), "cafe\u0301", "[UNK]"},
		{"old files keep the first of a syllable", wordPieceFields(), "한", "▁ᄒ"},
		{"options drop combining marks", wordPieceFields().with("normalizer.lowercase", true), "cafe\u0301", "▁cafe"},
		{"words of a hundred letters are spelt", wordPieceFields().with("normalizer.lowercase", true), "a" + strings.Repeat("b", 99), "▁a" + strings.Repeat(" b", 99)},
		{"longer ones are unknown", wordPieceFields().with("normalizer.lowercase", true), "a" + strings.Repeat("b", 100), "[UNK]"},
		{"options decompose syllables", wordPieceFields().with("normalizer.lowercase", true), "한", "▁ᄒ ᅡ ᆫ"},
		{"cased", wordPieceFields().with("normalizer.lowercase", false), "Hello", "[UNK]"},
		{"cased keeps accents", wordPieceFields().with("normalizer.lowercase", false), "café", "[UNK]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tok := mustBuild(t, c.f)
			got := strings.Join(texts(tok, tok.AppendEncode(nil, c.text, EncodeOptions{})), " ")
			if got != c.want {
				t.Errorf("%q: got %s, want %s", c.text, got, c.want)
			}
		})
	}
}

func TestSpans(t *testing.T) {
	gpt2 := mustBuild(t, bytePairFields("gpt-2"))
	spm := mustBuild(t, sentencePieceFields())
	for _, c := range []struct {
		name  string
		t     *Tokenizer
		spans []Span
		want  string
	}{
		{"control parsed, client not", gpt2,
			[]Span{{"<|im_start|>", true}, {"<|im_start|>", false}}, "<|im_start|> < | i m _ s t a r t | >"},
		{"words across a border", gpt2, []Span{{"hello wor", true}, {"ld", false}}, "hello Ġworld"},
		{"no special across a border of trust", gpt2,
			[]Span{{"<|im_", true}, {"start|>", false}}, "< | i m _ s t a r t | >"},
		{"client cannot finish a special", gpt2,
			[]Span{{"<|im_start", true}, {"|>", false}, {"hello", true}}, "< | i m _ s t a r t | > hello"},
		{"no user-defined token across a border of trust", gpt2, []Span{{"<to", true}, {"ol>", false}}, "< t o o l >"},
		{"special across spans of one trust", gpt2, []Span{{"<|im_", true}, {"start|>", true}}, "<|im_start|>"},
		{"empty spans change nothing", gpt2, []Span{{"", false}, {"hel", false}, {"", true}, {"lo", false}}, "hello"},
		{"no spans", gpt2, nil, ""},
		{"user-defined in client text", gpt2, []Span{{"a", true}, {"<tool>", false}}, "a <tool>"},
		{"one space prefix", spm, []Span{{"hello", true}, {" world", false}}, "▁hello ▁world"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := strings.Join(texts(c.t, c.t.AppendSpans(nil, c.spans, EncodeOptions{})), " ")
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestSpansOfOneTrustEqualTheirConcatenation(t *testing.T) {
	text := "hello<|im_start|> world<tool>  the\n中文字 1234"
	for _, f := range []fields{bytePairFields("llama-bpe"), sentencePieceFields(), wordPieceFields()} {
		tok := mustBuild(t, f)
		for _, control := range []bool{false, true} {
			want := tok.AppendEncode(nil, text, EncodeOptions{AddSpecial: true, ParseSpecial: control})
			for cut := range len(text) {
				got := tok.AppendSpans(nil, []Span{{text[:cut], control}, {text[cut:], control}}, EncodeOptions{AddSpecial: true})
				if !slices.Equal(got, want) {
					t.Errorf("%s cut at %d: got %v, want %v", tok.Kind(), cut, got, want)
				}
			}
		}
	}
}

func TestPhi3SpecialTokensSwallowWhiteSpace(t *testing.T) {
	tok := mustBuild(t, bytePairFields("gpt-2").with("general.name", "Phi3 mini"))
	o := EncodeOptions{ParseSpecial: true}
	if got := texts(tok, tok.AppendEncode(nil, "<|im_end|> \n\thello", o)); !slices.Equal(got, []string{"<|im_end|>", "hello"}) {
		t.Errorf("after <|im_end|>: got %q", got)
	}
	if got := texts(tok, tok.AppendEncode(nil, "<|endoftext|> world", o)); !slices.Equal(got, []string{"<|endoftext|>", "Ġworld"}) {
		t.Errorf("after <|endoftext|>: got %q", got)
	}
}

func TestSpecialTokens(t *testing.T) {
	tok := mustBuild(t, bytePairFields("gpt-2"))
	end, _ := tok.ID("<|endoftext|>")
	im, _ := tok.ID("<|im_end|>")
	if got := tok.EOG(); !slices.Equal(got, []int32{end, im}) {
		t.Errorf("EOG is %v, want %v", got, []int32{end, im})
	}
	if !tok.IsEOG(im) || tok.IsEOG(0) || tok.IsEOG(-1) {
		t.Error("IsEOG")
	}
	if !tok.IsControl(im) {
		t.Error("<|im_end|> ends a generation but is no control token")
	}
	if id, ok := tok.BOS(); !ok || id != end {
		t.Errorf("BOS is %d, %v", id, ok)
	}
	if tok.AddsBOS() {
		t.Error("gpt-2 adds no beginning token")
	}
	if id, ok := tok.EOS(); !ok || id != end {
		t.Errorf("EOS is %d, %v", id, ok)
	}
	if tok.IsControl(-1) || tok.IsControl(int32(tok.Size())) || tok.TokenText(-1) != "" {
		t.Error("ids outside the vocabulary")
	}
}

func TestHarmonyMessagesDoNotEndAGeneration(t *testing.T) {
	f := bytePairFields("gpt-4o")
	for _, text := range []string{"<|end|>", "<|return|>", "<|call|>", "<|channel|>"} {
		f.add(text, int32(typeControl), 0)
	}
	tok := mustBuild(t, f)
	for text, want := range map[string]bool{"<|end|>": false, "<|return|>": true, "<|call|>": true, "<|channel|>": false} {
		id, _ := tok.ID(text)
		if tok.IsEOG(id) != want {
			t.Errorf("%s ends a generation: %v, want %v", text, !want, want)
		}
		if !tok.IsControl(id) {
			t.Errorf("%s is no control token", text)
		}
	}
}

func TestAddFlagsOverrideTheKind(t *testing.T) {
	for _, c := range []struct {
		name string
		f    fields
		want string
	}{
		{"bos on", bytePairFields("gpt-2").with("add_bos_token", true), "<|endoftext|> a"},
		{"bos off", bytePairFields("llama-bpe").with("add_bos_token", false), "a"},
		{"eos on", bytePairFields("gpt-2").with("add_eos_token", true), "a <|endoftext|>"},
		{"spm both", sentencePieceFields().with("add_eos_token", true), "<s> ▁ a </s>"},
		{"spm none", sentencePieceFields().with("add_bos_token", false), "▁ a"},
		{"bert no sep", wordPieceFields().with("add_sep_token", false), "[CLS] ▁a"},
		{"none as an id", sentencePieceFields().with("bos_token_id", uint32(1<<32-1)), "▁ a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tok := mustBuild(t, c.f)
			got := strings.Join(texts(tok, tok.AppendEncode(nil, "a", EncodeOptions{AddSpecial: true})), " ")
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	without := func(f fields, key string) fields {
		f = f.with(key, nil)
		delete(f, key)
		return f
	}
	doubled := bytePairFields("gpt-2")
	doubled.add("hello", int32(typeNormal), 0)
	huge := bytePairFields("gpt-2")
	huge.add(strings.Repeat("x", maxEntryBytes+1), int32(typeNormal), 0)
	longSpecial := bytePairFields("gpt-2")
	longSpecial.add(strings.Repeat("x", maxSpecialBytes+1), int32(typeControl), 0)
	for _, c := range []struct {
		name string
		f    fields
		want string
	}{
		{"no model", fields{}, "carries no tokenizer"},
		{"rwkv", fields{"model": "rwkv"}, `tokenizer "rwkv" is not supported`},
		{"rwkv", fields{"model": "rwkv"}, `"rwkv"`},
		{"plamo2", fields{"model": "plamo2"}, `"plamo2"`},
		{"none", fields{"model": "none"}, `"none"`},
		{"model of wrong type", fields{"model": 7}, "type int, want string"},
		{"unknown pre", bytePairFields("bloom"), `pre-tokenizer "bloom" is not supported`},
		{"no tokens", without(bytePairFields("gpt-2"), "tokens"), "tokenizer.ggml.tokens is missing"},
		{"no merges", without(bytePairFields("gpt-2"), "merges"), "tokenizer.ggml.merges is missing"},
		{"merge of one part", bytePairFields("gpt-2").with("merges", []string{"ab"}), "want two parts"},
		{"merge of nothing", bytePairFields("gpt-2").with("merges", []string{""}), "want two parts"},
		{"merge without right part", bytePairFields("gpt-2").with("merges", []string{"a "}), "want two parts"},
		{"tokens of wrong type", bytePairFields("gpt-2").with("tokens", []int32{1}), "[]int32, want []string"},
		{"two ids for an entry", doubled, `"hello" has two ids`},
		{"short types", bytePairFields("gpt-2").with("token_type", []int32{1}), "token_type has 1 entries"},
		{"short scores", sentencePieceFields().with("scores", []float32{1}), "scores has 1 entries"},
		{"flag of wrong type", bytePairFields("gpt-2").with("add_bos_token", "yes"), "type string, want bool"},
		{"id of wrong type", bytePairFields("gpt-2").with("eos_token_id", "2"), "want an integer"},
		{"bos asked for, not set", without(bytePairFields("gpt-2"), "bos_token_id").with("add_bos_token", true), "not set"},
		{"huge entry", huge, "limit 65536"},
		{"long special token", longSpecial, "limit 1024"},
		{"no byte tokens", fields{"model": "llama", "tokens": []string{"a", "b", "c"}, "unknown_token_id": uint32(9)},
			"no token for byte 0x00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := New(c.f.lookup)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestMetadataIntegersOfAnyWidth(t *testing.T) {
	for _, v := range []any{uint8(1), int8(1), uint16(1), int16(1), uint32(1), int32(1), uint64(1), int64(1), 1} {
		tok := mustBuild(t, sentencePieceFields().with("bos_token_id", v))
		if id, ok := tok.BOS(); !ok || id != 1 {
			t.Errorf("bos_token_id as %T: got %d, %v", v, id, ok)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	tok := mustBuild(t, bytePairFields("llama-bpe"))
	text := strings.Repeat("hello world the 1234 中文字 <tool> singing ", 20)
	want := tok.AppendEncode(nil, text, EncodeOptions{})
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 50 {
				if got := tok.AppendEncode(nil, text, EncodeOptions{}); !slices.Equal(got, want) {
					t.Error("ids differ")
					return
				}
			}
		})
	}
	group.Wait()
}
