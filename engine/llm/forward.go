package llm

import (
	"math"

	"weir/engine/kernel"
	"weir/engine/kernel/attend"
	"weir/engine/kernel/isa"
	"weir/engine/kernel/vector"
	"weir/engine/kernel/weight"
)

// forward runs every row of b through the layers, storing keys and values, and
// leaves the normalised hidden states of b.output in b.hidden. Where not all rows are wanted, the last layer
// with keys of its own computes keys and values alone of the others, and those behind it nothing.
func (m *model) forward(c *kernel.CPU, kv *attend.Pages, b *batch) {
	all := block{0, len(b.tokens)}
	m.begin(c, b, all.hi)
	whole := len(m.layers) // layers that all rows pass through
	if len(b.output) < all.hi {
		whole = m.lastKeys()
	}
	if m.apart(c, all.hi) {
		m.blockwise(c, kv, b, whole)
	} else {
		for i := range m.layers[:whole] {
			m.layer(c, kv, &m.layers[i], b, all)
		}
	}
	if whole < len(m.layers) {
		m.lastLayers(c, kv, m.layers[whole:], b)
		return
	}
	m.hiddenStates(c, b)
}

// lastKeys is the last layer with keys and values of its own.
func (m *model) lastKeys() int {
	last := len(m.layers) - 1
	for !m.layers[last].attention.storesKeys() && !m.layers[last].recurrent.exists() {
		last--
	}
	if m.layers[last].recurrent.exists() {
		return len(m.layers) // every row changes its state
	}
	return last
}

// layer runs a block of rows through a layer.
func (m *model) layer(c *kernel.CPU, kv *attend.Pages, y *layer, b *batch, r block) {
	m.beginLayer(c, kv, y, b, r)
	m.endLayer(c, kv, y, b, r)
}

// beginLayer leaves what other rows need of a block in a layer: keys and values, or a state.
func (m *model) beginLayer(c *kernel.CPU, kv *attend.Pages, y *layer, b *batch, r block) {
	if y.recurrent.exists() {
		y.recurrent.recur(m, c, b, r)
	}
	if y.attention.exists() {
		m.project(c, kv, &y.attention, b, r)
	}
}

// endLayer is the rest of a layer.
func (m *model) endLayer(c *kernel.CPU, kv *attend.Pages, y *layer, b *batch, r block) {
	if y.recurrent.exists() {
		m.close(c, b, r, b.given(&y.recurrent, r), &y.recurrent.out, &y.recurrent.norms)
	}
	if y.attention.exists() {
		m.attend(c, kv, &y.attention, b, r)
	}
	m.finishLayer(c, y, b, r)
}

// lastLayers stores the keys and values of all rows, those of the first of the layers, and computes all else of the rows of b.output.
func (m *model) lastLayers(c *kernel.CPU, kv *attend.Pages, layers []layer, b *batch) {
	a, all := &layers[0].attention, block{0, len(b.tokens)}
	if a.v.w == nil {
		m.products(c, b, all, b.x, a.norms.before, a.k.into(b.k, false))
	} else {
		m.products(c, b, all, b.x, a.norms.before, a.k.into(b.k, false), a.v.into(b.v, false))
	}
	m.store(c, kv, a, b, all)
	if len(b.output) == 0 {
		return
	}
	b = b.keep(m)
	all = block{0, len(b.tokens)}
	m.products(c, b, all, b.x, a.norms.before, b.queryProduct(a, all))
	b.partGates(c, a, all)
	m.turn(c, a, b, all)
	m.attend(c, kv, a, b, all)
	m.finishLayer(c, &layers[0], b, all)
	for i := range layers[1:] {
		m.layer(c, kv, &layers[1+i], b, all)
	}
	m.hiddenStates(c, b)
}

// finishLayer is what a layer does behind its attention.
func (m *model) finishLayer(c *kernel.CPU, y *layer, b *batch, r block) {
	m.feedForward(c, &y.feed, b, r)
	y.takeInput(m, c, b, r)
	y.scaleRows(r.of(b.x, m.width))
}

// block is rows [lo,hi) of a batch. A layer projects all blocks before any of them
// attends; what is computed of a row does not depend on the blocks.
type block struct{ lo, hi int }

func (r block) rows() int { return r.hi - r.lo }

// of is the block's part of x, [rows of the batch][width].
func (r block) of(x []float32, width int) []float32 { return x[r.lo*width : r.hi*width] }

// begin makes the rows that the first layer gets; blockRows is the most of a block.
func (m *model) begin(c *kernel.CPU, b *batch, blockRows int) {
	b.reserve(m, blockRows)
	b.reads = c.NewReads()
	b.start = startJob{m, b, c.Level()}
	c.Run(&b.start, len(b.tokens), startGrain)
	if m.headInput != nil {
		m.headInput.run(m, c, b)
	}
	b.makeInputs(m, c)
}

// startGrain is how many rows a worker takes at a time.
const startGrain = 8

