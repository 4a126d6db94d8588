package servertest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/engine/gguf"
	"weir/internal/defaultmodel"
)

// StoppedEarly is the built-in classical model as a file, as if its training had stopped early.
func StoppedEarly(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "stopped.json")
	model, _ := defaultmodel.Iris()
	model = strings.Replace(model, `"attributes":{}`, `"attributes":{"best_iteration":"4","best_score":"0.1"}`, 1)
	if err := os.WriteFile(file, []byte(model), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// EmbeddedFile is the built-in model as a file.
func EmbeddedFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "embedded.gguf")
	if err := os.WriteFile(path, defaultmodel.GGUF(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TinyEncoder writes a random text encoder with a vocabulary of a few words. labels
// above 0 make it a reranker, and above 1 a classifier of fish, birds and the world.
func TinyEncoder(t *testing.T, labels int) string {
	t.Helper()
	const width, ffn, layers, context = 32, 64, 2, 64
	words := []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "▁hello", "▁world", "▁fish", "▁bird"}
	types := []int32{3, 3, 3, 3, 1, 1, 1, 1}
	r := rand.New(rand.NewPCG(1, 2))
	b := &gguf.Builder{}
	values := func(n int, mean, spread float64) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(mean + spread*r.NormFloat64())
		}
		return v
	}
	matrix := func(name string, rows, cols int) {
		b.TensorF32(name+".weight", []uint64{uint64(cols), uint64(rows)}, values(rows*cols, 0, 1/math.Sqrt(float64(cols))))
	}
	full := func(name string, rows, cols int) {
		matrix(name, rows, cols)
		b.TensorF32(name+".bias", []uint64{uint64(rows)}, values(rows, 0, 0.1))
	}
	norm := func(name string) {
		b.TensorF32(name+".weight", []uint64{width}, values(width, 1, 0.1))
		b.TensorF32(name+".bias", []uint64{width}, values(width, 0, 0.1))
	}
	for key, v := range map[string]any{
		"general.architecture": "bert", "bert.block_count": uint32(layers), "bert.embedding_length": uint32(width),
		"bert.attention.head_count": uint32(2), "bert.feed_forward_length": uint32(ffn), "bert.context_length": uint32(context),
		"bert.attention.layer_norm_epsilon": float32(1e-12), "bert.attention.causal": false, "bert.pooling_type": uint32(1),
		"tokenizer.ggml.model": "bert", "tokenizer.ggml.tokens": words, "tokenizer.ggml.token_type": types,
		"tokenizer.ggml.token_type_count": uint32(2), "tokenizer.ggml.normalizer.lowercase": true,
		"tokenizer.ggml.unknown_token_id": uint32(1), "tokenizer.ggml.cls_token_id": uint32(2),
		"tokenizer.ggml.seperator_token_id": uint32(3), "tokenizer.ggml.padding_token_id": uint32(0),
	} {
		b.Set(key, v)
	}
	matrix("token_embd", len(words), width)
	matrix("token_types", 2, width)
	matrix("position_embd", context, width)
	norm("token_embd_norm")
	for i := range layers {
		at := fmt.Sprintf("blk.%d.", i)
		for _, name := range []string{"attn_q", "attn_k", "attn_v", "attn_output"} {
			full(at+name, width, width)
		}
		full(at+"ffn_up", ffn, width)
		full(at+"ffn_down", width, ffn)
		norm(at + "attn_output_norm")
		norm(at + "layer_output_norm")
	}
	if labels > 0 {
		b.Set("bert.pooling_type", uint32(4))
		full("cls.output", labels, width)
	}
	if labels > 1 {
		b.Set("bert.classifier.output_labels", []string{"fish", "bird", "world"}[:labels])
	}
	raw, err := b.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "encoder.gguf")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
