package llm

import (
	"weir/engine/kernel/vector"
)

// smollm3 covers SmolLM3: llama without biases, and every fourth layer attends
// without positions (NoPE).
var smollm3 = architecture{name: "smollm3", plan: func(h *hparams) plan {
	const period = 4
	p := h.decoder(vector.RopeNorm)
	for i := period - 1; i < len(p.layers); i += period {
		p.layers[i].attention.rope = noRope
	}
	return p
}}
