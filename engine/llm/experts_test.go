package llm

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"weir/engine/gguf"
	"weir/engine/kernel"
	"weir/engine/kernel/attend"
	"weir/engine/kernel/isa"
)

// A file whose experts contradict each other, or what is built, is refused by the name of the key or tensor.
func TestExpertsThatContradictAreRefused(t *testing.T) {
	set := func(key string, v any) func(*gguf.Builder) {
		return func(b *gguf.Builder) { b.Set("qwen3moe."+key, v) }
	}
	for _, c := range []struct {
		edit func(*gguf.Builder)
		want string
	}{
		{set("expert_count", uint32(6)), "tensor blk.0.ffn_gate_inp.weight has shape"},
		{set("expert_count", uint32(1<<31)), "expert_count is 2147483648"},
		{set("expert_used_count", uint32(6)), "expert_used_count is 6, more than expert_count 5"},
		{set("expert_used_count", uint32(0)), "expert_used_count is 0"},
		{set("expert_feed_forward_length", uint32(64)), "tensor blk.0.ffn_gate_exps.weight has shape"},
		{set("expert_shared_feed_forward_length", uint32(32)), "tensor blk.0.ffn_gate_shexp.weight is missing"},
		{set("expert_gating_func", uint32(9)), "expert_gating_func is 9; known are"},
		{set("expert_group_count", uint32(2)), "expert_group_count is 2 of 5 experts"},
		{set("leading_dense_block_count", uint32(3)), "leading_dense_block_count is 3, and the model has 2 layers"},
		{set("leading_dense_block_count", uint32(1)), "tensor blk.0.ffn_gate.weight is missing"},
		{func(b *gguf.Builder) {
			b.TensorF32("blk.0.exp_probs_b.bias", []uint64{5}, make([]float32, 5))
		}, "blk.0.exp_probs_b.bias"},
		{func(b *gguf.Builder) {
			b.TensorF32("blk.1.ffn_down_exps.scale", []uint64{4}, make([]float32, 4))
		}, "tensor blk.1.ffn_down_exps.scale has shape [4]"},
		{func(b *gguf.Builder) {
			b.TensorF32("blk.1.ffn_gate_up_exps.weight", []uint64{tinyWidth, tinyFFN, 5}, make([]float32, tinyWidth*tinyFFN*5))
		}, "tensor blk.1.ffn_gate_up_exps.weight has shape"},
	} {
		m := tiny{arch: "qwen3moe", seed: 1, norms: true, experts: 5, edit: c.edit}
		if _, err := Describe(m.file(t), Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q in it", err, c.want)
		}
	}
}

// A file of gpt-oss as Ollama first made them is refused by the name of what is other in it.
func TestEarlyFilesOfOllamaAreRefused(t *testing.T) {
	m := tiny{arch: "gpt-oss", seed: 1, bias: true, experts: 4}
	raw := m.build(t)
	name := []byte("blk.0.ffn_up_exps.weight")
	at := bytes.Index(raw, name) + len(name) + 4 + 3*8 // the dimensions' number, and they
	raw[at] = 4
	_, err := Describe(parse(t, raw), Options{})
	if err == nil || !strings.Contains(err.Error(), `"blk.0.ffn_up_exps.weight"`) || !strings.Contains(err.Error(), "MXFP4 in Ollama's early files") {
		t.Error(err)
	}
	m.arch = "gptoss"
	if _, err := Describe(m.file(t), Options{}); err == nil || !strings.Contains(err.Error(), "early files of gpt-oss") {
		t.Error(err)
	}
}

// Phi-3.5-MoE is refused with the reason, since runtimes compute its files otherwise than its models were trained.
func TestPhiMoEIsRefusedWithItsReason(t *testing.T) {
	if _, err := Describe(tiny{arch: "phimoe"}.file(t), Options{}); err == nil || !strings.Contains(err.Error(), "trained with layer norms and SparseMixer") {
		t.Error(err)
	}
}

