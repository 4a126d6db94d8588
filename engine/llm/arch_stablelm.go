package llm

// stableLM covers StableLM and StableLM 2 but the 12B, whose branches stand side by side: layer norms, rotation of a quarter of a head.
var stableLM = architecture{name: "stablelm", layerNorm: true, plan: func(h *hparams) plan {
	p := h.normedByMean()
	for i := range p.layers {
		p.layers[i].attention.qkvBias = optional
	}
	return p
}}
