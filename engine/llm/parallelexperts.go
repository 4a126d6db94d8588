package llm

import (
	"math"

	"weir/engine/kernel"
	"weir/engine/kernel/weight"
)

// In Gemma 4's mixtures a network and the experts stand beside each other. Both get the layer's input, each behind a norm of its own, and
// what each gives is normed before the two are added; the router sees the input normed without a weight.

// apartNorms are the norms of such a layer, beside those that every network has.
type apartNorms struct {
	router  weight.Norm // of what the router sees: the file's factors divided by the root of the width
	before  weight.Norm // of what the experts get
	experts weight.Norm // of what they give
	network weight.Norm // of what the network gives
}

// apartNorms wants them.
func (l *loader) apartNorms(n *apartNorms, at string, h *hparams) {
	n.router.Eps = h.eps
	l.vector(&n.router.Weight, at+"ffn_gate_inp.scale", required, h.width)
	l.norm(&n.before, at+"pre_ffw_norm_2", rmsNorm, h.width, h.eps)
	l.norm(&n.experts, at+"post_ffw_norm_2", rmsNorm, h.width, h.eps)
	l.norm(&n.network, at+"post_ffw_norm_1", rmsNorm, h.width, h.eps)
}

// settle takes the division into the router's norm.
func (n *apartNorms) settle() {
	for i := range n.router.Weight {
		n.router.Weight[i] *= float32(1 / math.Sqrt(float64(len(n.router.Weight))))
	}
}

// mixApart: x += out(network(down(act(gate y) * up y)) + experts(the sum over a row's experts)), y being before(x).
func (f *feedForward) mixApart(m *model, c *kernel.CPU, b *batch, r block) {
	x, rows, p, e := r.of(b.x, m.width), r.rows(), &b.mixing, &f.mixture
	gate := f.gate.into(nil, false)
	gate.Act = f.act
	c.Gated(b.gate, x, rows, f.norms.before, gate, f.up.into(nil, false))
	sum := b.branch[:len(x)]
	c.Products(b.gate, rows, weight.Norm{}, f.down.into(sum, false))
	c.Norm(sum, sum, e.apart.network, rows)

	grow(&p.scores, b.mostBlock*f.experts.count)
	scores := p.scores[:rows*f.experts.count]
	c.Products(x, rows, e.apart.router, e.router.into(scores, false))
	p.begin(&f.experts, e, scores, rows)
	p.run(c, rows)
	grow(&p.apart, b.mostBlock*m.width)
	to := p.apart[:len(x)]
	clear(to)
	c.Mix(to, x, rows, e.apart.before, e.mixture, &p.Routes)
	c.Norm(to, to, e.apart.experts, rows)
	add(sum, to)
	f.norms.addTo(c, x, sum, rows)
}
