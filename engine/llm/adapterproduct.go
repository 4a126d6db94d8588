package llm

import (
	"weir/engine/kernel"
	"weir/engine/kernel/vector"
	"weir/engine/kernel/weight"
)

// Rows of several adapters pass through a step together: the model's matrices multiply all of them at once, and behind each such product
// what the adapters add is computed, group by group. Rows of an adapter are neighbours in a batch. The sums of a row run in the same order whatever
// other rows there are, so that its bits depend on none.

// adapted are rows lo to hi-1 of a batch, or of a block, and their adapter.
type adapted struct {
	lo, hi int
	by     *adapter
}

// adaptedRows are the rows of a batch that have adapters, in order.
type adaptedRows []adapted

// add says that rows lo to hi-1, behind all others, have an adapter; nil: they have none.
func (s adaptedRows) add(lo, hi int, by *adapter) adaptedRows {
	if by == nil || lo == hi {
		return s
	}
	if n := len(s); n > 0 && s[n-1].by == by && s[n-1].hi == lo {
		s[n-1].hi = hi
		return s
	}
	return append(s, adapted{lo, hi, by})
}

// keep adds the adapters of those rows of another batch that output names.
func (s adaptedRows) keep(all adaptedRows, output []int) adaptedRows {
	for i, r := range output {
		for len(all) > 0 && r >= all[0].hi {
			all = all[1:]
		}
		if len(all) > 0 && r >= all[0].lo {
			s = s.add(i, i+1, all[0].by)
		}
	}
	return s
}

// change reports whether adapters add to a network's gate or up in rows of a block.
func (s adaptedRows) change(r block, f *feedForward) bool {
	for i := range s {
		if p := &s[i]; p.lo < r.hi && p.hi > r.lo && (p.by.deltas[f.gate.w] != nil || p.by.deltas[f.up.w] != nil) {
			return true
		}
	}
	return false
}

const (
	mostTogether = 3  // products of the same rows
	partRows     = 32 // of a prompt, that a worker takes at a time
)

// deltaJob adds what adapters give to products that were computed.
type deltaJob struct {
	c     *kernel.CPU
	all   []weight.Product
	x     []float32 // [rows][inputs]
	norm  weight.Norm
	parts []adapted // of the block, counted from its first row
	rank  int       // the largest
	thin  []float32 // [rows][mostTogether][rank]: A x
	up    []float32 // of a gated network
}

// roomFor is memory for the second product of a gated network whose two products have to be whole before they meet.
func (j *deltaJob) roomFor(r block, f *feedForward) []float32 {
	grow(&j.up, r.rows()*f.width)
	return j.up
}

// products are batch.multiply of rows that may have adapters.
func (j *deltaJob) products(c *kernel.CPU, rows adaptedRows, r block, x []float32, norm weight.Norm, all ...weight.Product) {
	j.all = append(j.all[:0], all...)
	for i := range all {
		all[i].Act = vector.Identity // follows what is added
	}
	c.Products(x, r.rows(), norm, all...)
	if j.cut(rows, r); len(j.parts) > 0 {
		j.c, j.x, j.norm = c, x, norm
		grow(&j.thin, r.rows()*mostTogether*j.rank)
		c.Run(j, len(j.parts), 1)
	}
	for i := range j.all {
		p := &j.all[i]
		if p.Act == vector.Identity {
			continue
		}
		for row := range r.rows() {
			p.Act.Apply(c.Level(), p.Dst[row*p.W.Rows:(row+1)*p.W.Rows])
		}
	}
}

// cut makes the parts of a block: rows whose adapter changes one of the products.
func (j *deltaJob) cut(rows adaptedRows, r block) {
	clear(j.parts)
	j.parts, j.rank = j.parts[:0], 0
	for i := range rows {
		s := &rows[i]
		if s.lo >= r.hi || s.hi <= r.lo || !s.by.changes(j.all) {
			continue
		}
		j.rank = max(j.rank, s.by.info.Rank)
		for lo, hi := max(s.lo, r.lo), min(s.hi, r.hi); lo < hi; lo += partRows {
			j.parts = append(j.parts, adapted{lo - r.lo, min(lo+partRows, hi) - r.lo, s.by})
		}
	}
}

// changes reports whether the adapter adds to one of the products.
func (a *adapter) changes(products []weight.Product) bool {
	for i := range products {
		if a.deltas[products[i].W] != nil {
			return true
		}
	}
	return false
}

// Do computes a part.
func (j *deltaJob) Do(worker, item int) {
	part, c := &j.parts[item], j.c.Worker(worker)
	rows, at := part.hi-part.lo, part.lo*mostTogether*j.rank
	var low [mostTogether]weight.Product
	n := 0
	for i := range j.all {
		if d := part.by.deltas[j.all[i].W]; d != nil {
			size := rows * d.a.Rows
			low[n] = weight.Product{Dst: j.thin[at : at+size], W: d.a}
			n, at = n+1, at+size
		}
	}
	cols := j.all[0].W.Cols
	c.Products(j.x[part.lo*cols:part.hi*cols], rows, j.norm, low[:n]...)
	n = 0
	for i := range j.all {
		p := &j.all[i]
		d := part.by.deltas[p.W]
		if d == nil {
			continue
		}
		thin := low[n].Dst
		n++
		for k := range thin {
			thin[k] *= d.scale
		}
		c.Products(thin, rows, weight.Norm{}, weight.Product{Dst: p.Dst[part.lo*p.W.Rows : part.hi*p.W.Rows], W: d.b, Add: true})
	}
}
