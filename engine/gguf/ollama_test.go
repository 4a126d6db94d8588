package gguf

import (
	"bytes"
	"slices"
	"testing"
)

// translated is a file with these keys and tensors of one row, as it is opened.
func translated(t *testing.T, keys map[string]any, tensors map[string][]uint64) *File {
	t.Helper()
	var b Builder
	for key, v := range keys {
		b.Set(key, v)
	}
	for name, dims := range tensors {
		n := uint64(1)
		for _, d := range dims {
			n *= d
		}
		b.TensorF32(name, dims, make([]float32, n))
	}
	raw, err := b.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	f, err := Parse(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// wantKeys compares keys; nil says that there is none.
func wantKeys(t *testing.T, f *File, keys map[string]any) {
	t.Helper()
	for key, want := range keys {
		got, ok := f.Value(key)
		if list, is := want.([]string); is {
			if s, _ := got.([]string); !slices.Equal(s, list) {
				t.Errorf("%s is %v, want %v", key, got, want)
			}
		} else if ok != (want != nil) || ok && got != want {
			t.Errorf("%s is %v, want %v", key, got, want)
		}
	}
}

func wantTensors(t *testing.T, f *File, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, ok := f.Tensor(name); !ok {
			t.Errorf("there is no tensor %s", name)
		}
	}
	if len(f.Tensors) != len(names) {
		t.Errorf("%d tensors, want %d", len(f.Tensors), len(names))
	}
}

func TestGemma3OfOllama(t *testing.T) {
	keys := map[string]any{
		"general.architecture": "gemma3", "gemma3.context_length": uint32(131072), "gemma3.rope.global.freq_base": float32(5e5),
		"gemma3.mm.tokens_per_image": uint32(256), "tokenizer.ggml.tokens": []string{"a", "b", "c"}, "tokenizer.ggml.scores": []float32{1, 2, 3},
	}
	f := translated(t, keys, map[string][]uint64{"token_embd.weight": {4, 2}, "v.blk.0.attn_q.weight": {2, 2}, "mm.x.weight": {2, 2}})
	wantTensors(t, f, "token_embd.weight")
	wantKeys(t, f, map[string]any{
		"gemma3.rope.freq_base": float32(5e5), "gemma3.rope.freq_base_swa": float32(1e4), "gemma3.attention.layer_norm_rms_epsilon": float32(1e-6),
		"gemma3.rope.scaling.type": "linear", "gemma3.rope.scaling.factor": float32(8), "tokenizer.ggml.tokens": []string{"a", "b"},
		"tokenizer.ggml.add_space_prefix": false, "tokenizer.chat_template": gemma3Template,
	})
	keys = map[string]any{"general.architecture": "gemma3", "gemma3.context_length": uint32(131072), "gemma3.attention.layer_norm_rms_epsilon": float32(1e-5)}
	own := translated(t, keys, map[string][]uint64{"token_embd.weight": {4, 2}})
	wantKeys(t, own, map[string]any{"gemma3.rope.scaling.type": nil, "gemma3.rope.freq_base": nil, "tokenizer.chat_template": nil})
}

func TestEmbeddingGemmaOfOllama(t *testing.T) {
	f := translated(t, map[string]any{
		"general.architecture": "gemma3", "gemma3.block_count": uint32(24), "gemma3.attention.causal": true, "gemma3.attention.sliding_window": uint32(512),
	}, map[string][]uint64{"token_embd.weight": {4, 2}, "dense.0.weight": {2, 2}, "dense.1.weight": {2, 2}, "norm.weight": {4}})
	wantTensors(t, f, "token_embd.weight", "dense_2.weight", "dense_3.weight", "output_norm.weight")
	wantKeys(t, f, map[string]any{
		"general.architecture": "gemma-embedding", "gemma-embedding.block_count": uint32(24), "gemma-embedding.attention.causal": nil,
		"gemma-embedding.attention.sliding_window": uint32(512), "gemma-embedding.pooling_type": uint32(1), "gemma3.block_count": nil,
	})
}

func TestGemma4OfOllama(t *testing.T) {
	f := translated(t, map[string]any{"general.architecture": "gemma4", "tokenizer.ggml.model": "llama", "tokenizer.ggml.merges": []string{"a b"}},
		map[string][]uint64{"a.conv.weight": {2}, "v.x.weight": {2}, "blk.0.ffn_gate_inp.per_expert_scale": {2}})
	wantTensors(t, f, "blk.0.ffn_down_exps.scale")
	wantKeys(t, f, map[string]any{"tokenizer.ggml.model": "gemma4"})
}
