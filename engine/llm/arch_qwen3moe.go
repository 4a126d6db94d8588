package llm

// qwen3moe covers Qwen3-30B-A3B, 235B-A22B and Qwen3-Coder: qwen3 whose networks are mixtures of experts.
var qwen3moe = architecture{name: "qwen3moe", experts: required, plan: func(h *hparams) plan {
	p, e := qwen3.plan(h), h.experts
	e.gating.by, e.gating.norm = gateSoftmax, true
	p.mixtures(h, e)
	return p
}}
