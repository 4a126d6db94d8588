package llm

import (
	"weir/engine/kernel/vector"
)

// gemma covers Gemma 1 and CodeGemma: embeddings times the root of the width, GELU, head size independent of the width.
var gemma = architecture{name: "gemma", plan: func(h *hparams) plan {
	p := h.decoder(vector.RopeNeox)
	p.embedding.scale = squareRoot(h.width)
	for i := range p.layers {
		p.layers[i].feed.act = vector.GELU
	}
	return p
}}
