package llm

import (
	"weir/engine/kernel/vector"
)

// layered is what layers of some families differ in, as the file states it.
type layered struct {
	kvHeads []int // of each layer
	ffn     []int // of each layer, the network's width
	headDim int   // in layers with a window
	shared  int   // the last layers, which read keys and values of earlier ones
	input   int   // width of the input that each layer has of its own; 0: none
}

// readLayered reads the sizes of families whose layers differ.
func (h *hparams) readLayered(m *metadata) {
	y := &h.layered
	y.kvHeads = m.sizes("attention.head_count_kv", h.depth, 0)
	y.ffn = m.sizes("feed_forward_length", h.depth, 0)
	h.kvHeads, h.ffn = y.kvHeads[0], y.ffn[0]
	for i, n := range y.kvHeads {
		if h.heads%n != 0 {
			m.fail("attention.head_count", "is %d, not a multiple of head_count_kv, which is %d in layer %d", h.heads, n, i)
		}
	}
	if h.arch.period == 0 && !m.has("attention.sliding_window_pattern") {
		m.fail("attention.sliding_window_pattern", "is missing; it says which layers have a window")
	}
	if h.arch.period == 0 && m.count("attention.sliding_window") == 0 {
		m.fail("attention.sliding_window", "is missing or 0; it says how far the layers with a window see")
	}
	y.input = m.count("embedding_length_per_layer_input")
	if y.shared = m.count("attention.shared_kv_layers"); y.shared >= h.depth {
		m.fail("attention.shared_kv_layers", "is %d of %d layers; a layer without keys and values reads those of an earlier one", y.shared, h.depth)
	}
}

// readLocal reads how layers with a window differ from the others: heads of another size, which turn as their size asks.
func (h *hparams) readLocal(m *metadata) {
	y := &h.layered
	y.headDim = m.size("attention.key_length_swa", h.headDim)
	if v := m.size("attention.value_length_swa", y.headDim); v != y.headDim {
		m.fail("attention.value_length_swa", "is %d and key_length_swa %d; they must be equal", v, y.headDim)
	}
	if y.headDim%2 != 0 {
		m.fail("attention.key_length_swa", "gives heads of %d values, must be even", y.headDim)
	}
	dims := m.size("rope.dimension_count_swa", max(2*h.rope.half, 1))
	if dims > y.headDim || dims%2 != 0 {
		m.fail("rope.dimension_count_swa", "is %d, must be even and at most the head size %d", dims, y.headDim)
	}
	h.local.half = dims / 2
}

// source is the layer whose keys and values a layer reads, which is itself in all but the last ones: those read the last layer before
// them that has a window, or none, as they do. It is -1 where there is none such.
func (h *hparams) source(layer int) int {
	own := h.depth - h.layered.shared
	if layer < own {
		return layer
	}
	for i := own - 1; i >= 0; i-- {
		if h.windowed(i) == h.windowed(layer) {
			return i
		}
	}
	return -1
}

// checkSources refuses layers that would read keys and values that no layer has.
func (h *hparams) checkSources(m *metadata) {
	for i := 0; i < h.depth && m.err == nil; i++ {
		switch s := h.source(i); {
		case s < 0:
			m.fail("attention.shared_kv_layers", "is %d: layer %d reads keys and values of an earlier layer with a window like its own, and there is none",
				h.layered.shared, i)
		case h.layered.kvHeads[i] != h.layered.kvHeads[s]:
			m.fail("attention.head_count_kv", "is %d in layer %d, which reads the keys and values of layer %d with %d",
				h.layered.kvHeads[i], i, s, h.layered.kvHeads[s])
		}
	}
}

// gemma4Layers is what Gemma 4's decoders and encoders have in common.
func (h *hparams) gemma4Layers() plan {
	p := h.layersOf(branchNorms{before: rmsNorm, out: rmsNorm})
	p.embedding.scale = squareRoot(h.width)
	p.finalNorm = rmsNorm
	p.inputs = inputsPlan{width: h.layered.input}
	p.ropes = []rope{h.rope, h.local}
	for i := range p.ropes {
		p.ropes[i].style = vector.RopeNeox
	}
	for i := range p.layers {
		y := &p.layers[i]
		a := &y.attention
		a.kvHeads, a.scale, a.headNorm, a.valueNorm = h.layered.kvHeads[i], 1, true, true
		if h.windowed(i) {
			a.rope, a.headDim = 1, h.layered.headDim
		}
		if s := h.source(i); s != i {
			a.readsFrom = s
		}
		y.feed.act, y.feed.width = vector.GELU, h.layered.ffn[i]
		y.scaled = optional
	}
	return p
}
