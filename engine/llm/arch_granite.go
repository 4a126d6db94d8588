package llm

import (
	"weir/engine/kernel/vector"
)

// granite covers the dense Granite 3 and 4 models: llama whose embeddings, branches, scores and logits have factors, some of them without
// positions (NoPE).
var granite = architecture{name: "granite", longRope: true, factors: true, plan: granitePlan}

// graniteMoE covers the mixtures of experts of Granite 3, and those of which all rows pass through one.
var graniteMoE = architecture{name: "granitemoe", longRope: true, factors: true, experts: required, plan: func(h *hparams) plan {
	p, e := granitePlan(h), h.experts
	e.gating.by, e.gating.norm = gateSoftmax, true
	p.mixtures(h, e)
	return p
}}

func granitePlan(h *hparams) plan {
	p := h.decoder(vector.RopeNorm)
	p.embedding.scale, p.logits = h.factors.embedding, 1/h.factors.logits
	for i := range p.layers {
		y := &p.layers[i]
		if f := h.factors.branch; f != 1 {
			y.attention.norms.scale, y.feed.norms.scale = f, f
		}
		y.attention.oBias, y.feed.bias = optional, optional
		if h.noRope {
			y.attention.rope = noRope
		}
	}
	return p
}
