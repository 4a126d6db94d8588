package llm

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/engine/gguf"
	"weir/engine/kernel"
	"weir/engine/kernel/attend"
	"weir/engine/kernel/isa"
	"weir/internal/inference"
	"weir/scheduler"
)

// changed is a file of testdata with other metadata, and without some tensors. A nil value leaves a key out.
func changed(t *testing.T, path string, set map[string]any, without ...string) *gguf.File {
	t.Helper()
	f, err := gguf.Open(filepath.Join("testdata", path+".gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b gguf.Builder
	for _, kv := range f.KV {
		if _, ok := set[kv.Key]; !ok {
			b.Set(kv.Key, kv.Value)
		}
	}
	for key, v := range set {
		if v != nil {
			b.Set(key, v)
		}
	}
	for i := range f.Tensors {
		x := &f.Tensors[i]
		raw := make([]byte, x.Bytes)
		if err := f.ReadTensor(x, raw); err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(without, x.Name) {
			b.Tensor(x.Name, x.Dims, x.Type, raw)
		}
	}
	raw, err := b.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, raw)
}

// Layers, windows and shared keys that contradict each other are refused by name.
func TestGemma4RefusesContradictions(t *testing.T) {
	const small, dense, text = "decoders/gemma4-small", "decoders/gemma4-dense", "encoders/gemma-embedding2"
	for _, c := range []struct {
		path, key string
		value     any
		without   string
		want      string
	}{
		{small, "gemma4.attention.shared_kv_layers", uint32(7), "", "shared_kv_layers is 7 of 7 layers"},
		{small, "gemma4.attention.shared_kv_layers", uint32(6), "", "layer 1 reads keys and values of an earlier layer with a window like its own, and there is none"},
		{small, "gemma4.attention.shared_kv_layers", uint32(4), "", "blk.3.attn_k.weight, blk.3.attn_k_norm.weight"},
		{small, "gemma4.attention.shared_kv_layers", uint32(0), "", "blk.4.attn_k.weight is missing"},
		{small, "gemma4.attention.sliding_window_pattern", []bool{true, false, true}, "", "sliding_window_pattern is of 3 layers, and the model has 7"},
		{small, "gemma4.attention.sliding_window_pattern", nil, "", "sliding_window_pattern is missing"},
		{small, "gemma4.attention.sliding_window_pattern", []bool{true, true, true, true, true, true, true}, "", "head_count_kv is 2 in layer 4, which reads the keys and values of layer 3 with 1"},
		{small, "gemma4.attention.head_count_kv", nil, "", "gemma4.attention.head_count_kv is missing"},
		{small, "gemma4.attention.key_length", nil, "", "gemma4.attention.key_length is missing"},
		{small, "gemma4.attention.head_count_kv", []int32{2, 1}, "", "head_count_kv is of 2 layers, and the model has 7"},
		{small, "gemma4.attention.head_count_kv", []int32{2, 3, 2, 1, 2, 2, 1}, "", "head_count_kv, which is 3 in layer 1"},
		{small, "gemma4.attention.head_count_kv", []int32{2, 1, 2, 1, 4, 2, 1}, "", "head_count_kv is 4 in layer 4, which reads the keys and values of layer 2 with 2"},
		{small, "gemma4.feed_forward_length", []int32{40, 40}, "", "feed_forward_length is of 2 layers"},
		{small, "gemma4.feed_forward_length", uint32(40), "", "blk.4.ffn_gate.weight has shape"},
		{small, "gemma4.embedding_length_per_layer_input", uint32(0), "", "have no place in this architecture"},
		{small, "gemma4.embedding_length_per_layer_input", uint32(1 << 19), "", "too many values for 7 layers"},
		{small, "", nil, "rope_freqs.weight", "rope_freqs.weight is missing"},
		{small, "gemma4.attention.sliding_window", nil, "", "sliding_window is missing or 0"},
		{small, "gemma4.rope.freq_base_swa", float32(-1), "", "freq_base_swa is -1, must not be negative"},
		{small, "", nil, "per_layer_token_embd.weight", "per_layer_token_embd.weight is missing"},
		{small, "gemma4.attention.key_length_swa", uint32(7), "", "key_length_swa"},
		{small, "gemma4.attention.value_length_swa", uint32(12), "", "value_length_swa is 12 and key_length_swa 8"},
		{small, "gemma4.rope.dimension_count_swa", uint32(10), "", "dimension_count_swa is 10"},
		{small, "tokenizer.ggml.suppress_tokens", []int32{3, 60}, "", "suppress_tokens holds 60, outside of the vocabulary of 60"},
		{dense, "", nil, "blk.2.attn_k.weight", "blk.2.attn_k.weight is missing"},
		{dense, "gemma4.expert_count", uint32(4), "", "expert_used_count is missing"},
		{"decoders/gemma3", "gemma3.attention.key_length", nil, "", "gemma3.attention.key_length is missing; attention.value_length is"},
		{text, "", nil, "output.weight", "output.weight is missing"},
		{text, "gemma-embedding2.embedding_length_out", uint32(768), "", "gives vectors of 20 values, and gemma-embedding2.embedding_length_out is 768"},
		{text, "gemma-embedding2.attention.causal", true, "", "attention.causal is true"},
	} {
		f := changed(t, c.path, map[string]any{c.key: c.value}, c.without)
		if _, err := Describe(f, Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %s %v without %q: %v, want %q in it", c.path, c.key, c.value, c.without, err, c.want)
		}
	}
}

// The table of layers' inputs is no part of the memory: its rows come from the file, which stays open for as long as the model.
func TestInputsAreReadFromTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.gguf")
	raw, err := os.ReadFile(filepath.Join(decoders, "gemma4-small.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := Describe(f, Options{})
	if err != nil {
		t.Fatal(err)
	}
	wide, err := Describe(f, Options{Scheduler: scheduler.Config{MaxBatchTokens: 2048}})
	if n := info.InputBytes / 512; err != nil || n < int64(info.Layers*4) || wide.InputBytes != 2048*n {
		t.Errorf("inputs of a step take %d bytes, and %d of one with 2048 rows, %v", info.InputBytes, wide.InputBytes, err)
	}
	table, _ := f.Tensor("per_layer_token_embd.weight")
	if info.TableBytes != table.Bytes {
		t.Errorf("a table of %d bytes, want %d", info.TableBytes, table.Bytes)
	}
	opts := Options{}
	o, err := readOutline(f, &opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range o.loader.wants {
		if w.tensor.Name == table.Name {
			t.Error("the table is read into memory")
		}
	}
	m, err := loadModel(f)
	if err != nil {
		t.Fatal(err)
	}
	defer m.release()
	if err := errors.Join(f.Close(), os.Remove(path)); err != nil {
		t.Fatal(err)
	}
	compareLogits(t, m, readTokens(t, decoders), readFloats(t, filepath.Join(decoders, "gemma4-small.logits")))
}

// A file that becomes shorter is an error of what runs the model outside of an engine, not the end of the process.
func TestATableThatCanNotBeReadIsAnError(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(decoders, "gemma4-small.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := OpenScorer(f, Options{MaxModelLen: 64}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	yield := func(int, []float32) {}
	if err := s.Score([]int32{1, 2, 3}, 0, yield); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 4096); err != nil {
		t.Fatal(err)
	}
	if err := s.Score([]int32{1, 2, 3}, 0, yield); !errors.Is(err, gguf.ErrTruncated) {
		t.Errorf("scoring: %v", err)
	}
	if err := s.model.try(s.cpu, s.kv, s.shape.blockTokens(), s.stopped); !errors.Is(err, gguf.ErrTruncated) {
		t.Errorf("the first token: %v", err)
	}
}

// A token that the file suppresses is never sampled, whatever its logit.
func TestSuppressedTokensAreNeverSampled(t *testing.T) {
	sampled := func(suppressed ...int32) []int32 {
		m := families[0]
		m.edit = func(b *gguf.Builder) { b.Set("tokenizer.ggml.suppress_tokens", suppressed) }
		return ask(t, start(t, m, Options{}), greedy([]int32{1, 2, 3}, 24)).tokens[0]
	}
	free := sampled()
	if held := sampled(free[0], free[5]); slices.Contains(held, free[0]) || slices.Contains(held, free[5]) || len(held) != 24 {
		t.Errorf("%v without %d and %d", held, free[0], free[5])
	}
}

// What comes out of EmbeddingGemma 2 is a product of the mean.
func TestEmbeddingGemma2ProjectsTheMean(t *testing.T) {
	dir := filepath.Join("testdata", "encoders")
	m, tokens := openReference(t, dir, "gemma-embedding2"), readTokens(t, dir)
	hidden, pooled := hiddenOf(t, m, isa.Best(), [][]int32{tokens}, len(tokens), 2), make([]float32, m.width)
	for r := range tokens {
		add(pooled, hidden[r*m.width:])
	}
	for i := range pooled {
		pooled[i] /= float32(len(tokens))
	}
	c := kernel.NewCPU(1, isa.Best())
	defer c.Close()
	got, width := m.head.run(c, pooled, 1)
	want := readFloats(t, filepath.Join(dir, "gemma-embedding2.pooled"))
	if e := relativeL2(got, want); width != len(want) || e > 1e-5 {
		t.Errorf("%d values of %d, relative L2 %.2e", width, len(want), e)
	}
	f, err := gguf.Open(filepath.Join(dir, "gemma-embedding2.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if info, err := Describe(f, Options{}); err != nil || info.Dimensions != len(want) || info.InputBytes < mostRows*int64(info.Layers)*4 {
		t.Errorf("vectors of %d values are described, and inputs of %d bytes, %v", info.Dimensions, info.InputBytes, err)
	}
}

// The engine's answers are those of the model computed again for each token: alone, after a prefix hit far beyond the window, and among others.
func TestGemma4AnswersAsItsModel(t *testing.T) {
	for _, name := range []string{"gemma4-small", "gemma4-dense"} {
		for _, kv := range []attend.KVType{attend.KVF32, attend.KVF16} {
			f := changed(t, "decoders/"+name, nil)
			m := load(t, f)
			tokens := readTokens(t, decoders)
			want := slices.Clone(tokens)
			for range 8 {
				rows := allLogits(t, m, isa.Best(), want, kv, 16, len(want), 2)
				last := rows[(len(want)-1)*m.vocab:]
				want = append(want, int32(slices.Index(last, slices.Max(last))))
			}
			e, err := Open(f, Options{Threads: 2, KVBlocks: 200, KVType: kv}, nil)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if got := ask(t, e, greedy(tokens, 8)).tokens[0]; !slices.Equal(got, want[len(tokens):]) {
					t.Errorf("%s, %v: %v, want %v", name, kv, got, want[len(tokens):])
				}
			}
			others := []*inference.Request{greedy(tokens, 8), greedy(prompt(3, 50), 20), greedy(tokens[:30], 12), greedy(prompt(4, 9), 20)}
			for _, r := range others[1:] {
				for i := range r.Prompt {
					r.Prompt[i] %= int32(m.vocab)
				}
			}
			if got := answers(t, e, others)[0].tokens[0]; !slices.Equal(got, want[len(tokens):]) {
				t.Errorf("%s, %v, among others: %v, want %v", name, kv, got, want[len(tokens):])
			}
			stop(t, e)
		}
	}
}
