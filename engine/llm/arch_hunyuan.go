package llm

import (
	"cmp"

	"weir/engine/kernel/vector"
)

// hunyuanDense covers the dense Hunyuan models, 0.5B to 7B: each query and key head is normed after rotation.
var hunyuanDense = architecture{name: "hunyuan-dense", plan: hunyuanPlan}

// hunyuanMoE covers Hunyuan-A13B: hunyuan whose networks are mixtures of experts, of which all rows pass through one.
var hunyuanMoE = architecture{name: "hunyuan-moe", experts: required, plan: func(h *hparams) plan {
	p, e := hunyuanPlan(h), h.experts
	e.gating.by, e.gating.norm = gateSoftmax, true
	e.width, e.shared = h.ffn, cmp.Or(e.shared, h.ffn)
	p.mixtures(h, e)
	return p
}}

func hunyuanPlan(h *hparams) plan {
	p := h.decoder(vector.RopeNeox)
	for i := range p.layers {
		p.layers[i].attention.headNorm, p.layers[i].attention.normLate = true, true
	}
	return p
}
