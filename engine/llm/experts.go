package llm

import (
	"fmt"
	"slices"

	"weir/engine/kernel/vector"
	"weir/engine/kernel/weight"
)

// expertsPlan is a feed-forward network of experts: a row passes through the best of them, and each counts by its share. Beside them may be
// one that all rows pass through, which is then the network's own gate, up and down.
type expertsPlan struct {
	count  int // 0: the network has no experts
	use    int // of a row
	width  int // of each
	gating gating
	clamp  vector.Clamp // instead of the network's activation; the zero value is none

	routerBias presence
	bias       presence // ffn_{gate,up,down}_exps.bias
	shared     int      // width of the one that all rows pass through; 0 is none
	gated      bool     // what that gives counts by sigmoid(gate x)
	latent     int      // width of what experts get and give, see moeWeights.down; 0: that of the model
	apart      bool     // beside the experts stands the network's own gate, up and down, each of the two with norms of its own
}

// moeWeights is the experts' weights.
type moeWeights struct {
	router    linear
	preferred []float32       // exp_probs_b: what routing adds to each expert's probability, or nil
	scale     []float32       // ffn_down_exps.scale: by how much each expert counts more, or nil
	shared    *weight.Matrix  // the gate of the expert that all rows pass through, or nil
	down, up  linear          // before and behind the experts, where these have another width than the model
	gates     expertMatrices  // without a matrix in a plain network
	ups       expertMatrices  //
	downs     expertMatrices  //
	mixture   *weight.Mixture // of them, once they are loaded
	apart     apartNorms
}

// expertMatrices are those of one place in all experts.
type expertMatrices struct {
	w    []*weight.Matrix
	bias []float32 // [experts][rows], or nil
}

// readExperts reads what a file says of experts. A family whose layers have other networks, too, says which.
func readExperts(m *metadata, h *hparams) expertsPlan {
	if h.arch.experts == absent || h.arch.experts == optional && m.count("expert_count") == 0 {
		return expertsPlan{}
	}
	e := expertsPlan{count: m.size("expert_count", 0), latent: m.count("moe_latent_size")}
	if h.arch.sole {
		e.use, e.width = slices.Max(h.sole.used), slices.Max(h.sole.width)
	} else {
		e.use, e.width = m.size("expert_used_count", 0), m.size("expert_feed_forward_length", max(h.ffn, 1))
	}
	e.gating = readGating(m)
	e.shared, h.sharedExperts = m.count("expert_shared_feed_forward_length"), m.count("expert_shared_count")
	h.expertsStep = max(m.count("interleave_moe_layer_step"), 1)
	if e.use > e.count {
		m.fail("expert_used_count", "is %d, more than expert_count %d", e.use, e.count)
	}
	if h.leading = m.count("leading_dense_block_count"); h.leading > h.depth {
		m.fail("leading_dense_block_count", "is %d, and the model has %d layers", h.leading, h.depth)
	}
	return e
}

// mixtures gives layers experts: every step-th, except the leading ones.
func (p *plan) mixtures(h *hparams, e expertsPlan) {
	for i := range p.layers {
		if f := &p.layers[i].feed; i >= h.leading && (i+1)%h.expertsStep == 0 {
			f.experts, f.width = e, e.shared
		}
	}
}

// mixture wants the experts' tensors, each matrix of which is a part of one for all.
func (l *loader) mixture(f *feedForward, at string, h *hparams) {
	e, x := &f.experts, &f.mixture
	l.linear(&x.router, at+"ffn_gate_inp", e.routerBias, e.count, h.width)
	l.vector(&x.preferred, at+"exp_probs_b.bias", e.gating.preferred, e.count)
	l.vector(&x.scale, at+"ffn_down_exps.scale", optional, e.count)
	width := h.width
	if e.latent > 0 {
		width = e.latent
		l.linear(&x.down, at+"ffn_latent_down", absent, e.latent, h.width)
		l.linear(&x.up, at+"ffn_latent_up", absent, h.width, e.latent)
	}
	if !f.plain && !l.bothExperts(x, e, at, width) {
		l.experts(&x.gates, at+"ffn_gate_exps", e, e.width, width)
	}
	if x.ups.w == nil {
		l.experts(&x.ups, at+"ffn_up_exps", e, e.width, width)
	}
	l.experts(&x.downs, at+"ffn_down_exps", e, width, e.width)
	if e.apart {
		l.apartNorms(&x.apart, at, h)
	}
	if e.shared == 0 {
		return
	}
	if !f.plain {
		l.linear(&f.gate, at+"ffn_gate_shexp", absent, e.shared, h.width)
	}
	l.linear(&f.up, at+"ffn_up_shexp", absent, e.shared, h.width)
	l.linear(&f.down, at+"ffn_down_shexp", absent, h.width, e.shared)
	if e.gated {
		if t := l.find(at+"ffn_gate_inp_shexp.weight", required, h.width); t != nil {
			l.wants = append(l.wants, l.want(t, 0, 1, h.width, &x.shared))
		}
	}
}

