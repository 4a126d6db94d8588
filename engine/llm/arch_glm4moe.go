package llm

import (
	"cmp"

	"weir/engine/kernel/vector"
)

// glm4moe covers GLM-4.5, 4.6 and 4.7 and their Air models: a part of a head rotates, the first layers have dense networks, the others
// mixtures of experts, one of which all rows pass through. The layer at the end drafts tokens.
var glm4moe = architecture{name: "glm4moe", experts: required, drafts: true, mtp: true, plan: func(h *hparams) plan {
	p, e := h.decoder(vector.RopeNeox), h.experts
	e.gating.by, e.gating.preferred = cmp.Or(e.gating.by, gateSigmoid), required
	e.shared = e.width * h.sharedExperts
	p.mixtures(h, e)
	for i := range p.layers {
		a := &p.layers[i].attention
		a.headNorm, a.headNormMaybe, a.qkvBias = true, true, optional
	}
	return p
}}
