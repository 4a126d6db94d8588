package llm

import (
	"weir/engine/kernel"
	"weir/engine/kernel/attend"
	"weir/engine/kernel/vector"
	"weir/engine/kernel/weight"
)

// forward runs every row of b through the layers, storing keys and values, and
// leaves the normalised hidden states of b.output in b.hidden.
func (m *model) forward(c *kernel.CPU, kv *attend.KV, b *batch) {
	b.reserve(m)
	m.embedTokens(b)
	m.rotations(b)
	for i := range m.layers {
		m.attend(c, kv, &m.layers[i].attention, b)
		m.feedForward(c, &m.layers[i].feed, b)
	}
	m.hiddenStates(c, b)
}

// embedTokens: x = E[token].
func (m *model) embedTokens(b *batch) {
	for r, id := range b.tokens {
		m.embed.DecodeRow(b.x[r*m.width:], int(id))
	}
}

// rotations computes what every rope makes of the rows' positions, once for all
// layers that use it.
func (m *model) rotations(b *batch) {
	for i := range m.ropes {
		rope, to := &m.ropes[i], &b.angles[i]
		for r, pos := range b.pos {
			rope.angles(to.cos[r*rope.half:][:rope.half], to.sin[r*rope.half:][:rope.half], pos)
		}
	}
}

// attend: x += O softmax(scale Q K^T) V, where Q, K, V are products of norm(x),
// Q and K rotated by their positions, and K and V those of all earlier rows too.
func (m *model) attend(c *kernel.CPU, kv *attend.KV, a *attention, b *batch) {
	rows := len(b.tokens)
	c.Products(b.x, rows, m.norm(a.norm), a.q.into(b.q, false), a.k.into(b.k, false), a.v.into(b.v, false))
	if a.headNorm {
		c.RMSNorm(b.q, b.q, a.qNorm, rows*a.heads, m.eps)
		c.RMSNorm(b.k, b.k, a.kNorm, rows*a.kvHeads, m.eps)
	}
	if a.rope != noRope {
		rope, by := &m.ropes[a.rope], &b.angles[a.rope]
		turn := vector.Rotation{Style: rope.style, Heads: a.heads, HeadDim: a.headDim, Half: rope.half, Cos: by.cos, Sin: by.sin}
		c.Rope(b.q, rows, turn)
		turn.Heads = a.kvHeads
		c.Rope(b.k, rows, turn)
	}
	c.StoreKV(kv, a.slot, b.k, b.v, b.places)
	c.Attention(attend.Query{Out: b.att, Q: b.q, KV: kv, Layer: a.slot, Heads: a.heads, Spans: b.spans, Scale: a.scale})
	c.Products(b.att, rows, weight.Norm{}, a.o.into(b.x, true))
}

// feedForward: x += Down(silu(Gate norm(x)) * Up norm(x)).
func (m *model) feedForward(c *kernel.CPU, f *feed, b *batch) {
	rows := len(b.tokens)
	c.Gated(b.gate, b.x, rows, m.norm(f.norm), f.gate.into(nil, false), f.up.into(nil, false))
	c.Products(b.gate, rows, weight.Norm{}, f.down.into(b.x, true))
}

// hiddenStates: norm(x) of the rows that are wanted.
func (m *model) hiddenStates(c *kernel.CPU, b *batch) {
	for i, r := range b.output {
		copy(b.hidden[i*m.width:(i+1)*m.width], b.x[r*m.width:])
	}
	c.RMSNorm(b.hidden, b.hidden, m.outputNorm, len(b.output), m.eps)
}

// logits multiplies rows hidden states, [rows][width], by the output matrix:
// dst is [rows][vocab].
func (m *model) logits(c *kernel.CPU, dst, hidden []float32, rows int) {
	c.MatMul(dst, m.output, hidden, rows, nil)
}

// norm is a norm of this model's with the given factors.
func (m *model) norm(factors []float32) weight.Norm {
	return weight.Norm{Weight: factors, Eps: m.eps}
}