// experts wants one matrix of each expert.
func (l *loader) experts(to *expertMatrices, name string, e *expertsPlan, rows, cols int) {
	t := l.find(name+".weight", required, cols, rows, e.count)
	if t == nil {
		return // the error is noted
	}
	to.w = make([]*weight.Matrix, e.count)
	for i := range to.w {
		l.wants = append(l.wants, l.want(t, i*rows, rows, cols, &to.w[i]))
	}
	if b := l.find(name+".bias", e.bias, rows, e.count); b != nil {
		l.wants = append(l.wants, want{tensor: b, rows: e.count, cols: rows, vector: &to.bias})
	}
}

// bothExperts wants gates and ups of one tensor, of each expert the gate first; false where the file has no such tensor.
func (l *loader) bothExperts(x *moeWeights, e *expertsPlan, at string, cols int) bool {
	const name = "ffn_gate_up_exps"
	if _, ok := l.f.Tensor(at + name + ".weight"); !ok {
		return false
	}
	t := l.find(at+name+".weight", required, cols, 2*e.width, e.count)
	if t == nil {
		return true // the error is noted
	}
	x.gates.w, x.ups.w = make([]*weight.Matrix, e.count), make([]*weight.Matrix, e.count)
	for i := range e.count {
		l.wants = append(l.wants, l.want(t, 2*i*e.width, e.width, cols, &x.gates.w[i]), l.want(t, (2*i+1)*e.width, e.width, cols, &x.ups.w[i]))
	}
	return true
}

// settle makes the mixture of what was loaded.
func (f *feedForward) settle(fine bool) {
	e, x := &f.experts, &f.mixture
	if e.count == 0 {
		return
	}
	x.apart.settle()
	m := &weight.Mixture{Experts: make([]weight.Expert, e.count), Act: f.act, Clamp: e.clamp, Fine: fine}
	for i := range m.Experts {
		m.Experts[i] = weight.Expert{Gate: x.gates.at(i), Up: x.ups.at(i), Down: x.downs.at(i)}
	}
	x.mixture = m
}

// at is the matrix of expert i; without one where there are none.
func (x *expertMatrices) at(i int) weight.Linear {
	if x.w == nil {
		return weight.Linear{}
	}
	l := weight.Linear{W: x.w[i]}
	if x.bias != nil {
		l.Bias = x.bias[i*l.W.Rows : (i+1)*l.W.Rows]
	}
	return l
}

// expertBytes is the memory of all experts.
func (w *weights) expertBytes() (total int64) {
	for i := range w.layers {
		x := &w.layers[i].feed.mixture
		for _, part := range [][]*weight.Matrix{x.gates.w, x.ups.w, x.downs.w} {
			for _, m := range part {
				total += int64(m.Bytes())
			}
		}
	}
	return total
}

// matrices are those of the experts, with their names.
func (x *moeWeights) matrices(at string) []namedMatrix {
	list := []namedMatrix{
		{at + "ffn_gate_inp", x.router.w}, {at + "ffn_gate_inp_shexp", x.shared}, {at + "ffn_latent_down", x.down.w}, {at + "ffn_latent_up", x.up.w},
	}
	for _, part := range []struct {
		name string
		w    []*weight.Matrix
	}{{"gate", x.gates.w}, {"up", x.ups.w}, {"down", x.downs.w}} {
		for i, w := range part.w {
			list = append(list, namedMatrix{fmt.Sprintf("%sffn_%s_exps[%d]", at, part.name, i), w})
		}
	}
	return list
}

// first is one of the matrices that multiply what the network gets.
func (f *feedForward) first() *weight.Matrix {
	if len(f.mixture.ups.w) > 0 {
		return f.mixture.ups.w[0]
	}
	return f.up.w
}
