package llm

import (
	"weir/engine/kernel/vector"
)

// gptOSS covers gpt-oss 20B and 120B: every second layer sees a window, heads have sinks, networks are mixtures of experts with biases and a
// clamped activation.
var gptOSS = architecture{name: "gpt-oss", experts: required, period: 2, trained: 128, plan: func(h *hparams) plan {
	p, e := h.decoder(vector.RopeNeox), h.experts
	e.gating.by, e.routerBias, e.bias = gateChosen, required, required
	e.clamp = vector.Clamp{Slope: 1.702, Limit: 7}
	p.mixtures(h, e)
	h.within(&p, h.windowed)
	for i := range p.layers {
		a := &p.layers[i].attention
		a.sinks, a.qkvBias, a.oBias = required, required, required
	}
	return p
}}
