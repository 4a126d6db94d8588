package tokenizer

import (
	"slices"
	"testing"
)

// fillInFields is the small vocabulary with tokens for filling in the middle, found by text, whose types a converter left alone.
func fillInFields() fields {
	f := bytePairFields("gpt-2")
	for _, text := range []string{"<fim_prefix>", "<fim_middle>", "<fim_suffix>"} {
		f.add(text, int32(typeNormal), 0)
	}
	return f
}

func TestFillInIsFoundByKeyAndByText(t *testing.T) {
	f := fillInFields()
	p, s, m := int32(f.id("<fim_prefix>")), int32(f.id("<fim_suffix>")), int32(f.id("<fim_middle>"))
	hello := int32(f.id("hello"))
	for _, c := range []struct {
		name   string
		fields fields
		want   FillIn
		ok     bool
	}{
		{"none", bytePairFields("gpt-2"), FillIn{none, none, none}, false},
		{"by text", f, FillIn{p, s, m}, true},
		{"a key before the text", f.with("fim_pre_token_id", uint32(hello)), FillIn{hello, s, m}, true},
		{"older keys", bytePairFields("gpt-2").with("prefix_token_id", uint32(4)).with("suffix_token_id", uint32(5)).with("middle_token_id", uint32(6)),
			FillIn{4, 5, 6}, true},
		{"the newer of two keys", f.with("suffix_token_id", uint32(5)).with("fim_suf_token_id", uint32(6)), FillIn{p, 6, m}, true},
		{"one is missing", bytePairFields("gpt-2").with("fim_pre_token_id", uint32(4)).with("fim_suf_token_id", uint32(5)), FillIn{4, 5, none}, false},
	} {
		tok, err := New(c.fields.lookup)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := tok.FillIn(); got != c.want || ok != c.ok {
			t.Errorf("%s: %+v, %v, want %+v, %v", c.name, got, ok, c.want, c.ok)
		}
	}
}

// As llama.cpp's /infill has it: prefix, suffix, middle, each text encoded by itself; what looks like such a token in a text is text.
func TestFillInSpansArePrefixSuffixMiddle(t *testing.T) {
	f := fillInFields().with("add_bos_token", true)
	tok, err := New(f.lookup)
	if err != nil {
		t.Fatal(err)
	}
	before, behind := "hello <fim_suffix>", " world hello"
	plain := func(text string) []int32 { return tok.AppendEncode(nil, text, EncodeOptions{}) }
	p, s, m := int32(f.id("<fim_prefix>")), int32(f.id("<fim_suffix>")), int32(f.id("<fim_middle>"))
	bos, _ := tok.BOS()
	want := slices.Concat([]int32{bos, p}, plain(before), []int32{s}, plain(behind), []int32{m})
	if got := tok.AppendSpans(nil, tok.FillInSpans(before, behind, true), EncodeOptions{}); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := tok.AppendSpans(nil, tok.FillInSpans(before, behind, false), EncodeOptions{}); !slices.Equal(got, want[1:]) {
		t.Errorf("without the beginning token %v, want %v", got, want[1:])
	}
	if slices.Contains(plain(before), s) {
		t.Error("text turned into a token for filling in the middle")
	}
}
