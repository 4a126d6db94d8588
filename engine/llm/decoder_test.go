package llm

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/engine/gguf"
)

// decoders is the folder of what testdata/decoders.py has computed from the definitions, in doubles.
var decoders = filepath.Join("testdata", "decoders")

func TestDecodersMatchTheirDefinitions(t *testing.T) { matchLogits(t, decoders) }

// openDecoder loads a model of decoders with options.
func openDecoder(t *testing.T, name string, opts Options) *model {
	t.Helper()
	f, err := gguf.Open(filepath.Join(decoders, name+".gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	opts.KVBlocks = 1 << 20
	o, err := readOutline(f, &opts)
	if err != nil {
		t.Fatal(err)
	}
	m, err := o.load(func(int64, int64) {}, opts.stopped)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.release() })
	return m
}

// Where no sequence may be longer than the original context, the frequencies are those of short texts.
func TestFrequenciesFollowTheConfiguredLength(t *testing.T) {
	m := openDecoder(t, "phi3", Options{MaxModelLen: 80})
	compareLogits(t, m, readTokens(t, decoders), readFloats(t, filepath.Join(decoders, "phi3.short")))
	if m.long {
		t.Error("the model has the frequencies of long texts")
	}
	if !openDecoder(t, "phi3", Options{MaxModelLen: 81}).long {
		t.Error("the model has the frequencies of short texts")
	}
}

// Which layers have a window is told in booleans, or in integers, as llama.cpp's own writer has it.
func TestWindowPatternsAreBooleansOrIntegers(t *testing.T) {
	const layers = 3
	for _, c := range []struct {
		pattern any
		want    []bool
	}{
		{[]bool{true, false, true}, []bool{true, false, true}},
		{[]uint32{1, 0, 1}, []bool{true, false, true}},
		{[]int32{0, 1, 1}, []bool{false, true, true}},
		{uint32(2), []bool{true, false, true}},
		{nil, nil},
	} {
		f := tiny{arch: "gemma3", norms: true, edit: func(b *gguf.Builder) {
			if c.pattern != nil {
				b.Set("gemma3.attention.sliding_window_pattern", c.pattern)
			}
		}}.file(t)
		m := &metadata{f: f, prefix: "gemma3"}
		if got := m.windowPattern(layers); !slices.Equal(got, c.want) || m.err != nil {
			t.Errorf("%v: %v, %v, want %v", c.pattern, got, m.err, c.want)
		}
	}
	f := tiny{arch: "gemma3", norms: true, edit: func(b *gguf.Builder) { b.Set("gemma3.attention.sliding_window_pattern", []uint32{1, 0}) }}.file(t)
	m := &metadata{f: f, prefix: "gemma3"}
	if m.windowPattern(layers); m.err == nil || !strings.Contains(m.err.Error(), "is of 2 layers, and the model has 3") {
		t.Errorf("a pattern of two layers: %v", m.err)
	}
}

// What a family's keys ask for and is not built is refused by name.
func TestDecodersRefuseWhatIsNotBuilt(t *testing.T) {
	set := func(key string, v any) func(*gguf.Builder) { return func(b *gguf.Builder) { b.Set(key, v) } }
	for _, c := range []struct {
		m    tiny
		opts Options
		want string
	}{
		{tiny{arch: "phi3", edit: set("phi3.rope.scaling.type", "longrope")}, Options{}, "rope_factors_short.weight is missing"},
		{tiny{arch: "phi3", edit: func(b *gguf.Builder) {
			b.TensorF32("rope_factors_long.weight", []uint64{tinyHeadDim / 2}, make([]float32, tinyHeadDim/2))
		}}, Options{}, "one is missing"},
		{tiny{arch: "phi3", edit: func(b *gguf.Builder) {
			b.Set("phi3.rope.scaling.type", "longrope")
			b.Set("phi3.rope.scaling.factor", float32(4))
		}}, Options{}, "factor is 4 with longrope"},
		{tiny{arch: "phi3", edit: set("phi3.rope.scaling.type", "su")}, Options{}, `rope.scaling.type is "su"`},
		{tiny{arch: "mistral3", edit: set("mistral3.rope.scaling.yarn_log_multiplier", float32(-1))}, Options{}, "yarn_log_multiplier is -1"},
		{tiny{arch: "mistral3", edit: func(b *gguf.Builder) {
			b.Set("mistral3.rope.scaling.type", "yarn")
			b.Set("mistral3.rope.scaling.yarn_ext_factor", float32(0.5))
		}}, Options{}, "yarn_ext_factor is 0.5"},
		{tiny{arch: "glm4", edit: set("glm4.rope.dimension_sections", []int32{8, 4, 4, 0})}, Options{}, "the positions of images are not supported"},
		{tiny{arch: "qwen3vl", norms: true, edit: set("qwen3vl.rope.dimension_sections", []int32{8, 4, 2, 0})}, Options{}, "14 pairs, and a head has 16"},
		{tiny{arch: "granite", edit: set("granite.logit_scale", float32(-1))}, Options{}, "logit_scale is -1, must be positive"},
		{tiny{arch: "granite", edit: set("granite.residual_scale", float32(-1))}, Options{}, "residual_scale is -1"},
		{tiny{arch: "granite", edit: set("granite.expert_count", uint32(8))}, Options{}, "mixtures of experts"},
		{tiny{arch: "apertus", norms: true}, Options{}, "xielu.alpha_p has 0 values for 2 layers"},
		{tiny{arch: "hunyuan-dense", norms: true, edit: set("hunyuan-dense.rope.scaling.alpha", float32(50))}, Options{}, "rope.scaling.alpha is 50"},
		{tiny{arch: "stablelm", edit: set("stablelm.attention.layer_norm_epsilon", float32(1e-5))}, Options{}, "output_norm.bias is missing"},
		{tiny{arch: "gemma2", edit: set("gemma2.attention.sliding_window", uint32(0))}, Options{}, "sliding_window is 0, with which layers see nothing; published models of gemma2 have 4096"},
		{tiny{arch: "gpt-oss", edit: set("gpt-oss.attention.sliding_window", uint32(0))}, Options{}, "sliding_window is 0, with which layers see nothing; published models of gpt-oss have 128"},
	} {
		if _, err := Describe(c.m.file(t), c.opts); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", c.m.arch, err, c.want)
		}
	}
}

// llama.cpp's own writer has every key that it knows: what is not set is 0, and pooling is -1 without its sign.
func TestUnsetKeysOfLlamaCppAreAbsent(t *testing.T) {
	plain, err := readHparams(tiny{arch: "granite"}.file(t))
	if err != nil {
		t.Fatal(err)
	}
	set := tiny{arch: "granite", edit: func(b *gguf.Builder) {
		for _, key := range []string{"embedding_scale", "residual_scale", "logit_scale", "attention.temperature_scale"} {
			b.Set("granite."+key, float32(0))
		}
		b.Set("granite.attention.temperature_length", uint32(0))
		b.Set("granite.pooling_type", uint32(1<<32-1))
	}}.file(t)
	got, err := readHparams(set)
	if err != nil {
		t.Fatal(err)
	}
	if got.factors != plain.factors || got.temper != plain.temper || got.pooling != plain.pooling {
		t.Errorf("factors %v, temper %v and pooling %v; without the keys %v, %v, %v",
			got.factors, got.temper, got.pooling, plain.factors, plain.temper, plain.pooling)
	}
}
