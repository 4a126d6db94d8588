package llm

import (
	"weir/engine/kernel/vector"
)

// phi3 covers Phi-3, Phi-3.5, Phi-4-mini and Phi-4: llama with the matrices of a branch's beginning in one tensor, rotation of half-head pairs,
// of Phi-4-mini in three quarters of a head, and two sets of frequencies, for short texts and for long ones. All layers of some models see a
// window, which other runtimes leave out.
var phi3 = architecture{name: "phi3", longRope: true, plan: func(h *hparams) plan {
	p := h.decoder(vector.RopeNeox)
	h.within(&p, func(int) bool { return true })
	return p
}}
