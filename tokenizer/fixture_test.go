package tokenizer

import (
	"fmt"
	"strings"
	"testing"
)

// fields is GGUF metadata; keys are without "tokenizer.ggml.".
type fields map[string]any

func (f fields) lookup(key string) (any, bool) {
	v, ok := f[strings.TrimPrefix(key, "tokenizer.ggml.")]
	return v, ok
}

func (f fields) with(key string, v any) fields {
	changed := fields{key: v}
	for k, old := range f {
		if k != key {
			changed[k] = old
		}
	}
	return changed
}

// add appends an entry with its type and score.
func (f fields) add(text string, kind int32, score float32) {
	f["tokens"] = append(f["tokens"].([]string), text)
	f["token_type"] = append(f["token_type"].([]int32), kind)
	f["scores"] = append(f["scores"].([]float32), score)
}

func emptyFields(kind string) fields {
	return fields{"model": kind, "tokens": []string(nil), "token_type": []int32(nil), "scores": []float32(nil)}
}

// mergeWords are what the small byte-level vocabulary has words for.
var mergeWords = []string{"hello", "Ġworld", "Ġthe", "ĠĠĠĠ", "ing", "tion", "1234", "ä¸Ń", "ä¸ŃæĸĩåŃĹ", "<s", "endoftext",
	"aaaaaaaa"}

// bytePairFields is a byte-level vocabulary: the 256 bytes, words that grow
// rune by rune from the left, and added tokens.
func bytePairFields(pre string) fields {
	f := emptyFields("gpt2")
	var merges []string
	have := map[string]bool{}
	entry := func(text string) {
		if !have[text] {
			have[text] = true
			f.add(text, int32(typeNormal), 0)
		}
	}
	for _, r := range byteRunes {
		entry(string(r))
	}
	for _, word := range mergeWords {
		runes := []rune(word)
		for i := 1; i < len(runes); i++ {
			entry(string(runes[:i+1]))
			merges = append(merges, string(runes[:i])+" "+string(runes[i]))
		}
	}
	f.add("<|endoftext|>", int32(typeControl), 0)
	f.add("<|im_start|>", int32(typeControl), 0)
	f.add("<|im_end|>", int32(typeNormal), 0) // a converter's mistake
	f.add("<|user|>", int32(typeUserDefined), 0)
	f.add("<tool>", int32(typeUserDefined), 0)
	f.add("<tool><tool>", int32(typeUserDefined), 0)
	f.add("<unk>", int32(typeUnknown), 0)
	f["pre"], f["merges"] = pre, merges
	f["eos_token_id"], f["bos_token_id"] = f.id("<|endoftext|>"), f.id("<|endoftext|>")
	return f
}

func (f fields) id(text string) uint32 {
	for i, t := range f["tokens"].([]string) {
		if t == text {
			return uint32(i)
		}
	}
	panic("no entry " + text)
}

// sentencePieceFields is a vocabulary with byte fallback; scores fall with the
// id, as trained ones do.
func sentencePieceFields() fields {
	f := emptyFields("llama")
	f.add("<unk>", int32(typeUnknown), 0)
	f.add("<s>", int32(typeControl), 0)
	f.add("</s>", int32(typeControl), 0)
	for i := range 256 {
		f.add(fmt.Sprintf("<0x%02X>", i), int32(typeByte), 0)
	}
	for i, text := range []string{
		"▁t", "he", "▁the", "ll", "hell", "hello", "▁hello", "or", "▁w", "▁wor", "ld", "▁world", "▁▁", "▁▁▁▁", "in", "ing",
		"aa", "aaaa", "<s", "s>", "日本", "日本語", "▁日", "é",
		"▁", "a", "d", "e", "g", "h", "i", "l", "n", "o", "r", "s", "t", "w", "<", ">", "日", "本", "語",
	} {
		f.add(text, int32(typeNormal), -float32(i))
	}
	f.add("<tool>", int32(typeUserDefined), 0)
	f["bos_token_id"], f["eos_token_id"], f["unknown_token_id"] = uint32(1), uint32(2), uint32(0)
	return f
}

// wordPieceFields is an uncased BERT vocabulary as GGUF stores it.
func wordPieceFields() fields {
	f := emptyFields("bert")
	for _, text := range []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"} {
		f.add(text, int32(typeControl), 0)
	}
	for _, text := range []string{
		"▁hello", "▁world", "▁un", "aff", "able", "▁cafe", "▁!", "▁,", "▁中", "▁文", "▁strasse", "▁a", "b", "▁ᄒ", "ᅡ", "ᆫ", "▁[",
		"▁]", "▁cls",
	} {
		f.add(text, int32(typeNormal), 0)
	}
	f["unknown_token_id"], f["cls_token_id"], f["seperator_token_id"] = uint32(1), uint32(2), uint32(3)
	f["padding_token_id"], f["mask_token_id"] = uint32(0), uint32(4)
	return f
}

func mustBuild(t testing.TB, f fields) *Tokenizer {
	t.Helper()
	tok, err := New(f.lookup)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// texts gives the raw entries of ids, which read better than numbers.
func texts(t *Tokenizer, ids []int32) []string {
	entries := make([]string, len(ids))
	for i, id := range ids {
		entries[i] = t.TokenText(id)
	}
	return entries
}
