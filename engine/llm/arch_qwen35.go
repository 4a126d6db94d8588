package llm

import (
	"weir/engine/kernel/recurrence"
	"weir/engine/kernel/vector"
)

// qwen35 covers the dense Qwen3.5, 3.6 and 3.8: three of four layers are gated delta nets, the fourth is attention whose heads have gates.
// The last layers of files may draft tokens.
var qwen35 = architecture{name: "qwen35", drafts: true, mtp: true, sections: true, recurrent: recurrence.Delta, plan: qwen35Plan}

// qwen35moe covers their mixtures of experts, such as Qwen3.6-35B-A3B.
var qwen35moe = architecture{
	name: "qwen35moe", drafts: true, mtp: true, sections: true, experts: required, recurrent: recurrence.Delta,
	plan: func(h *hparams) plan {
		p, e := qwen35Plan(h), h.experts
		e.gating.by, e.gating.norm = gateSoftmax, true
		e.gated = e.shared > 0
		p.mixtures(h, e)
		return p
	},
}

func qwen35Plan(h *hparams) plan {
	p := h.decoder(vector.RopeNeox)
	for i := range p.layers {
		a := &p.layers[i].attention
		a.headNorm, a.gated = true, true
	}
	p.withStates(h, absent)
	return p
}
