package llm

import (
	"weir/engine/kernel/vector"
)

// qwen3 covers the dense Qwen 3 models: no biases, each query and key head
// normalised before rotation, head size independent of the width.
var qwen3 = architecture{name: "qwen3", plan: func(h *hparams) plan {
	p := h.decoder(vector.RopeNeox)
	for i := range p.layers {
		p.layers[i].attention.headNorm = true
	}
	return p
}}
