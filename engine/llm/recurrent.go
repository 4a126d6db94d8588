package llm

import (
	"weir/engine/kernel/recurrence"
	"weir/engine/kernel/weight"
)

// recurrencePlan is a layer that keeps a state instead of keys and values.
type recurrencePlan struct {
	shape  recurrence.Shape // its zero value is none
	norms  branchNorms
	bias   presence // of the convolution
	norm   presence // of groups, with the scan
	offset int      // of its part of a sequence's state, in values
	behind int      // values of a row's queries in the layer, whose attention stands beside; 0: it has none
}

// recurrent is a layer's plan and tensors. What it computes of norm(x) is named after Qwen's tensors; Mamba's one matrix is all four.
type recurrent struct {
	recurrence.Layer
	plan  recurrencePlan
	norms norms

	mixed linear      // what passes through the convolution; of LFM2 what is multiplied by gate before
	gate  linear      // of what the layer gives; of LFM2 of what passes through the convolution
	after linear      // of LFM2: the gate of what the convolution gives
	time  linear      // of decays
	gain  linear      // of the delta rule
	norm  weight.Norm // of what heads give, [ValueDim]; of the scan each group's, [Groups][...]
	out   linear

	taps, groupNorms []float32 // as the file has them: [Channels][Taps], [Groups][...]
}

// recurrentParams is what a file says of recurrent layers.
type recurrentParams struct {
	recurrence.Shape
	is      []bool // of layers
	kvHeads []int  // of layers
}

// read reads the sizes of recurrent layers.
func (r *recurrentParams) read(m *metadata, h *hparams) {
	r.Kind = h.arch.recurrent
	r.is = r.layers(m, h)
	if r.Kind == recurrence.Convolution {
		r.Taps, r.Channels = m.size("shortconv.l_cache", 0), h.width
	} else {
		r.Taps, r.KeyDim = m.size("ssm.conv_kernel", 0), m.size("ssm.state_size", 0)
		r.Groups, r.Heads = m.size("ssm.group_count", 0), m.size("ssm.time_step_rank", 0)
		inner := m.size("ssm.inner_size", 0)
		if r.ValueDim = inner / r.Heads; inner%r.Heads != 0 {
			m.fail("ssm.inner_size", "is %d, not a multiple of time_step_rank %d", inner, r.Heads)
		}
		r.Channels, r.Beside = inner+2*r.Groups*r.KeyDim, h.arch.neighbour
	}
	if m.err == nil {
		m.keep(r.Check())
	}
}

// layers says which layers are recurrent: Qwen's files have an array or leave out every so-manieth layer, those of others
// give a recurrent layer no key-value heads, and where layers are one part alone, no network.
func (r *recurrentParams) layers(m *metadata, h *hparams) []bool {
	list, ok, err := m.f.Bools(m.prefix + ".attention.recurrent_layers")
	m.keep(err)
	switch {
	case ok && len(list) < h.depth:
		m.fail("attention.recurrent_layers", "is of %d layers, and the model has %d", len(list), h.depth)
	case ok:
		return list[:h.depth]
	case r.Kind == recurrence.Delta:
		return everyOtherThan(m.size("full_attention_interval", 4), h.depth)
	}
	is := make([]bool, h.depth)
	for i, n := range r.kvHeads {
		is[i] = h.arch.joined || n == 0 && (!h.arch.sole || h.sole.ffn[i] == 0)
	}
	return is
}

// readHeads reads key-value heads of layers, of which recurrent ones have none; those of the others are as many in all layers.
func (r *recurrentParams) readHeads(m *metadata, h *hparams) {
	const key = "attention.head_count_kv"
	list, ok, err := m.f.Ints(m.prefix + "." + key)
	r.kvHeads = make([]int, h.depth)
	if !ok || err != nil || len(list) == 0 { // a number, or none
		h.kvHeads = m.size(key, h.heads)
		for i := range r.kvHeads {
			r.kvHeads[i] = h.kvHeads
		}
		return
	}
	for i, n := range m.counts(key, h.depth) {
		if n == 0 && h.arch.joined {
			m.fail(key, "is 0 in layer %d, and all layers of %s have attention", i, h.arch.name)
		}
		if n == 0 {
			continue
		}
		if h.kvHeads != 0 && n != h.kvHeads {
			m.fail(key, "differs between layers (%d and %d), which is not supported", h.kvHeads, n)
		}
		h.kvHeads, r.kvHeads[i] = n, n
	}
	if h.kvHeads == 0 {
		m.fail(key, "is 0 in all layers: models without any attention are not supported")
		h.kvHeads = 1
	}
}

