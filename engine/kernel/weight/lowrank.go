package weight

import (
	"weir/engine/kernel/pool"
	"weir/engine/kernel/vector"
)

// LowRank is what a LoRA adapter adds to a product: Scale*B(A norm(x)), A being [rank][W.Cols] and B [W.Rows][rank], of floats. Nothing of x is
// rounded for it. Without an A nothing is added.
type LowRank struct {
	A, B  *Matrix
	Scale float32
}

// MostTogether is how many products of the same rows there may be.
const MostTogether = 3

// Adapted are rows Lo to Hi-1, and what is added to each of the products.
type Adapted struct {
	Lo, Hi int
	Low    [MostTogether]LowRank
}

// AdaptedProducts is Products of which some rows have low ranks. Their ranges follow each other. The bits of a row depend on no other row.
//
// Beside the round that brings rows into the layouts of the products, workers compute A x; behind the products one more round adds B of it. A
// worker reads each adapter's matrices of a product in one go: what memory gives falls by half where streams are a few pages long.
func (u *Multiplier) AdaptedProducts(parts []Adapted, x []float32, rows int, norm Norm, products ...Product) {
	if rows == 0 {
		return
	}
	j, p := &u.low, &u.product
	j.products = append(j.products[:0], products...)
	p.products = append(p.products[:0], products...)
	for i := range p.products {
		p.products[i].Act = vector.Identity // follows what is added
	}
	j.gated = false
	u.adapted(parts, x, rows, norm)
}

// AdaptedGated is Gated of which some rows have low ranks: of gate first, then of up. gate and up need not have the same shape of tiles.
func (u *Multiplier) AdaptedGated(parts []Adapted, dst, x []float32, rows int, norm Norm, gate, up Product) {
	if rows == 0 {
		return
	}
	j, p := &u.low, &u.product
	if n := rows * up.W.Rows; len(j.up) < n {
		j.up = make([]float32, n+n/4)
	}
	gate.Dst, up.Dst = dst, j.up
	j.products = append(j.products[:0], gate, up)
	gate.Act = vector.Identity
	p.products = append(p.products[:0], gate, up)
	j.gated = true
	u.adapted(parts, x, rows, norm)
}

// adapted runs u.low and u.product.
func (u *Multiplier) adapted(parts []Adapted, x []float32, rows int, norm Norm) {
	j := &u.low
	j.begin(parts, rows)
	u.multiply(x, rows, norm)
	j.add()
	j.narrowed = 0
}

// lowRankRows are the most rows that a worker computes A x of at a time, or adds to.
const lowRankRows = 32

// lowRankJob computes what is added to products.
type lowRankJob struct {
	owner    *Multiplier
	products []Product // their activations follow what is added
	gated    bool      // the second is the up of the first
	parts    []lowRankPart
	narrowed int       // parts with an adapter, which are the first ones
	thin     []float32 // Scale*A x: of each part and product panels of [rank][rows]
	up       []float32 // of a gated product
	by       int       // items of a part
	beside   besideJob
}

// lowRankPart is rows lo to hi-1, of one adapter or of none.
type lowRankPart struct {
	*Adapted
	lo, hi int
	at     [MostTogether]int // in thin
}

// begin cuts the rows into parts. Those without an adapter are parts where an activation waits for them.
func (j *lowRankJob) begin(parts []Adapted, rows int) {
	clear(j.parts)
	j.parts = j.parts[:0]
	at := 0
	for i := range parts {
		a := &parts[i]
		for lo := a.Lo; lo < a.Hi; lo += lowRankRows {
			p := lowRankPart{Adapted: a, lo: lo, hi: min(lo+lowRankRows, a.Hi)}
			for k := range j.products {
				if low := &a.Low[k]; low.A != nil {
					p.at[k], at = at, at+low.A.Rows*(p.hi-p.lo)
				}
			}
			j.parts = append(j.parts, p)
		}
	}
	j.narrowed = len(j.parts)
	if len(j.thin) < at {
		j.thin = make([]float32, at+at/4)
	}
	if !j.activates() {
		return
	}
	lo := 0
	for i := range parts {
		j.leave(lo, parts[i].Lo)
		lo = parts[i].Hi
	}
	j.leave(lo, rows)
}

// activates reports whether rows without an adapter have something to be done, too.
func (j *lowRankJob) activates() bool {
	for i := range j.products {
		if j.gated || j.products[i].Act != vector.Identity {
			return true
		}
	}
	return false
}

// leave makes parts of rows without an adapter.
func (j *lowRankJob) leave(lo, hi int) {
	for ; lo < hi; lo += lowRankRows {
		j.parts = append(j.parts, lowRankPart{lo: lo, hi: min(lo+lowRankRows, hi)})
	}
}

// share says in how many items a part is done, so that no worker waits long for another one.
func (j *lowRankJob) share(parts, most int) int {
	if w := j.owner.member.Workers(); parts < 2*w {
		return min((2*w+parts-1)/parts, most)
	}
	return 1
}

// narrow computes A x beside the bringing of rows.
func (j *lowRankJob) narrow() {
	in, cols := &j.owner.input, j.owner.input.cols
	floats := 0
	for i := range j.parts[:j.narrowed] {
		for k := range j.products {
			if a := j.parts[i].Low[k].A; a != nil {
				floats = max(floats, (panelRows+1)*cols+panelRows*a.tiles()*tileLanes)
			}
		}
	}
	j.owner.reserve(floats)
	b := &j.beside
	b.lowRankJob, b.by = j, j.share(j.narrowed, len(j.products))
	b.grain = pool.GrainMACs/(4*cols) + 1
	j.owner.member.Run(b, j.narrowed*b.by+(in.rows+b.grain-1)/b.grain, 1)
}

