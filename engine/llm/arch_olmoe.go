package llm

import (
	"weir/engine/kernel/vector"
)

// olmoe covers OLMoE: llama whose networks are mixtures of experts; all query heads of a row are normed together, as are its key heads.
var olmoe = architecture{name: "olmoe", experts: required, plan: func(h *hparams) plan {
	p, e := h.decoder(vector.RopeNeox), h.experts
	e.gating.by, e.gating.norm = gateSoftmax, false
	p.mixtures(h, e)
	for i := range p.layers {
		p.layers[i].attention.rowNorm = rmsNorm
	}
	return p
}}
