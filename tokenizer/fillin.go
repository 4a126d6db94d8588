package tokenizer

import "slices"

// FillIn are the tokens that a model was trained to fill in the middle of a text with: behind
//
//	Prefix text-before Suffix text-behind Middle
//
// it writes what stands between both. Its end is a token that ends generation, or one of these.
type FillIn struct{ Prefix, Suffix, Middle int32 }

// fillInTokens are the keys of files, the older one last, and the texts by which llama.cpp finds the tokens where files do not tell.
var fillInTokens = [3]struct{ keys, texts []string }{
	{[]string{"fim_pre_token_id", "prefix_token_id"}, []string{
		"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>", "<|code_prefix|>", "<|prefix|>"}},
	{[]string{"fim_suf_token_id", "suffix_token_id"}, []string{
		"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>", "<|code_suffix|>", "<|suffix|>"}},
	{[]string{"fim_mid_token_id", "middle_token_id"}, []string{
		"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>", "<|code_middle|>", "<|middle|>"}},
}

// readFillIn finds the tokens for filling in the middle and makes control tokens of them, so that text never turns into them.
func (v *vocabulary) readFillIn(m metadata) error {
	for i, s := range fillInTokens {
		id := none
		for _, key := range slices.Backward(s.keys) {
			if err := v.readID(m, "tokenizer.ggml."+key, &id); err != nil {
				return err
			}
		}
		for _, text := range s.texts {
			if found, ok := v.ids[text]; ok && id == none {
				id = found
			}
		}
		*[]*int32{&v.fillIn.Prefix, &v.fillIn.Suffix, &v.fillIn.Middle}[i] = id
		if id != none {
			v.types[id] = typeControl
		}
	}
	return nil
}

// FillIn gives the tokens for filling in the middle, where the vocabulary has all three.
func (t *Tokenizer) FillIn() (FillIn, bool) {
	f := t.vocabulary.fillIn
	return f, f.Prefix != none && f.Suffix != none && f.Middle != none
}

// FillInSpans is the prompt on which the model writes what stands between two texts. The beginning token is in it where the
// vocabulary wants one and begin says so, so that it is encoded without AddSpecial.
func (t *Tokenizer) FillInSpans(before, behind string, begin bool) []Span {
	f := t.vocabulary.fillIn
	mark := func(id int32) Span { return Span{Text: t.vocabulary.texts[id], Control: true} }
	var spans []Span
	if begin && t.AddsBOS() {
		spans = append(spans, mark(t.vocabulary.bos))
	}
	return append(spans, mark(f.Prefix), Span{Text: before}, mark(f.Suffix), Span{Text: behind}, mark(f.Middle))
}