// withStates makes the recurrent layers of a plan what they are; the others stay. Bias is that of convolutions.
func (p *plan) withStates(h *hparams, bias presence) {
	for i := range p.layers {
		if !h.recurrent.is[i] {
			continue
		}
		y := &p.layers[i]
		y.recurrence = recurrencePlan{shape: h.recurrent.Shape, norms: y.attention.norms, bias: bias, norm: required, offset: p.stateValues}
		if h.arch.joined {
			y.recurrence.behind = y.attention.queryValues()
		} else {
			y.attention = attentionPlan{}
		}
		p.stateValues += h.recurrent.StateValues()
	}
}

// want wants the layer's tensors.
func (y *recurrent) want(l *loader, at string, h *hparams) {
	y.Shape = y.plan.shape
	s := &y.Shape
	l.norms(&y.norms, y.plan.norms, at+"attn_norm", at+"post_attention_norm", at+"attn_output_norm", h)
	prefix := at + "ssm_"
	switch s.Kind {
	case recurrence.Convolution:
		if !l.fused(at+"shortconv.in_proj", absent, h.width, fusedPart{&y.gate, s.Channels}, fusedPart{&y.after, s.Channels}, fusedPart{&y.mixed, s.Channels}) {
			l.find(at+"shortconv.in_proj.weight", required, h.width, 3*s.Channels)
		}
		l.table(&y.taps, at+"shortconv.conv.weight", required, s.Channels, s.Taps)
		l.linear(&y.out, at+"shortconv.out_proj", absent, h.width, s.Width())
		return
	case recurrence.Delta:
		y.wantDelta(l, at, h)
		l.vector(&y.Rate, prefix+"a", required, s.Heads)
		l.norm(&y.norm, prefix+"norm", rmsNorm, s.ValueDim, h.eps)
		y.Eps = h.eps
	default:
		if !l.fused(prefix+"in", absent, h.width, fusedPart{&y.gate, s.Width()}, fusedPart{&y.mixed, s.Channels}, fusedPart{&y.time, s.Heads}) {
			l.find(prefix+"in.weight", required, h.width, s.Width()+s.Channels+s.Heads)
		}
		l.table(&y.Rate, prefix+"a", required, s.Heads, 1)
		l.table(&y.Skip, prefix+"d", required, s.Heads, 1)
		l.table(&y.groupNorms, prefix+"norm.weight", y.plan.norm, s.Groups, s.Width()/s.Groups)
		y.norm.Eps = h.eps
	}
	l.table(&y.taps, prefix+"conv1d.weight", required, s.Channels, s.Taps)
	l.vector(&y.Bias, prefix+"conv1d.bias", y.plan.bias, s.Channels)
	l.vector(&y.Shift, prefix+"dt.bias", required, s.Heads)
	l.linear(&y.out, prefix+"out", absent, h.width, s.Width())
}

// wantDelta wants the matrices that the delta rule begins with. Where heads of a group are neighbours, each group's part of a tensor has some
// rows of each matrix; the first files of Qwen3-Next had all in ssm_in.
func (y *recurrent) wantDelta(l *loader, at string, h *hparams) {
	s := &y.Shape
	each := s.Heads / s.Groups
	switch _, whole := l.f.Tensor(at + "ssm_in.weight"); {
	case s.Beside && whole:
		l.interleaved(at+"ssm_in", h.width, s.Groups, fusedPart{&y.mixed, s.KeyDim}, fusedPart{&y.mixed, s.KeyDim},
			fusedPart{&y.mixed, each * s.ValueDim}, fusedPart{&y.gate, each * s.ValueDim})
	default:
		l.linear(&y.mixed, at+"attn_qkv", absent, s.Channels, h.width)
		l.linear(&y.gate, at+"attn_gate", absent, s.Width(), h.width)
	}
	if s.Beside {
		l.interleaved(at+"ssm_ba", h.width, s.Groups, fusedPart{&y.gain, each}, fusedPart{&y.time, each})
		return
	}
	l.linear(&y.gain, at+"ssm_beta", absent, s.Heads, h.width)
	l.linear(&y.time, at+"ssm_alpha", absent, s.Heads, h.width)
}

// exists reports whether the layer is recurrent.
func (y *recurrent) exists() bool { return y.Kind != recurrence.None }

// settle lays the convolution's weights out as it reads them.
func (y *recurrent) settle() {
	if !y.exists() {
		return
	}
	s := &y.Shape
	y.Weights = make([]float32, s.Taps*s.Channels)
	for c := range s.Channels {
		for t := range s.Taps {
			y.Weights[t*s.Channels+c] = y.taps[c*s.Taps+t]
		}
	}
	if y.Bias == nil {
		y.Bias = make([]float32, s.Channels)
	}
}

// operations is about how many a row takes in the layer, of a model of a width.
func (y *recurrent) operations(width int) int {
	return 2*width*(y.Channels+2*y.Width()) + 6*y.Heads*y.KeyDim*y.ValueDim
}
