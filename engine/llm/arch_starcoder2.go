package llm

import (
	"weir/engine/kernel/vector"
)

// starcoder2 covers StarCoder 2: layer norms, biases everywhere, networks without a gate, a window of 4096 tokens that files
// do not tell.
var starcoder2 = architecture{name: "starcoder2", layerNorm: true, trained: 4096, plan: func(h *hparams) plan {
	p := h.normedByMean()
	for i := range p.layers {
		y := &p.layers[i]
		y.attention.qkvBias, y.attention.oBias, y.feed.bias = required, required, required
		y.feed.plain, y.feed.act = true, vector.GELU
	}
	h.within(&p, func(int) bool { return true })
	return p
}}
