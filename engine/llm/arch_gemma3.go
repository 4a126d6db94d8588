package llm

import (
	"cmp"
	"math"

	"weir/engine/kernel/vector"
)

// gemma2 covers Gemma 2: every second layer sees a window, scores and logits are capped.
var gemma2 = architecture{name: "gemma2", plan: func(h *hparams) plan {
	const period, largestDepth = 2, 46 // of the 27B model, which scales scores by the width of its heads before they were narrowed
	h.window = cmp.Or(h.window, 4096)  // older files do not say it
	p := h.gemma(period, largestDepth)
	p.ropes = p.ropes[:1]
	p.logitCap = cmp.Or(h.finalCap, 30)
	for i := range p.layers {
		a := &p.layers[i].attention
		a.rope, a.cap = 0, cmp.Or(h.scoreCap, 50)
	}
	return p
}}

// gemma3 covers Gemma 3: five of six layers see a window and turn by a base of their own, which context scaling leaves alone; each query
// and key head is normed.
var gemma3 = architecture{name: "gemma3", plan: func(h *hparams) plan {
	const period, largestDepth = 6, 62
	p := h.gemma(period, largestDepth)
	p.logitCap = h.finalCap
	for i := range p.layers {
		a := &p.layers[i].attention
		a.headNorm, a.cap = true, h.scoreCap
	}
	return p
}}

// gemma is what the decoders of both have in common. All layers but every period-th see a window, unless the file says it otherwise.
func (h *hparams) gemma(period, largestDepth int) plan {
	p := h.layersOf(branchNorms{before: rmsNorm, out: rmsNorm})
	p.embedding.scale = squareRoot(h.width)
	p.finalNorm = rmsNorm
	p.ropes = []rope{h.rope, h.local}
	for i := range p.ropes {
		p.ropes[i].style = vector.RopeNeox
	}
	local := h.pattern
	if local == nil {
		local = everyOtherThan(period, h.depth)
	}
	for i := range p.layers {
		a := &p.layers[i].attention
		p.layers[i].feed.act = vector.GELU
		if h.depth == largestDepth {
			a.scale = float32(1 / math.Sqrt(float64(h.width)/float64(h.heads)))
		}
		if h.window > 0 && local[i] {
			a.rope, a.reach = 1, h.window-1
		}
	}
	return p
}
