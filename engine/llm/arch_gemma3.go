package llm

import (
	"cmp"
	"math"

	"weir/engine/kernel/vector"
)

// gemma2 covers Gemma 2: every second layer sees a window, scores and logits are capped.
var gemma2 = architecture{name: "gemma2", trained: 4096, period: 2, plan: func(h *hparams) plan {
	const largestDepth = 46 // of the 27B model, which scales scores by the width of its heads before they were narrowed
	p := h.gemmaOf(largestDepth)
	p.ropes = p.ropes[:1]
	p.logitCap = cmp.Or(h.finalCap, 30)
	for i := range p.layers {
		a := &p.layers[i].attention
		a.rope, a.cap = 0, cmp.Or(h.scoreCap, 50)
	}
	h.turnWithin(&p)
	return p
}}

// gemma3 covers Gemma 3: five of six layers see a window and turn by a base of their own, which context scaling leaves alone; each query
// and key head is normed.
var gemma3 = architecture{name: "gemma3", period: 6, plan: func(h *hparams) plan {
	const largestDepth = 62
	p := h.gemmaOf(largestDepth)
	p.logitCap = h.finalCap
	for i := range p.layers {
		a := &p.layers[i].attention
		a.headNorm, a.cap = true, h.scoreCap
	}
	return p
}}

// gemmaOf is what the decoders of both have in common.
func (h *hparams) gemmaOf(largestDepth int) plan {
	p := h.layersOf(branchNorms{before: rmsNorm, out: rmsNorm})
	p.embedding.scale = squareRoot(h.width)
	p.finalNorm = rmsNorm
	p.ropes = []rope{h.rope, h.local}
	for i := range p.ropes {
		p.ropes[i].style = vector.RopeNeox
	}
	h.within(&p, h.windowed)
	for i := range p.layers {
		a := &p.layers[i].attention
		p.layers[i].feed.act = vector.GELU
		if h.depth == largestDepth {
			a.scale = float32(1 / math.Sqrt(float64(h.width)/float64(h.heads)))
		}
		if h.windowed(i) {
			a.rope = 1
		}
	}
	return p
}
