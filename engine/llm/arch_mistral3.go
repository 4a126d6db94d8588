package llm

import (
	"weir/engine/kernel/vector"
)

// mistral3 covers Ministral 3 and Devstral 2: llama whose attention grows sharper with the position. Earlier Mistral models are llama files.
var mistral3 = architecture{name: "mistral3", plan: func(h *hparams) plan {
	p := h.decoder(vector.RopeNorm)
	for i := range p.layers {
		a := &p.layers[i].attention
		a.temper = h.temper
		a.qkvBias, a.oBias, p.layers[i].feed.bias = optional, optional, optional
	}
	return p
}}
