package llm

import "weir/engine/kernel/recurrence"

// graniteHybrid covers Granite 4: granite whose layers are Mamba 2 for the most part, dense or with experts.
var graniteHybrid = architecture{
	name: "granitehybrid", longRope: true, factors: true, experts: optional, recurrent: recurrence.Scan,
	plan: func(h *hparams) plan {
		p := granitePlan(h)
		if e := h.experts; e.count > 0 {
			e.gating.by, e.gating.norm = gateSoftmax, true
			p.mixtures(h, e)
		}
		p.withStates(h, optional)
		return p
	},
}
