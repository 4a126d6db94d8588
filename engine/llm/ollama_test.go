package llm

import (
	"path/filepath"
	"testing"

	"weir/engine/gguf"
	"weir/engine/kernel/attend"
	"weir/engine/kernel/isa"
)

// Files of Ollama's own converter have other names for some keys and tensors, and the encoders of images beside the text: they give the logits of the
// files that they were made of.
func TestFilesOfOllamasConverter(t *testing.T) {
	image := func(b *gguf.Builder) {
		b.TensorF32("v.blk.0.attn_q.weight", []uint64{4, 4}, make([]float32, 16))
		b.TensorF32("mm.mm_input_projection.weight", []uint64{4, 4}, make([]float32, 16))
	}
	rename := func(names map[string]string) func(string) string {
		return func(name string) string {
			if to, ok := names[name]; ok {
				return to
			}
			return name
		}
	}
	for _, c := range []struct {
		file  string
		keys  func(string) string // "" leaves a key out
		names func(string) string
		edit  func(b *gguf.Builder)
	}{
		{"gemma3", rename(map[string]string{
			"gemma3.rope.freq_base": "gemma3.rope.global.freq_base", "gemma3.rope.freq_base_swa": "gemma3.rope.local.freq_base",
		}), rename(nil), image},
		{"gemma4-small", rename(nil), rename(nil), image},
	} {
		f := rewritten(t, filepath.Join(decoders, c.file+".gguf"), c.keys, c.names, c.edit)
		m, tokens := load(t, f), readTokens(t, decoders)
		got := allLogits(t, m, isa.Best(), tokens, attend.KVF32, 16, len(tokens), 2)
		if e := relativeL2(got, readFloats(t, filepath.Join(decoders, c.file+".logits"))); !(e <= 1e-5) {
			t.Errorf("%s: relative L2 %.2e", c.file, e)
		}
		if _, ok := f.Tensor("v.blk.0.attn_q.weight"); ok {
			t.Errorf("%s: the encoder of images is a part of the model", c.file)
		}
	}
}

// rewritten is a file with other names of keys and tensors.
func rewritten(t *testing.T, path string, keys, names func(string) string, edit func(b *gguf.Builder)) *gguf.File {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b gguf.Builder
	for _, kv := range f.KV {
		if key := keys(kv.Key); key != "" {
			b.Set(key, kv.Value)
		}
	}
	for i := range f.Tensors {
		x := &f.Tensors[i]
		raw := make([]byte, x.Bytes)
		if err := f.ReadTensor(x, raw); err != nil {
			t.Fatal(err)
		}
		b.Tensor(names(x.Name), x.Dims, x.Type, raw)
	}
	edit(&b)
	raw, err := b.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, raw)
}
