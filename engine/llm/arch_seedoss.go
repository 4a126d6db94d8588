package llm

import (
	"weir/engine/kernel/vector"
)

// seedOSS covers Seed-OSS: llama with rotation of half-head pairs and biases on query, key and value.
var seedOSS = architecture{name: "seed_oss", plan: func(h *hparams) plan {
	p := h.decoder(vector.RopeNeox)
	for i := range p.layers {
		p.layers[i].attention.qkvBias, p.layers[i].attention.oBias = optional, optional
	}
	return p
}}
