package llm

import (
	"math"
	"testing"

	"weir/engine/gguf"
)

// FuzzHparams: no metadata make the engine panic, and what it takes has the sizes
// and the finite numbers that everything later relies on.
func FuzzHparams(f *testing.F) {
	f.Add(uint8(0), uint32(2), uint32(64), uint32(4), uint32(2), uint32(32), uint32(96), uint32(256), uint32(32), float32(1e4), float32(1), "none")
	f.Add(uint8(3), uint32(9), uint32(64), uint32(4), uint32(1), uint32(16), uint32(96), uint32(1<<17), uint32(8), float32(5e5), float32(32), "yarn")
	f.Fuzz(func(t *testing.T, arch uint8, depth, width, heads, kvHeads, headDim, ffn, context, dims uint32,
		base, factor float32, scaling string,
	) {
		name := architectures[int(arch)%len(architectures)].name
		var b gguf.Builder
		b.Set("general.architecture", name)
		for key, v := range map[string]any{
			"block_count": depth % 4096, "embedding_length": width % 4096, "attention.head_count": heads, "attention.head_count_kv": kvHeads,
			"attention.key_length": headDim, "attention.value_length": headDim, "feed_forward_length": ffn, "context_length": context,
			"attention.layer_norm_rms_epsilon": factor, "rope.dimension_count": dims, "rope.freq_base": base,
			"rope.scaling.factor": factor, "rope.scaling.type": scaling, "rope.scaling.original_context_length": context,
		} {
			b.Set(name+"."+key, v)
		}
		n := uint64(max(width%4096, 1))
		b.TensorF32("token_embd.weight", []uint64{n, 2}, make([]float32, 2*n))
		raw, err := b.Bytes()
		if err != nil {
			t.Skip(err)
		}
		h, err := readHparams(parse(t, raw))
		if err != nil {
			return
		}
		p := h.arch.plan(&h)
		if len(p.layers) != h.depth || h.depth < 1 || h.width < 1 || h.vocab != 2 || !finite([]float32{h.eps, h.scale}) {
			t.Fatalf("%+v", h)
		}
		for _, y := range p.layers {
			if a := y.attention; a.heads < 1 || a.heads%a.kvHeads != 0 || a.headDim < 2 || a.rope >= len(p.ropes) || y.feed.width < 1 && y.feed.experts.width < 1 {
				t.Fatalf("%+v", y)
			}
		}
		for i := range p.ropes {
			r := &p.ropes[i]
			if r.half < 1 || 2*r.half > h.headDim {
				t.Fatalf("%+v", r)
			}
			if r.half > 1<<12 {
				t.Skip("a rope of so many pairs takes long")
			}
			r.prepare(nil)
			for _, v := range r.freq {
				if math.IsNaN(v) || math.IsInf(v, 0) {
					t.Fatalf("frequency %v of %+v", v, r)
				}
			}
		}
	})
}
