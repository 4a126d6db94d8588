package llm

import (
	"weir/engine/kernel/vector"
)

// hunyuanDense covers the dense Hunyuan models, 0.5B to 7B: each query and key head is normed after rotation.
var hunyuanDense = architecture{name: "hunyuan-dense", plan: func(h *hparams) plan {
	p := h.decoder(vector.RopeNeox)
	for i := range p.layers {
		p.layers[i].attention.headNorm, p.layers[i].attention.normLate = true, true
	}
	return p
}}
