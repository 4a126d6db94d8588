package llm

import (
	"weir/engine/kernel/vector"
)

// llama covers Llama 2 and 3.x, Mistral, SmolLM2, TinyLlama and the many files
// converted under this name. The converter permutes query and key rows so that
// neighbours rotate together. Llama 3.1 and later ship per-frequency divisors
// in rope_freqs.weight; some fine-tunes carry biases. Mixtral's networks are mixtures of experts.
var llama = architecture{name: "llama", experts: optional, plan: func(h *hparams) plan {
	p := h.decoder(vector.RopeNorm)
	if e := h.experts; e.count > 0 {
		e.gating.by, e.gating.norm = gateSoftmax, true
		p.mixtures(h, e)
	}
	for i := range p.layers {
		y := &p.layers[i]
		y.attention.qkvBias, y.attention.oBias, y.feed.bias = optional, optional, optional
	}
	return p
}}
