package llm

import "slices"

// soleParams are the sizes of layers that are one part alone: attention, recurrence, or a network.
type soleParams struct {
	ffn   []int // of each layer, the network's width; 0: it is no network
	used  []int // experts of a row, in networks of these
	width []int // of each of them
}

// read reads the sizes of families whose layers are one part alone. Networks of experts may differ between layers.
func (s *soleParams) read(m *metadata, h *hparams) {
	if !h.arch.sole {
		return
	}
	s.ffn = m.counts("feed_forward_length", h.depth)
	h.ffn = slices.Max(s.ffn)
	for i, n := range s.ffn {
		if n > 0 && h.recurrent.kvHeads[i] > 0 {
			m.fail("feed_forward_length", "is %d in layer %d, and attention.head_count_kv %d there: a layer of %s is a network or attention", n, i,
				h.recurrent.kvHeads[i], h.arch.name)
		}
	}
	if h.arch.experts == absent {
		return
	}
	const used, width = "expert_used_count", "expert_feed_forward_length"
	s.used, s.width = m.counts(used, h.depth), m.counts(width, h.depth)
	for i, n := range s.ffn {
		switch {
		case n > 0 && s.used[i] == 0:
			m.fail(used, "is missing or 0 in layer %d, whose network has experts", i)
		case n > 0 && s.width[i] == 0:
			m.fail(width, "is missing or 0 in layer %d, whose network has experts", i)
		}
	}
}

// withParts leaves of each layer the one part that it is.
func (p *plan) withParts(h *hparams) {
	for i := range p.layers {
		y := &p.layers[i]
		if h.sole.ffn[i] == 0 {
			y.feed = feedForwardPlan{}
			continue
		}
		y.attention, y.feed.width = attentionPlan{}, h.sole.ffn[i]
		if e := &y.feed.experts; h.experts.count > 0 {
			*e = h.experts
			e.use, e.width, y.feed.width = h.sole.used[i], h.sole.width[i], e.shared
		}
	}
}
