package llm

import (
	"weir/engine/kernel/recurrence"
	"weir/engine/kernel/vector"
)

// nemotronH covers Nemotron H and Nemotron Nano 2: each layer is Mamba 2, attention without positions, or a network without a gate whose
// activation is the square of what is positive.
var nemotronH = architecture{name: "nemotron_h", drafts: true, sole: true, recurrent: recurrence.Scan, plan: nemotronHPlan}

// nemotronHMoE covers Nemotron 3 Nano, Super and Puzzle: networks are mixtures of experts, of which all rows pass through one. Experts may have
// another width than the model.
var nemotronHMoE = architecture{
	name: "nemotron_h_moe", drafts: true, sole: true, experts: required, recurrent: recurrence.Scan,
	plan: func(h *hparams) plan {
		h.experts.gating.by, h.experts.gating.preferred = gateSigmoid, required
		return nemotronHPlan(h)
	},
}

func nemotronHPlan(h *hparams) plan {
	p := h.decoder(vector.RopeNeox)
	for i := range p.layers {
		y := &p.layers[i]
		y.attention.rope, y.attention.qkvBias, y.attention.oBias = noRope, optional, optional
		y.feed.plain, y.feed.act, y.feed.bias = true, vector.SquaredReLU, optional
	}
	p.withStates(h, optional)
	p.withParts(h)
	return p
}
