package servertest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"weir/engine/gguf"
)

// TinyDecider writes a random text encoder with a decision head, of a vocabulary of a few words.
func TinyDecider(t *testing.T) string {
	t.Helper()
	const width, ffn, layers = 32, 64, 2 // the last layer is the head's
	r := rand.New(rand.NewPCG(3, 4))
	b := &gguf.Builder{}
	tensor := func(name string, mean float64, dims ...uint64) {
		n := uint64(1)
		for _, d := range dims {
			n *= d
		}
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(mean + r.NormFloat64()/math.Sqrt(width))
		}
		b.TensorF32(name, dims, v)
	}
	for key, v := range map[string]any{
		"general.architecture": "modern-bert", "modern-bert.block_count": uint32(layers), "modern-bert.embedding_length": uint32(width),
		"modern-bert.attention.head_count": uint32(2), "modern-bert.feed_forward_length": []uint32{ffn, width}, "modern-bert.context_length": uint32(64),
		"modern-bert.attention.layer_norm_epsilon": float32(1e-5), "modern-bert.attention.causal": false, "modern-bert.attention.sliding_window": uint32(8),
		"modern-bert.decision.type": "laya", "modern-bert.decision.block_count": uint32(1), "modern-bert.decision.max_head_tokens": uint32(32),
		"modern-bert.decision.temperature.noul": float32(0.5), "tokenizer.ggml.token_type_count": uint32(3),
		"tokenizer.ggml.model": "bert", "tokenizer.ggml.tokens": []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "▁hello", "▁world", "▁fish", "▁bird", "▁yes", "▁no"},
		"tokenizer.ggml.token_type": []int32{3, 3, 3, 3, 3, 1, 1, 1, 1, 1, 1}, "tokenizer.ggml.unknown_token_id": uint32(1), "tokenizer.ggml.cls_token_id": uint32(2),
		"tokenizer.ggml.seperator_token_id": uint32(3), "tokenizer.ggml.mask_token_id": uint32(4),
		"tokenizer.chat_template.systemone": "[CLS]{{ type }} {{ instructions }}[SEP]{% for o in options %}[MASK] {% if type == 'noul' %}" +
			"{{ 'yes' if o.key == 'true' else 'no' }}{% else %}{{ o.key }}{% endif %}{% endfor %}[SEP]{{ state if state is string else state | tojson }}[SEP]",
	} {
		b.Set(key, v)
	}
	tensor("token_embd.weight", 0, width, 11)
	tensor("token_embd_norm.weight", 1, width)
	tensor("output_norm.weight", 1, width)
	for i := range layers {
		at, up := fmt.Sprintf("blk.%d.", i), uint64(2*ffn)
		if i == layers-1 {
			up = width
			tensor(at+"attn_norm.weight", 1, width)
			for name, n := range map[string]uint64{"attn_norm": width, "ffn_norm": width, "attn_qkv": 3 * width, "attn_output": width, "ffn_up": up, "ffn_down": width} {
				b.TensorF32(at+name+".bias", []uint64{n}, make([]float32, n))
			}
		}
		tensor(at+"ffn_norm.weight", 1, width)
		tensor(at+"attn_qkv.weight", 0, width, 3*width)
		tensor(at+"attn_output.weight", 0, width, width)
		tensor(at+"ffn_up.weight", 0, width, up)
		tensor(at+"ffn_down.weight", 0, min(up, ffn), width)
	}
	tensor("token_types.weight", 0, width, 3)
	for name, n := range map[string]uint64{"cls.norm": width, "cls": width, "cls.output": 1} {
		b.TensorF32(name+".bias", []uint64{n}, make([]float32, n))
	}
	tensor("cls.norm.weight", 1, width)
	tensor("cls.weight", 0, width, width)
	tensor("cls.output.weight", 0, width)
	raw, err := b.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "decider.gguf")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
