package llm

import (
	"weir/engine/kernel/vector"
)

// arcee covers AFM-4.5B: llama whose networks have no gate, and the square of what is positive as activation.
var arcee = architecture{name: "arcee", plan: func(h *hparams) plan {
	p := h.decoder(vector.RopeNorm)
	for i := range p.layers {
		p.layers[i].feed.plain, p.layers[i].feed.act = true, vector.SquaredReLU
	}
	return p
}}
