package llm

import (
	"weir/engine/kernel/vector"
)

// glm4 covers GLM-4-0414 and GLM-Z1: norms before and behind branches, rotation of half of a head.
var glm4 = architecture{name: "glm4", plan: func(h *hparams) plan {
	p := h.decoder(vector.RopeNorm)
	for i := range p.layers {
		y := &p.layers[i]
		y.attention.norms.out, y.feed.norms.out = rmsNorm, rmsNorm
		y.attention.qkvBias = optional
	}
	return p
}}
