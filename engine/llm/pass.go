package llm

import (
	"math"
	"slices"
	"time"

	"weir/engine/kernel"
	"weir/engine/kernel/vector"
	"weir/internal/inference"
	"weir/kvcache"
	"weir/scheduler/cost"
)

// pass is one forward pass of an encoder over whole texts. It is computed in units, a
// part of a layer for a block of rows, and may pause between any two: what is
// computed of a text depends on neither blocks nor pauses. Its owner is the loop.
type pass struct {
	e      *Encoder
	texts  []*embedText
	batch  batch
	blocks []kvcache.BlockID   // all that the store has, in order
	used   int                 // of blocks
	tables [][]kvcache.BlockID // of the text that is added
	load   cost.Load

	estimate time.Duration
	took     time.Duration // so far

	block  int // rows of a unit
	layer  int
	second bool // the layer's keys and values are stored, and its rows attend
	row    int  // first of the next unit

	pooled []float32 // [texts][width], and what the head makes of it
}

// unitTarget is how long a unit is meant to take: others wait for its end.
const unitTarget = 4 * time.Millisecond

// Rows of a unit: fewer make products slow, more gain nothing.
const leastBlock, mostBlock = 48, 384

func (p *pass) init(e *Encoder) {
	p.e = e
	p.tables = make([][]kvcache.BlockID, len(e.model.cacheShape.Tables))
	p.blocks = make([]kvcache.BlockID, e.kv.Table(0).Blocks-1)
	for i := range p.blocks {
		p.blocks[i] = kvcache.BlockID(i + 1)
	}
}

func (p *pass) reset() {
	clear(p.texts)
	p.texts, p.used, p.load, p.took, p.estimate = p.texts[:0], 0, cost.Load{}, 0, 0
	p.layer, p.second, p.row = 0, false, 0
	p.batch.reset()
}

// fits reports whether a text can join a pass of so many rows. Any text fits alone.
func (p *pass) fits(t *embedText, rows int) bool {
	if len(p.texts) == 0 {
		return true
	}
	return p.load.Rows+len(t.tokens) <= rows && p.used+p.need(t) <= len(p.blocks)
}

// need is how many blocks a text takes in all tables.
func (p *pass) need(t *embedText) int {
	return (len(t.tokens) + textBlock - 1) / textBlock * len(p.tables)
}

// add appends a text that fits.
func (p *pass) add(t *embedText) {
	n := p.need(t) / len(p.tables)
	for i := range p.tables {
		p.tables[i] = p.blocks[p.used : p.used+n]
		p.used += n
	}
	t.row = p.batch.addText(t.tokens, t.types, p.e.model.causal, textBlock, p.tables...)
	p.texts = append(p.texts, t)
	p.load = p.load.Add(textLoad(len(t.tokens)))
}

// begin prepares the rows; perRow is what one takes in all layers, in nanoseconds, 0
// where it is not known.
func (p *pass) begin(perRow float64) {
	m, rows := p.e.model, p.load.Rows
	p.block = mostBlock
	if perRow > 0 {
		p.estimate = p.e.loop.cost.Estimate(p.load)
		p.block = min(max(int(float64(unitTarget)*float64(m.depth)/perRow), leastBlock), mostBlock)
	}
	p.block = min(p.block, rows)
	m.begin(p.e.cpu, &p.batch, p.block)
}

// advance computes a unit and reports whether it was the last one.
func (p *pass) advance() (done bool) {
	e, m, rows := p.e, p.e.model, p.load.Rows
	y, r := &m.layers[p.layer], block{p.row, min(p.row+p.block, rows)}
	if p.layer > 0 && p.layer == m.decides && !p.second {
		m.enter(e.cpu, &p.batch, r)
	}
	if p.second {
		m.endLayer(e.cpu, e.kv, y, &p.batch, r)
	} else {
		m.beginLayer(e.cpu, e.kv, y, &p.batch, r)
	}
	if p.row = r.hi; p.row < rows {
		return false
	}
	p.row = 0
	if p.second = !p.second; !p.second {
		p.layer++
	}
	return p.layer == len(m.layers)
}

// finish pools the texts' rows and leaves the vectors with their calls.
func (p *pass) finish() {
	e, m := p.e, p.e.model
	n := 0
	for _, t := range p.texts {
		t.output, n = n, n+t.outputs()
	}
	grow(&p.pooled, n*m.width)
	e.cpu.Run((*poolJob)(p), len(p.texts), 1)
	values, width := m.head.run(e.cpu, p.pooled, n)
	for _, t := range p.texts {
		t.call.vectors[t.index] = slices.Clone(values[t.output*width : (t.output+t.outputs())*width])
	}
}

// poolJob makes a vector of a text's rows, or takes those at its marks.
type poolJob pass

func (j *poolJob) Do(_, i int) {
	m, t := j.e.model, j.texts[i]
	if m.head.marks {
		for k, at := range t.marks {
			copy(j.pooled[(t.output+k)*m.width:(t.output+k+1)*m.width], j.batch.x[(t.row+at)*m.width:])
		}
		return
	}
	lo, hi := t.row, t.row+len(t.tokens)
	switch m.head.pooling {
	case inference.PoolingCLS:
		hi = lo + 1
	case inference.PoolingLast:
		lo = hi - 1
	default:
	}
	to := j.pooled[t.output*m.width : (t.output+1)*m.width]
	clear(to)
	for r := lo; r < hi; r++ {
		x := j.batch.x[r*m.width : (r+1)*m.width]
		if m.outputNorm.Weight != nil { // in place: the row is needed for nothing else
			m.outputNorm.Apply(j.e.cpu.Level(), x, x)
		}
		add(to, x)
	}
	if f := 1 / float32(hi-lo); f != 1 {
		for k := range to {
			to[k] *= f
		}
	}
}

// run passes n pooled vectors through the head, and returns the values and how many
// of them each vector has.
func (d *head) run(c *kernel.CPU, x []float32, n int) (values []float32, width int) {
	if d.marks {
		return d.score(c, x, n), 1
	}
	width = len(x) / n
	apply := func(l *linear) {
		dst := make([]float32, n*l.w.Rows)
		c.MatMul(dst, l.w, x, n, l.bias)
		x, width = dst, l.w.Rows
	}
	for i := range d.dense {
		if d.dense[i].w != nil {
			apply(&d.dense[i])
		}
	}
	if d.cls.w != nil {
		apply(&d.cls)
		d.activate(c, x)
		if d.clsNorm.Weight != nil {
			c.Norm(x, x, d.clsNorm, n)
		}
	}
	if d.scores.w != nil {
		apply(&d.scores)
	}
	return x, width
}

// activate applies what stands between the two matrices of a classifier.
func (d *head) activate(c *kernel.CPU, x []float32) {
	if d.act == vector.GELU {
		d.act.Apply(c.Level(), x)
		return
	}
	for i, v := range x {
		x[i] = float32(math.Tanh(float64(v)))
	}
}
