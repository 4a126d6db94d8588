package constraint

import (
	"testing"

	"weir/tokenizer"
)

// byteTokenizer has the 256 bytes and an end token.
func byteTokenizer(t testing.TB) *tokenizer.Tokenizer {
	t.Helper()
	var tokens []string
	var types []int32
	next := rune(256)
	for b := range rune(256) {
		r := b
		if printable := b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae; !printable {
			r = next
			next++
		}
		tokens, types = append(tokens, string(r)), append(types, 1)
	}
	fields := map[string]any{
		"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": append(tokens, "<|end|>"),
		"tokenizer.ggml.token_type": append(types, 3), "tokenizer.ggml.merges": []string{}, "tokenizer.ggml.eos_token_id": uint32(256),
	}
	tok, err := tokenizer.New(func(key string) (any, bool) { v, ok := fields[key]; return v, ok })
	if err != nil {
		t.Fatal(err)
	}
	return tok
}