// startJob makes a row of its token, type and position, and computes what every
// rope makes of its position, once for all layers that use it.
type startJob struct {
	m     *model
	b     *batch
	level isa.Level
}

func (j *startJob) Do(_, r int) {
	m, b := j.m, j.b
	x := b.x[r*m.width : (r+1)*m.width]
	m.embed.DecodeRow(x, int(b.tokens[r]))
	if f := m.embedding.scale; f != 0 {
		for i := range x {
			x[i] *= f
		}
	}
	if m.typeRows != nil {
		add(x, m.typeRows[int(b.types[r])*m.width:])
	}
	if m.posRows != nil {
		add(x, m.posRows[b.pos[r]*m.width:])
	}
	if m.embedNorm.Weight != nil {
		m.embedNorm.Apply(j.level, x, x)
	}
	for i := range m.ropes {
		rope, to := &m.ropes[i], &b.angles[i]
		rope.angles(to.cos[r*rope.half:][:rope.half], to.sin[r*rope.half:][:rope.half], b.pos[r])
	}
}

func add(x, y []float32) {
	y = y[:len(x)]
	for i, v := range y {
		x[i] += v
	}
}

// project: Q, K, V are products of norm(x), Q and K rotated by their positions; K and
// V are stored. A layer that reads those of another has queries alone.
func (m *model) project(c *kernel.CPU, kv *attend.Pages, a *attention, b *batch, r block) {
	x, q := r.of(b.x, m.width), b.queryProduct(a, r)
	switch {
	case a.readsFrom != ownKeys:
		m.products(c, b, r, x, a.norms.before, q)
	case a.v.w == nil:
		m.products(c, b, r, x, a.norms.before, q, a.k.into(b.k, false))
	default:
		m.products(c, b, r, x, a.norms.before, q, a.k.into(b.k, false), a.v.into(b.v, false))
	}
	b.partGates(c, a, r)
	m.turn(c, a, b, r)
	if a.readsFrom == ownKeys {
		m.store(c, kv, a, b, r)
	}
}

// turn norms and rotates queries, and sharpens what they see.
func (m *model) turn(c *kernel.CPU, a *attention, b *batch, r block) {
	x := b.queries(a, r)
	m.orient(c, a, b, r, x, a.qNorm, a.heads)
	a.sharpen(x, b.pos[r.lo:r.hi])
}

// sharpen multiplies queries by what is due to their positions.
func (a *attention) sharpen(x []float32, positions []int) {
	width := a.heads * a.headDim
	for i, p := range positions {
		f := a.temper.of(p)
		if f == 1 {
			continue
		}
		row := x[i*width : (i+1)*width]
		for j := range row {
			row[j] *= f
		}
	}
}

// store norms and rotates the keys of a block, and stores them and the values.
func (m *model) store(c *kernel.CPU, kv *attend.Pages, a *attention, b *batch, r block) {
	a.makeValues(c, b, r)
	m.orient(c, a, b, r, b.k, a.kNorm, a.kvHeads)
	c.StoreKV(kv.Table(a.table), a.slot, b.k, b.v, b.tables[a.table].places[r.lo:r.hi])
}

// orient norms and rotates heads of a block.
func (m *model) orient(c *kernel.CPU, a *attention, b *batch, r block, x []float32, n weight.Norm, heads int) {
	if !a.normLate {
		a.norm(c, x, n, r.rows(), heads)
	}
	m.rotate(c, a, b, r, x, heads)
	if a.normLate {
		a.norm(c, x, n, r.rows(), heads)
	}
}

// norm norms rows of heads, each head for itself or all together.
func (a *attention) norm(c *kernel.CPU, x []float32, n weight.Norm, rows, heads int) {
	if a.headNorm {
		rows *= heads
	}
	if n.Weight != nil {
		c.Norm(x, x, n, rows)
	}
}

// rotate turns the heads of x by the positions of a block's rows.
func (m *model) rotate(c *kernel.CPU, a *attention, b *batch, r block, x []float32, heads int) {
	if a.rope == noRope {
		return
	}
	rope, by := &m.ropes[a.rope], &b.angles[a.rope]
	c.Rope(x, r.rows(), vector.Rotation{
		Style: rope.style, Heads: heads, HeadDim: a.headDim, Half: rope.half,
		Cos: r.of(by.cos, rope.half), Sin: r.of(by.sin, rope.half),
	})
}

// attend: x += O softmax(scale Q K^T) V over the rows that each row sees.
func (m *model) attend(c *kernel.CPU, kv *attend.Pages, a *attention, b *batch, r block) {
	m.look(c, kv, a, b, r)
	b.applyGates(c, a, r)
	if a.beside {
		copy(b.input, r.of(b.x, m.width))
	}
	m.closeAttention(c, a, b, r, b.att)
}

// look: att = softmax(scale Q K^T) V.
func (m *model) look(c *kernel.CPU, kv *attend.Pages, a *attention, b *batch, r block) {
	c.Attention(attend.Query{
		Out: b.att, Q: b.queries(a, r), KV: kv.Table(a.table), Layer: a.slot, Heads: a.heads,
		Spans: b.within(a.table, r), Reads: b.reads, Scale: a.scale, Reach: a.reach, Cap: a.cap, Slopes: a.slopes, Sinks: a.sinks,
	})
}

