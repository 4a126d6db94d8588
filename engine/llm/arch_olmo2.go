package llm

// olmo2 covers OLMo 2: branches are normed behind instead of before, queries and keys over all of their heads.
// OLMo 3 has the same name, and windows in three of four layers, which context scaling leaves alone.
var olmo2 = architecture{name: "olmo2", period: 4, plan: func(h *hparams) plan {
	p := h.normedBehind()
	p.ropes = append(p.ropes, p.ropes[0].unscaled())
	h.within(&p, h.windowed)
	for i := range p.layers {
		a := &p.layers[i].attention
		if a.rowNorm = rmsNorm; h.windowed(i) {
			a.rope = 1
		}
	}
	return p
}}
