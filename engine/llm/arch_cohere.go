package llm

// commandR covers Command R and Aya 23 and Expanse: one layer norm without a bias before attention and network, which stand side by side, and a
// factor of logits. Command R+ also norms queries and keys, and is refused by those tensors.
var commandR = architecture{name: "command-r", layerNorm: true, factors: true, plan: func(h *hparams) plan { return h.sideBySide() }}

// cohere2 covers Command R7B and Command A: command-r whose layers see a window in three of four cases; the others know no positions (NoPE).
var cohere2 = architecture{name: "cohere2", period: 4, layerNorm: true, factors: true, trained: 4096, plan: func(h *hparams) plan {
	p := h.sideBySide()
	h.within(&p, h.windowed)
	for i := range p.layers {
		if !h.windowed(i) {
			p.layers[i].attention.rope = noRope
		}
	}
	return p
}}