// closeAttention: x += O att, att being the block's.
func (m *model) closeAttention(c *kernel.CPU, a *attention, b *batch, r block, att []float32) {
	if a.again.Weight == nil {
		m.close(c, b, r, att, &a.o, &a.norms)
		return
	}
	x, input := r.of(b.x, m.width), b.branch[:r.rows()*m.width]
	copy(input, x)
	m.close(c, b, r, att, &a.o, &a.norms)
	add(x, input)
	c.Norm(x, x, a.again, r.rows())
}

// feedForward: x += Down(act(Gate norm(x)) * Up norm(x)).
func (m *model) feedForward(c *kernel.CPU, f *feedForward, b *batch, r block) {
	switch {
	case !f.exists():
		return
	case f.experts.apart:
		f.mixApart(m, c, b, r)
		return
	case f.experts.count > 0:
		m.mix(c, f, b, r)
		return
	}
	x, up := r.of(b.x, m.width), f.up.into(nil, false)
	if f.beside {
		x = b.input[:len(x)]
	}
	switch {
	case f.plain:
		up.Dst, up.Act = b.gate, f.act
		m.products(c, b, r, x, f.norms.before, up)
		f.curve.run(c, b, f.width, r.rows())
	default:
		gate := f.gate.into(nil, false)
		gate.Act = f.act
		if low := b.low.of(b.adapted, r, gate, up); len(low) > 0 {
			c.AdaptedGated(low, b.gate, x, r.rows(), f.norms.before, gate, up)
			break
		}
		c.Gated(b.gate, x, r.rows(), f.norms.before, gate, up)
	}
	m.close(c, b, r, b.gate, &f.down, &f.norms)
}

// products are those of norm(x), x being the block's rows, a branch's beginning, with what adapters add. Hidden states of BERT's kind
// have a few large values, beside which int8 leaves little of their neighbours: there
// they are fine, as exact as q8_0 weights are.
func (m *model) products(c *kernel.CPU, b *batch, r block, x []float32, norm weight.Norm, all ...weight.Product) {
	for i := range all {
		all[i].Fine = m.fine
	}
	b.multiply(c, r, x, norm, all...)
}

// close ends a branch: x = after(x + scale*out(W y)).
func (m *model) close(c *kernel.CPU, b *batch, r block, y []float32, w *linear, n *norms) {
	x := r.of(b.x, m.width)
	to, add := x, true
	if n.whole() {
		to, add = b.branch, false
	}
	b.multiply(c, r, y, weight.Norm{}, w.into(to, add))
	if n.whole() {
		n.addTo(c, x, b.branch, r.rows())
	}
	if n.after.Weight != nil {
		c.Norm(x, x, n.after, r.rows())
	}
}

// addTo adds what a branch gives for rows to x.
func (n *norms) addTo(c *kernel.CPU, x, branch []float32, rows int) {
	if n.out.Weight != nil {
		c.Norm(branch, branch, n.out, rows)
	}
	if n.scale == 0 {
		add(x, branch)
	} else {
		vector.AddScaled(c.Level(), x, branch, n.scale)
	}
}

// enter makes rows of a block, which the encoder gave, those that the decision head gets.
func (m *model) enter(c *kernel.CPU, b *batch, r block) {
	x := r.of(b.x, m.width)
	c.Norm(x, x, m.outputNorm, r.rows())
	for i, t := range b.types[r.lo:r.hi] {
		add(x[i*m.width:(i+1)*m.width], m.questions[int(t)*m.width:])
	}
}

// hiddenStates: norm(x) of the rows that are wanted.
func (m *model) hiddenStates(c *kernel.CPU, b *batch) {
	for i, r := range b.output {
		copy(b.hidden[i*m.width:(i+1)*m.width], b.x[r*m.width:])
	}
	if m.outputNorm.Weight != nil {
		c.Norm(b.hidden, b.hidden, m.outputNorm, len(b.output))
	}
}

// logits multiplies rows hidden states, [rows][width], by the output matrix:
// dst is [rows][vocab].
func (m *model) logits(c *kernel.CPU, dst, hidden []float32, rows int) {
	c.Products(hidden, rows, weight.Norm{}, weight.Product{Dst: dst, W: m.output, Output: true})
	if m.logitCap > 0 {
		c.SoftCap(dst[:rows*m.vocab], rows, m.logitCap)
	}
}

// suppress keeps the tokens that the file names from being sampled, in rows of logits.
func (m *model) suppress(logits []float32, rows int) {
	for _, id := range m.suppressed {
		for r := range rows {
			logits[r*m.vocab+int(id)] = float32(math.Inf(-1))
		}
	}
}

// squareRoot is rounded as Gemma's reference does, once.
func squareRoot(n int) float32 { return float32(math.Sqrt(float64(n))) }
