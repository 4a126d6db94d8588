package llm

import (
	"math"

	"weir/engine/kernel"
	"weir/engine/kernel/weight"
)

// mixing is the memory of rows that pass through experts, of a block.
type mixing struct {
	scores []float32 // [rows][experts] of the router
	gate   []float32 // [rows] of the expert that all rows pass through
	apart  []float32 // [rows][width] of what experts give beside a network
	latent []float32 // [2][rows][latent] of what experts get and give that have another width than the model
	routing
}

// mix: x = after(x + scale*out(the sum over a row's experts of share * down(act(gate x) * up x))), the expert that all rows pass through
// coming last.
func (m *model) mix(c *kernel.CPU, f *feedForward, b *batch, r block) {
	x, rows, p, e := r.of(b.x, m.width), r.rows(), &b.mixing, &f.mixture
	in := x
	if f.beside {
		in = b.input[:len(x)]
	}
	grow(&p.scores, b.mostBlock*f.experts.count)
	scores := p.scores[:rows*f.experts.count]
	router := e.router.into(scores, false)
	if e.shared == nil {
		c.Products(in, rows, f.norms.before, router)
	} else {
		grow(&p.gate, b.mostBlock)
		c.Products(in, rows, f.norms.before, router, weight.Product{Dst: p.gate, W: e.shared})
	}
	p.begin(&f.experts, e, scores, rows)
	p.run(c, rows)
	m.sharedExpert(c, f, b, in, rows)
	to := x
	if f.norms.whole() {
		to = b.branch[:len(x)]
		clear(to)
	}
	if f.experts.latent > 0 {
		f.mixLatent(c, b, to, in, rows)
	} else {
		c.Mix(to, in, rows, f.norms.before, e.mixture, &p.Routes)
	}
	if f.experts.shared > 0 {
		c.Products(b.gate, rows, weight.Norm{}, f.down.into(to, true))
	}
	if f.norms.whole() {
		f.norms.addTo(c, x, b.branch[:len(x)], rows)
	}
	if f.norms.after.Weight != nil {
		c.Norm(x, x, f.norms.after, rows)
	}
}

// mixLatent is what experts give that have another width than the model: up(mix(down x)), added to to.
func (f *feedForward) mixLatent(c *kernel.CPU, b *batch, to, in []float32, rows int) {
	p, e, n := &b.mixing, &f.mixture, rows*f.experts.latent
	grow(&p.latent, 2*b.mostBlock*f.experts.latent)
	get, give := p.latent[:n], p.latent[n:2*n]
	c.Products(in, rows, f.norms.before, e.down.into(get, false))
	clear(give)
	c.Mix(give, get, rows, weight.Norm{}, e.mixture, &p.Routes)
	c.Products(give, rows, weight.Norm{}, e.up.into(to, true))
}

// sharedExpert computes what comes down of the expert that all rows pass through, times its gate.
func (m *model) sharedExpert(c *kernel.CPU, f *feedForward, b *batch, in []float32, rows int) {
	if f.experts.shared == 0 {
		return
	}
	if f.plain {
		up := f.up.into(b.gate, false)
		up.Act = f.act
		c.Products(in, rows, f.norms.before, up)
	} else {
		gate := f.gate.into(nil, false)
		gate.Act = f.act
		c.Gated(b.gate, in, rows, f.norms.before, gate, f.up.into(nil, false))
	}
	if f.mixture.shared == nil {
		return
	}
	for i, g := range b.mixing.gate[:rows] {
		by := float32(1 / (1 + math.Exp(-float64(g))))
		row := b.gate[i*f.width : (i+1)*f.width]
		for k := range row {
			row[k] *= by
		}
	}
}

// whole reports whether a branch has to be whole before it is added.
func (n *norms) whole() bool { return n.out.Weight != nil || n.scale != 0 }
