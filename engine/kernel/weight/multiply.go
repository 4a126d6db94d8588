package weight

import (
	"weir/engine/kernel/isa"
	"weir/engine/kernel/pool"
	"weir/engine/kernel/vector"
)

// Norm is a norm that is applied to activations on their way into a product: with
// Bias a layer norm, without it a root-mean-square norm. The zero Norm is none.
type Norm struct {
	Weight, Bias []float32
	Eps          float32
}

// Apply norms a row; dst may be x.
func (n *Norm) Apply(level isa.Level, dst, x []float32) {
	if n.Bias != nil {
		vector.LayerNorm(level, dst, x, n.Weight, n.Bias, n.Eps)
		return
	}
	vector.Norm(level, dst, x, n.Weight, n.Eps)
}

// Product is one of several matrix products of the same activations:
// Dst[i][o] = sum_c x[i][c]*W[o][c] + Bias[o], Dst being [rows][W.Rows]; Bias may
// be nil. With Add the result is added to Dst. Act, which is Identity or GELU, is
// applied to what is in Dst then. Output says that W is an output matrix, where a loss goes straight into the logits: more of the activations
// count as large, so that the steps of the others are smaller. A Fine product is that of floats except for a few millionths: what rounding takes
// from activations is multiplied, too, which takes twice the time where weights need not be waited for. One product that is either
// makes all so that are computed with it.
type Product struct {
	Dst    []float32
	W      *Matrix
	Bias   []float32
	Add    bool
	Output bool
	Fine   bool
	Act    vector.Activation
}

// Multiplier computes products for one engine as a member of a pool. It is not
// safe for concurrent use, and allocates nothing after the first call of a size.
type Multiplier struct {
	member  *pool.Member
	level   isa.Level
	scratch [][]float32 // per worker, grown to the widest use
	fine    bool        // see SetFine

	input   inputJob
	product productJob
	mixture mixtureJob
	low     lowRankJob
}

// NewMultiplier is a multiplier at a level, which the machine must have.
func NewMultiplier(member *pool.Member, level isa.Level) *Multiplier {
	u := &Multiplier{member: member, level: level, scratch: make([][]float32, member.Workers())}
	m := &u.mixture
	m.inward.mixtureJob, m.outward.mixtureJob, m.giving.mixtureJob = m, m, m
	u.low.owner = u
	return u
}

// SetFine says whether all products from the next one on are fine, see [Product].
func (u *Multiplier) SetFine(fine bool) { u.fine = fine }

// reserve makes every worker's scratch at least n floats.
func (u *Multiplier) reserve(n int) {
	for i := range u.scratch {
		if len(u.scratch[i]) < n {
			u.scratch[i] = make([]float32, max(n, 2*len(u.scratch[i])))
		}
	}
}

// Products computes up to three products of the rows of x, [rows][Cols], in one
// round of the pool. Activations of quantised weights are rounded to int8 once
// for all of them. Each output's sum runs in the same order whatever rows is.
func (u *Multiplier) Products(x []float32, rows int, norm Norm, products ...Product) {
	if rows == 0 {
		return
	}
	j := &u.product
	j.products = append(j.products[:0], products...)
	u.multiply(x, rows, norm)
}

// Gated computes dst = a(x gate^T) * (x up^T), where a is gate.Act; dst is
// [rows][gate.W.Rows]. gate and up have the same shape, see [SideBySide], and their
// Dst is not used.
func (u *Multiplier) Gated(dst, x []float32, rows int, norm Norm, gate, up Product) {
	if rows == 0 {
		return
	}
	gate.Dst, up.Dst = dst, nil
	j := &u.product
	j.products = append(j.products[:0], gate)
	j.up = up
	u.multiply(x, rows, norm)
	j.up = Product{}
}

// prepare brings the rows of x into the layouts that the products need.
func (u *Multiplier) prepare(x []float32, rows int, norm Norm) {
	j, p := &u.input, &u.product
	j.begin(u.level, x, rows, p.products[0].W.Cols, norm)
	j.fine = u.fine || p.up.Fine
	for i := range p.products {
		j.output, j.fine = j.output || p.products[i].Output, j.fine || p.products[i].Fine
	}
	for i := range p.products {
		j.ask(p.products[i].W)
	}
	if p.up.W != nil {
		j.ask(p.up.W)
	}
	u.bring()
}

// runBytes is how much of the activations one call of a product takes: they stay in the
// second-level cache beside a group.
const runBytes = 256 << 10

// gatedPanels is the same for gated products, of which one of two results has to wait for the other.
const gatedPanels = 8

// productJob multiplies groups of tiles by all panels.
type productJob struct {
	owner    *Multiplier
	products []Product
	up       Product // the second matrix of a gated product
	pieces   pieces  // of the products
	fast     []*productFuncs
	fastUp   *productFuncs
}

// multiply runs u.product over the rows of x.
func (u *Multiplier) multiply(x []float32, rows int, norm Norm) {
	u.prepare(x, rows, norm)
	j := &u.product
	j.owner = u
	j.fast = j.fast[:0]
	for i := range j.products {
		j.fast = append(j.fast, j.products[i].W.funcs(u.level))
	}
	j.cut(rows)
	if j.up.W != nil {
		j.fastUp = j.up.W.funcs(u.level)
		u.reserve(min(gatedPanels*panelRows, rows) * j.pieces.widest() * tileLanes)
	}
	j.pieces.run(u.member, j)
}

