package tokenizer

import (
	_ "embed"
	"encoding/json"
	"slices"
	"testing"
)

//go:embed testdata/mmbert.json
var mmbertJSON []byte

// A vocabulary in mmBERT's form gives llama.cpp's ids: words begin at word marks, and each line has one at its beginning.
func TestMMBERTEqualsLlamaCpp(t *testing.T) {
	var g struct {
		Tokens, Merges []string
		Types          []int32
		Texts          []struct {
			Text           string
			Plain, Special []int32
		}
	}
	if err := json.Unmarshal(mmbertJSON, &g); err != nil {
		t.Fatal(err)
	}
	fields := map[string]any{
		"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "mmbert", "tokenizer.ggml.tokens": g.Tokens, "tokenizer.ggml.token_type": g.Types, "tokenizer.ggml.merges": g.Merges,
		"tokenizer.ggml.bos_token_id": uint32(2), "tokenizer.ggml.eos_token_id": uint32(1), "tokenizer.ggml.unknown_token_id": uint32(3),
	}
	words, err := New(func(key string) (any, bool) { v, ok := fields[key]; return v, ok })
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range g.Texts {
		if got := words.AppendEncode(nil, c.Text, EncodeOptions{}); !slices.Equal(got, c.Plain) {
			t.Errorf("%q: %v, want %v", c.Text, got, c.Plain)
		}
		if got := words.AppendEncode(nil, c.Text, EncodeOptions{ParseSpecial: true}); !slices.Equal(got, c.Special) {
			t.Errorf("%q with control tokens: %v, want %v", c.Text, got, c.Special)
		}
	}
	if got := words.Decode(words.AppendEncode(nil, "the customer was\ncharged", EncodeOptions{}), false); got != "the customer was\n charged" {
		t.Errorf("it decodes to %q", got)
	}
}
