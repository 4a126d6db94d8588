package llm

import (
	"cmp"

	"weir/engine/kernel/vector"
)

// bailingMoE2 covers Ling and Ring 2.0: each query and key head is normed, the first layers have dense networks, the others mixtures of
// experts, some of which all rows pass through. The layers at the end that draft tokens are left out.
var bailingMoE2 = architecture{name: "bailingmoe2", experts: required, drafts: true, plan: func(h *hparams) plan {
	p, e := h.decoder(vector.RopeNeox), h.experts
	e.gating.by, e.gating.preferred = cmp.Or(e.gating.by, gateSigmoid), optional
	e.shared = cmp.Or(e.shared, e.width) * h.sharedExperts
	p.mixtures(h, e)
	for i := range p.layers {
		p.layers[i].attention.headNorm = true
	}
	return p
}}