// besideJob computes A x, and brings rows into the layouts of the products.
type besideJob struct {
	*lowRankJob
	by    int // items of a part
	grain int // rows of an item that brings them
}

func (j *besideJob) Do(worker, item int) {
	in := &j.owner.input
	if first := (item - j.narrowed*j.by) * j.grain; first >= 0 {
		for row := first; row < min(first+j.grain, in.rows); row++ {
			in.Do(worker, row)
		}
		return
	}
	p, which, scratch := &j.parts[item/j.by], item%j.by, j.owner.scratch[worker]
	split := cutRows(j.owner.level, p.hi-p.lo)
	for n := range split.panels {
		first, rows := split.panel(n)
		placed := false
		for k := range j.products {
			if p.Low[k].A == nil || k%j.by != which {
				continue
			}
			if !placed {
				j.place(p.lo+first, rows, scratch)
				placed = true
			}
			j.multiply(&p.Low[k], split.panels > 1, rows, scratch, j.thin[p.at[k]+first*p.Low[k].A.Rows:])
		}
	}
}

// place writes a panel of rows to scratch.
func (j *lowRankJob) place(first, rows int, scratch []float32) {
	in, level := &j.owner.input, j.owner.level
	panel, row := scratch[:rows*in.cols], scratch[panelRows*in.cols:][:in.cols]
	for r := range rows {
		x := in.x[(first+r)*in.cols:][:in.cols]
		if in.norm.Weight != nil {
			in.norm.Apply(level, row, x)
			x = row
		}
		placeRow(level, panel[r:], rows, x)
	}
}

// multiply computes Scale*A x of the panel in scratch.
func (j *lowRankJob) multiply(low *LowRank, several bool, rows int, scratch, thin []float32) {
	a, level := low.A, j.owner.level
	wide := a.tiles() * tileLanes
	sums := scratch[(panelRows+1)*a.Cols:][:rows*wide]
	s := span{w: a, funcs: a.funcs(level), hi: a.tiles(), panel: floatPanel(scratch[:rows*a.Cols]), panels: 1, rows: rows, several: several, dst: sums, stride: wide}
	s.multiply()
	thin = thin[:rows*a.Rows]
	for r := range rows {
		for k, v := range sums[r*wide:][:a.Rows] {
			thin[k*rows+r] = v * low.Scale
		}
	}
}

func floatPanel(x []float32) panelView { return panelView{codes: vector.Bytes(x)} }

// add adds B of what narrow has made.
func (j *lowRankJob) add() {
	if len(j.parts) == 0 {
		return
	}
	least := j.products[0].W.tiles()
	for i := range j.products {
		least = min(least, j.products[i].W.tiles())
	}
	j.by = j.share(len(j.parts), least)
	j.owner.reserve(panelRows * tileLanes)
	j.owner.member.Run(j, len(j.parts)*j.by, 1)
}

// Do adds to a share of the outputs of a part's rows.
func (j *lowRankJob) Do(worker, item int) {
	part, n := &j.parts[item/j.by], item%j.by
	for k := range j.products {
		p := &j.products[k]
		lo, hi := p.W.tiles()*n/j.by, p.W.tiles()*(n+1)/j.by
		if part.Adapted != nil && part.Low[k].B != nil {
			j.widen(part, k, lo, hi, j.owner.scratch[worker][:panelRows*tileLanes])
		}
		from, to := lo*tileLanes, min(hi*tileLanes, p.W.Rows)
		for r := part.lo; r < part.hi && p.Act != vector.Identity && !j.gated; r++ {
			p.Act.Apply(j.owner.level, p.Dst[r*p.W.Rows+from:r*p.W.Rows+to])
		}
		for r := part.lo; r < part.hi && j.gated && k == 1; r++ {
			gate, up := j.products[0].Dst[r*p.W.Rows+from:r*p.W.Rows+to], p.Dst[r*p.W.Rows+from:r*p.W.Rows+to]
			j.products[0].Act.Gate(j.owner.level, gate, gate, up)
		}
	}
}

// widen adds to tiles lo to hi-1 of product k. sums are memory for a tile of a panel.
func (j *lowRankJob) widen(part *lowRankPart, k, lo, hi int, sums []float32) {
	p, b, level := &j.products[k], part.Low[k].B, j.owner.level
	split := cutRows(level, part.hi-part.lo)
	full := min(hi, p.W.Rows/tileLanes)
	s := span{w: b, funcs: b.funcs(level), several: split.panels > 1}
	for n := 0; n < split.panels; n += s.panels {
		var first int
		first, s.rows = split.panel(n)
		if s.panels = 1; s.funcs != nil {
			s.panels = split.run(n, split.panels)
		}
		s.panel = floatPanel(j.thin[part.at[k]+first*b.Cols:][:s.panels*s.rows*b.Cols])
		first += part.lo
		if lo < full {
			s.lo, s.hi, s.stride, s.add, s.dst = lo, full, p.W.Rows, true, p.Dst[first*p.W.Rows+lo*tileLanes:]
			s.multiply()
		}
		if full < hi {
			j.ragged(p, s, full, first, sums)
		}
	}
}

// ragged adds to the last tile of a matrix whose rows do not fill it.
func (j *lowRankJob) ragged(p *Product, s span, tile, first int, sums []float32) {
	to := Product{Dst: p.Dst, W: p.W, Add: true}
	size, codes := s.rows*s.w.Cols*floatPanelBytes, s.panel.codes
	s.lo, s.hi, s.stride, s.add, s.dst, s.several = tile, tile+1, tileLanes, false, sums, false
	for range s.panels {
		one := s
		one.panels, one.panel = 1, panelView{codes: codes[:size]}
		one.multiply()
		to.take(tile, first, s.rows, sums)
		codes, first = codes[size:], first+s.rows
	}
}
