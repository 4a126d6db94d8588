package llm

import (
	"weir/engine/kernel/vector"
)

// ernie45 covers the dense ERNIE 4.5, the 0.3B: llama with a head size of its own.
var ernie45 = architecture{name: "ernie4_5", plan: erniePlan}

// ernie45MoE covers ERNIE 4.5 21B-A3B and 300B-A47B: the first layers have dense networks, of the others every step-th a mixture of experts,
// of which all rows may pass through one.
var ernie45MoE = architecture{name: "ernie4_5-moe", experts: required, plan: func(h *hparams) plan {
	p, e := erniePlan(h), h.experts
	e.gating.by, e.gating.norm, e.gating.preferred = gateSoftmax, true, optional
	p.mixtures(h, e)
	return p
}}

func erniePlan(h *hparams) plan {
	p := h.decoder(vector.RopeNorm)
	for i := range p.layers {
		p.layers[i].attention.qkvBias = optional
	}
	return p
}
