package llm

import (
	"weir/engine/kernel/recurrence"
	"weir/engine/kernel/vector"
)

// falconH1 covers Falcon H1: attention and Mamba 2 stand side by side behind one norm in each layer. What the models multiply with, converters
// have taken into the weights.
var falconH1 = architecture{
	name: "falcon-h1", joined: true, recurrent: recurrence.Scan,
	plan: func(h *hparams) plan {
		p := h.decoder(vector.RopeNeox)
		for i := range p.layers {
			p.layers[i].attention.qkvBias, p.layers[i].feed.bias = optional, optional
		}
		p.withStates(h, optional)
		for i := range p.layers {
			p.layers[i].recurrence.norm = optional
		}
		return p
	},
}
