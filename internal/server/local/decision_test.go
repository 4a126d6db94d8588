package local

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"weir/engine/gguf"
	"weir/engine/llm"
	"weir/tokenizer"
)

// A file that does not say how its decision head is asked is refused, by the key that is missing or wrong.
func TestDecisionKeysAreChecked(t *testing.T) {
	read := func(key string, value any) (*Decision, error) {
		b := &gguf.Builder{}
		for k, v := range map[string]any{
			"general.architecture": "modern-bert", "modern-bert.decision.type": "laya", "modern-bert.decision.max_head_tokens": uint32(64),
			"modern-bert.decision.temperature.choice": float32(1.5), "modern-bert.decision.temperature.noul.2": float32(2),
			"tokenizer.ggml.model": "bert", "tokenizer.ggml.tokens": []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "▁a"}, "tokenizer.ggml.token_type": []int32{3, 3, 3, 3, 3, 1},
			"tokenizer.ggml.unknown_token_id": uint32(1), "tokenizer.ggml.cls_token_id": uint32(2), "tokenizer.ggml.seperator_token_id": uint32(3),
			"tokenizer.ggml.mask_token_id": uint32(4), "tokenizer.chat_template.systemone": "{{ state }}",
		} {
			if k != key || value != nil {
				b.Set(k, v)
			}
		}
		if value != nil {
			b.Set(key, value)
		}
		raw, err := b.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		f, err := gguf.Parse(bytes.NewReader(raw), int64(len(raw)))
		if err != nil {
			t.Fatal(err)
		}
		words, err := tokenizer.New(f.Value)
		if err != nil {
			t.Fatal(err)
		}
		return readDecision(f, words)
	}
	d, err := read("general.name", "x")
	if err != nil || d.Mark != 4 || d.Separator != 3 || d.HeadTokens != 64 || d.Temperatures["choice"] != 1.5 || d.Temperatures["noul.2"] != 2 {
		t.Fatalf("%+v, %v", d, err)
	}
	if d, err := read("modern-bert.decision.type", nil); d != nil || err != nil {
		t.Errorf("a file without a decision head has %+v, %v", d, err)
	}
	for key, value := range map[string]any{
		"tokenizer.chat_template.systemone": nil, "tokenizer.ggml.mask_token_id": uint32(6), "modern-bert.decision.max_head_tokens": uint32(0),
		"modern-bert.decision.temperature.choice": float32(0), "modern-bert.decision.temperature.score": float32(math.NaN()),
	} {
		if _, err := read(key, value); !errors.Is(err, llm.ErrModel) || !strings.Contains(err.Error(), key) {
			t.Errorf("%s %v: %v", key, value, err)
		}
	}
	if _, err := read("tokenizer.chat_template.systemone", "{% for %}"); !errors.Is(err, llm.ErrModel) {
		t.Error(err)
	}
	for _, key := range []string{"tokenizer.ggml.mask_token_id", "modern-bert.decision.max_head_tokens"} {
		if _, err := read(key, nil); !errors.Is(err, llm.ErrModel) || !strings.Contains(err.Error(), key) {
			t.Errorf("without %s: %v", key, err)
		}
	}
}
