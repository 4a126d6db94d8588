package llm

import (
	"weir/engine/kernel/vector"
)

// internLM2 covers InternLM 2 and 2.5: llama under a name of its own.
var internLM2 = architecture{name: "internlm2", plan: func(h *hparams) plan {
	p := h.decoder(vector.RopeNorm)
	for i := range p.layers {
		p.layers[i].attention.qkvBias, p.layers[i].attention.oBias = optional, optional
	}
	return p
}}
