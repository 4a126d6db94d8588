package llm

import "cmp"

// qwen2moe covers Qwen1.5-MoE and Qwen2-57B-A14B: qwen2 whose networks are mixtures of experts, of which all rows pass through one behind a gate.
var qwen2moe = architecture{name: "qwen2moe", experts: required, plan: func(h *hparams) plan {
	p, e := qwen2.plan(h), h.experts
	e.gating.by, e.gating.norm = gateSoftmax, false
	e.gated, e.shared = true, cmp.Or(e.shared, h.ffn)
	p.mixtures(h, e)
	return p
}}