// cut makes the pieces. The only panel of a step reads weights once, from memory: workers sweep ranges of their own.
func (j *productJob) cut(rows int) {
	p, in := &j.pieces, &j.owner.input
	p.clear()
	if in.sections[0].panels > 1 {
		for i := range j.products {
			n, size := j.split(&j.products[i], rows)
			p.even(i, n, size)
		}
		return
	}
	most := groupBytes // which products that are fine read twice
	for i := range j.products {
		m := j.products[i].W
		p.strip(m.tiles(), m.tileBytes(), pool.GrainMACs/(m.Cols*rows*tileLanes))
	}
	if j.up.W != nil {
		p.strips[0].bytes += j.up.W.tileBytes()
		if !in.fine {
			most = pairBytes
		}
	}
	p.sweep(j.owner.member.Workers(), most)
}

// split says how many tiles a product has and how many an item takes: few
// enough to share the work evenly and to stay in cache, many enough to be worth
// a claim.
func (j *productJob) split(p *Product, rows int) (n, size int) {
	m := p.W
	n = m.tiles()
	one, macs := len(m.data)/n, m.Cols*rows*tileLanes
	even := n
	if w := j.owner.member.Workers(); w > 1 {
		even = n / (8 * w)
	}
	size = max(1, pool.GrainMACs/macs, min(even, groupBytes/one))
	if f := m.funcs(j.owner.level); f != nil && f.four[pairRows] != nil {
		return n, (size + 3) &^ 3 // four tiles stay together
	}
	return n, size + size%2 // pairs of tiles stay together
}

// SideBySide reports whether two matrices can be walked side by side, as Gated
// walks them.
func SideBySide(a, b *Matrix) bool {
	return a.Rows == b.Rows && a.Cols == b.Cols && a.Rows%tileLanes == 0
}

func (j *productJob) Do(worker, item int) {
	c := j.pieces.list[item]
	p, lo, hi := &j.products[c.of], int(c.lo), int(c.hi)
	if j.up.W != nil {
		j.gated(worker, p, lo, hi)
	} else {
		j.tiled(worker, p, j.fast[c.of], lo, hi)
	}
}

// tiled multiplies tiles lo to hi.
func (j *productJob) tiled(worker int, p *Product, fast *productFuncs, lo, hi int) {
	m, in := p.W, &j.owner.input
	full, c := min(hi, m.Rows/tileLanes), &in.sections[0]
	s := span{w: m, funcs: fast, lo: lo, hi: full, stride: m.Rows, bias: p.Bias, add: p.Add}
	for n := 0; n < c.panels; n += s.panels {
		first := c.choose(&s, n)
		rows := s.panels * s.rows
		s.dst = p.Dst[first*m.Rows+lo*tileLanes:]
		in.multiply(&s, c, n, first)
		if full < hi {
			j.ragged(p, s, n, first, j.owner.scratch[worker][:panelRows*tileLanes])
		}
		if p.Act != vector.Identity {
			for r := first; r < first+rows; r++ {
				p.Act.Apply(j.owner.level, p.Dst[r*m.Rows+lo*tileLanes:r*m.Rows+min(hi*tileLanes, m.Rows)])
			}
		}
	}
}

// choose makes a span one of panel n of a section and of those behind it that have as many rows, and returns the first row.
func (c *section) choose(s *span, n int) (first int) {
	most := 1
	s.several = c.panels > 1
	first, s.rows = c.at(n)
	if s.several && s.funcs != nil {
		most = max(1, runBytes/(s.rows*s.w.format.kind.rowBytes(s.w.Cols)))
	}
	s.panels = c.run(n, most)
	return first
}

// ragged multiplies the last tile of a matrix whose rows do not fill it, the one
// after the full tiles of s, by the panels of s, which begin with panel n.
func (j *productJob) ragged(p *Product, s span, n, first int, sums []float32) {
	in, panels := &j.owner.input, s.panels
	s.lo, s.hi, s.several, s.panels = s.hi, s.hi+1, false, 1
	s.dst, s.stride, s.bias, s.add = sums, tileLanes, nil, false
	for i := range panels {
		in.multiply(&s, &in.sections[0], n+i, first)
		p.take(s.lo, first, s.rows, sums)
		first += s.rows
	}
}

// take puts the sums of a tile that its matrix does not fill where they belong, [rows][tileLanes] from row first on.
func (p *Product) take(tile, first, rows int, sums []float32) {
	for r := range rows {
		for o := tile * tileLanes; o < p.W.Rows; o++ {
			v := sums[r*tileLanes+o%tileLanes]
			if p.Bias != nil {
				v += p.Bias[o]
			}
			dst := &p.Dst[(first+r)*p.W.Rows+o]
			if p.Add {
				v += *dst
			}
			*dst = v
		}
	}
}

// gated multiplies tiles lo to hi of gate and up and joins them.
func (j *productJob) gated(worker int, p *Product, lo, hi int) {
	in, up, width := &j.owner.input, &j.up, (hi-lo)*tileLanes
	ups := j.owner.scratch[worker]
	s, c := span{lo: lo, hi: hi}, &in.sections[0]
	for n := 0; n < c.panels; n += s.panels {
		s.w, s.funcs = p.W, j.fast[0]
		first := c.choose(&s, n)
		s.panels = min(s.panels, gatedPanels)
		s.dst, s.stride, s.bias = p.Dst[first*p.W.Rows+lo*tileLanes:], p.W.Rows, p.Bias
		in.multiply(&s, c, n, first)
		s.w, s.funcs = up.W, j.fastUp
		s.dst, s.stride, s.bias = ups, width, up.Bias
		in.multiply(&s, c, n, first)
		for r := range s.panels * s.rows {
			gate := p.Dst[(first+r)*p.W.Rows+lo*tileLanes:][:width]
			p.Act.Gate(j.owner.level, gate, gate, ups[r*width:(r+1)*width])
		}
	}
}
