package llm

import (
	"weir/engine/kernel/vector"
)

// apertus covers Apertus: normed heads, and networks without a gate whose activation has parameters of each layer.
var apertus = architecture{name: "apertus", curves: true, plan: func(h *hparams) plan {
	p := h.decoder(vector.RopeNeox)
	for i := range p.layers {
		y := &p.layers[i]
		y.attention.headNorm, y.attention.oBias = true, optional
		y.feed.plain, y.feed.act, y.feed.curve = true, vector.Identity, h.curves[i]
	}
	return p
}}