// Routes are as the definition says, for all ways of gating; rows whose scores are not numbers show it and break nothing.
func TestRoutesFollowTheDefinition(t *testing.T) {
	c := kernel.NewCPU(1, isa.Portable)
	defer c.Close()
	nan := float32(math.NaN())
	softmax := func(list ...float64) []float64 {
		sum := 0.0
		for i, v := range list {
			list[i] = math.Exp(v)
			sum += list[i]
		}
		for i := range list {
			list[i] /= sum
		}
		return list
	}
	sigmoid := func(v float64) float64 { return 1 / (1 + math.Exp(-v)) }
	all := softmax(1, 3, 2, 3, 0, -1)
	for _, x := range []struct {
		name      string
		gating    gating
		preferred []float32
		scale     []float32
		scores    []float32
		experts   []int32
		shares    []float64
	}{
		{"softmax", gating{by: gateSoftmax}, nil, nil, []float32{1, 3, 2, 3, 0, -1}, []int32{1, 3}, []float64{all[1], all[3]}},
		{"softmax, normed", gating{by: gateSoftmax, norm: true}, nil, nil, []float32{1, 3, 2, 4, 0, -1}, []int32{1, 3}, softmax(3, 4)},
		{"chosen", gating{by: gateChosen}, nil, nil, []float32{1, 3, 2, 4, 0, -1}, []int32{1, 3}, softmax(3, 4)},
		{"scaled", gating{by: gateChosen, scale: 2}, nil, []float32{1, 2, 3, 4, 5, 6}, []float32{1, 3, 2, 3, 0, -1}, []int32{1, 3}, []float64{2, 4}},
		{"sigmoid, preferred", gating{by: gateSigmoid}, []float32{0, 0, 9, 0, 0, 8}, nil, []float32{1, 3, 2, 4, 0, -1}, []int32{2, 5}, []float64{sigmoid(2), sigmoid(-1)}},
		{"groups", gating{by: gateSigmoid, groups: 2, used: 1}, nil, nil, []float32{-9, 5, -9, 1, 1, 1}, []int32{3, 4}, []float64{sigmoid(1), sigmoid(1)}},
		{"equals", gating{by: gateChosen}, nil, nil, []float32{1, 1, 1, 1, 1, 1}, []int32{0, 1}, []float64{0.5, 0.5}},
		{"no numbers", gating{by: gateSoftmax, norm: true}, nil, nil, []float32{nan, nan, nan, nan, nan, nan}, []int32{0, 1}, []float64{math.NaN(), math.NaN()}},
	} {
		var r routing
		e := &expertsPlan{count: 6, use: 2, gating: x.gating}
		r.begin(e, &moeWeights{preferred: x.preferred, scale: x.scale}, x.scores, 1)
		r.run(c, 1)
		same := slices.Equal(r.Expert, x.experts)
		for i, v := range r.Share {
			d := math.Abs(float64(v) - x.shares[i])
			same = same && (d < 1e-6 || math.IsNaN(float64(v)) && math.IsNaN(x.shares[i]))
		}
		if !same {
			t.Errorf("%s: experts %v, shares %v; want %v, %v", x.name, r.Expert, r.Share, x.experts, x.shares)
		}
	}
}

// Gates and ups in one tensor are those of two.
func TestGatesAndUpsInOneTensor(t *testing.T) {
	apart := tiny{arch: "qwen3moe", seed: 3, norms: true, experts: 5}
	together := apart
	together.together = true
	tokens, level := []int32{3, 14, 15, 9, 26, 5}, levels()[0]
	want := allLogits(t, load(t, apart.file(t)), level, tokens, attend.KVF32, 16, len(tokens), 1)
	if !slices.Equal(allLogits(t, load(t, together.file(t)), level, tokens, attend.KVF32, 16, len(tokens), 1), want) {
		t.Error("other logits than of two tensors")
	}
}
