package llm

import (
	"weir/engine/kernel/vector"
)

// ernie45 covers the dense ERNIE 4.5, the 0.3B: llama with a head size of its own.
var ernie45 = architecture{name: "ernie4_5", plan: func(h *hparams) plan {
	p := h.decoder(vector.RopeNorm)
	for i := range p.layers {
		p.layers[i].attention.qkvBias = optional
	}
	return p
}}
