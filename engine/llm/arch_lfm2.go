package llm

import (
	"weir/engine/kernel/recurrence"
	"weir/engine/kernel/vector"
)

// lfm2 covers the dense LFM2 and LFM2.5: most layers are short convolutions between gates, the others attention like Qwen3's.
var lfm2 = architecture{name: "lfm2", recurrent: recurrence.Convolution, plan: lfm2Plan}

// lfm2moe covers their mixtures of experts.
var lfm2moe = architecture{name: "lfm2moe", experts: required, recurrent: recurrence.Convolution, plan: func(h *hparams) plan {
	p, e := lfm2Plan(h), h.experts
	e.gating.norm, e.gating.preferred = true, optional
	p.mixtures(h, e)
	return p
}}

func lfm2Plan(h *hparams) plan {
	p := h.decoder(vector.RopeNeox)
	p.finalName = "token_embd_norm"
	for i := range p.layers {
		p.layers[i].attention.headNorm = true
	}
	p.withStates(h, absent)
	return p
}
