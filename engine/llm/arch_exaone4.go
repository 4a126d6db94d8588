package llm

// exaone4 covers EXAONE 4: branches are normed behind instead of before, and each query and key head. Three of four layers of the 32B
// see a window; the others know no positions (NoPE).
var exaone4 = architecture{name: "exaone4", period: 4, plan: func(h *hparams) plan {
	p := h.normedBehind()
	h.within(&p, h.windowed)
	for i := range p.layers {
		a := &p.layers[i].attention
		if a.headNorm = true; h.window > 0 && !h.windowed(i) {
			a.rope = noRope
		}
	}
	return p
}}
