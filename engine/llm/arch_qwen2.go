package llm

import (
	"weir/engine/kernel/vector"
)

// qwen2 covers Qwen 2 and 2.5 and the DeepSeek-R1 distillations on them: biases
// on query, key and value, rotation of half-head pairs.
var qwen2 = architecture{name: "qwen2", plan: func(h *hparams) plan {
	p := h.decoder(vector.RopeNeox)
	for i := range p.layers {
		p.layers[i].attention.qkvBias = required
	}
	return p
}}
