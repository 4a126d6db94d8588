package weight

import (
	"weir/engine/kernel/pool"
	"weir/engine/kernel/vector"
)

// Linear is a matrix and its bias, nil where it has none.
type Linear struct {
	W    *Matrix
	Bias []float32 // [W.Rows]
}

// Expert is a network: Down(act(Gate x) * Up x), or without a gate Down(act(Up x)).
type Expert struct{ Gate, Up, Down Linear }

// Mixture is what computes a mixture of experts, whose matrices of one place are of one shape, and those of gates and ups alike.
type Mixture struct {
	Experts []Expert
	Act     vector.Activation // of gates; without gates Identity, GELU or SquaredReLU
	Clamp   vector.Clamp      // instead of Act, in networks with a gate
	Fine    bool              // of gates and ups, see Product
}

// Mix adds to each row of dst, [rows][Down.W.Rows], what its experts make of norm(x), [rows][Cols], times their shares; dst may be x.
// Each expert's matrices are read once for all rows that meet it: in one round of the pool gates, ups and activations of all experts, in
// a second one what comes down. Rows are rounded once for all their experts. A row's sum runs over its experts in their order, and
// its bits depend on no other row.
func (u *Multiplier) Mix(dst, x []float32, rows int, norm Norm, m *Mixture, r *Routes) {
	if rows == 0 || r.Use == 0 {
		return
	}
	j, in := &u.mixture, &u.input.input
	j.owner, j.Mixture, j.dst = u, m, dst
	j.visits.order(u.level, r, rows, len(m.Experts))
	first := &m.Experts[0]
	j.width = first.Up.W.Rows
	if n := rows * r.Use * j.width; len(j.inner) < n {
		j.inner = make([]float32, n+n/4)
	}

	in.begin(u.level, x, rows, first.Up.W.Cols, norm)
	in.spread(&j.visits, r.Use)
	in.fine = u.fine || m.Fine
	j.ask(in, func(e *Expert) *Matrix { return e.Gate.W })
	j.ask(in, func(e *Expert) *Matrix { return e.Up.W })
	u.bring()
	u.reserve(j.cutInner())
	j.pieces.run(u.member, &j.inward)

	in.begin(u.level, j.inner, rows*r.Use, j.width, Norm{})
	in.visited(&j.visits)
	in.fine = u.fine
	j.ask(in, func(e *Expert) *Matrix { return e.Down.W })
	u.bring()
	if rows*r.Use <= fewVisits {
		j.giveApart(rows * r.Use)
		return
	}
	u.reserve(j.cutOuter())
	u.member.Run(&j.outward, (first.Down.W.tiles()+j.group-1)/j.group, 1)
}

// mixtureJob is a mixture under way.
type mixtureJob struct {
	*Mixture
	owner  *Multiplier
	visits visits
	dst    []float32
	inner  []float32 // [visits][width]: what comes down
	width  int
	pieces pieces // of sections
	group  int    // tiles of an item of the second round

	given []float32 // [visits][tiles of a Down][tileLanes], where they are few: what experts give

	inward  inwardJob
	outward outwardJob
	giving  givingJob
}

// ask makes room for the panels of the experts that are met.
func (j *mixtureJob) ask(in *input, of func(e *Expert) *Matrix) {
	for _, e := range j.visits.experts {
		if m := of(&j.Experts[e]); m != nil {
			in.ask(m)
		}
	}
}

// cutInner makes the items of the first round: of about as much work each, as one worker keeps them in its cache, or, where no expert has
// more than a panel of rows, ranges of workers. It returns how many floats a worker needs.
func (j *mixtureJob) cutInner() (scratch int) {
	workers, rows := j.owner.member.Workers(), 0
	j.pieces.clear()
	for i := range j.visits.sections {
		rows = max(rows, j.rowsOf(&j.visits.sections[i]))
	}
	if j.once() {
		j.sweepInner(workers)
	} else {
		for i := range j.visits.sections {
			c, m := &j.visits.sections[i], j.Experts[j.visits.experts[i]].Up.W
			n := m.tiles()
			size := n
			if workers > 1 {
				size = max(1, n*len(j.visits.sections)/(8*workers))
			}
			size = min(max(size, pool.GrainMACs/(m.Cols*j.rowsOf(c)*tileLanes)), max(1, groupBytes*n/len(m.data)))
			j.pieces.even(i, n, c.together(size, n))
		}
	}
	return 2 * min(rows, mixedPanels*panelRows) * j.pieces.widest() * tileLanes
}

// once reports whether all experts' weights are read once, as no expert has more than a panel of rows.
func (j *mixtureJob) once() bool {
	for i := range j.visits.sections {
		if j.visits.sections[i].panels > 1 {
			return false
		}
	}
	return true
}

// sweepInner cuts the first round into ranges of workers.
func (j *mixtureJob) sweepInner(workers int) {
	most := pairBytes
	for i := range j.visits.sections {
		e := &j.Experts[j.visits.experts[i]]
		m := e.Up.W
		bytes := m.tileBytes()
		if e.Gate.W != nil {
			bytes += e.Gate.W.tileBytes()
		}
		j.pieces.strip(m.tiles(), bytes, pool.GrainMACs/(m.Cols*j.rowsOf(&j.visits.sections[i])*tileLanes))
	}
	if j.owner.input.fine {
		most = groupBytes // which is read twice
	}
	j.pieces.sweep(workers, most)
}

// rowsOf is how many rows a section has.
func (j *mixtureJob) rowsOf(c *section) int { return c.size*c.panels + c.extra }

// together rounds a number of tiles of n up to whole fours where they are multiplied together, which is where there are several panels.
func (c *section) together(size, n int) int {
	if c.panels > 1 {
		size = (size + 3) &^ 3
	}
	return min(size, n)
}

// cutOuter makes the items of the second round, tiles of all experts.
func (j *mixtureJob) cutOuter() (scratch int) {
	n, workers := j.Experts[0].Down.W.tiles(), j.owner.member.Workers()
	j.group = n
	if workers > 1 {
		j.group = max(1, n/(8*workers))
	}
	j.group = min(j.group, mostOuter)
	for i := range j.visits.sections {
		j.group = j.visits.sections[i].together(j.group, n)
	}
	return mixedPanels * panelRows * j.group * tileLanes
}

const (
	mixedPanels = 8  // panels whose results wait for the other ones'
	mostOuter   = 16 // tiles
	fewVisits   = 16 // whose results are added up behind the round, so that it reads an expert's matrix in one go
)

// inwardJob computes what comes down.
type inwardJob struct{ *mixtureJob }

func (j *inwardJob) Do(worker, item int) {
	it := j.pieces.list[item]
	in, e := &j.owner.input.input, &j.Experts[j.visits.experts[it.of]]
	c, lo, hi := &in.sections[it.of], int(it.lo), int(it.hi)
	stride := (hi - lo) * tileLanes
	scratch := j.owner.scratch[worker]
	half := len(scratch) / 2
	s := span{lo: lo, hi: hi}
	for n := 0; n < c.panels; n += s.panels {
		first := j.run(&s, c, n, &e.Up)
		j.tiles(&s, c, n, first, &e.Up, scratch[:half], stride)
		if e.Gate.W != nil {
			s.w, s.funcs = e.Gate.W, e.Gate.W.funcs(j.owner.level)
			j.tiles(&s, c, n, first, &e.Gate, scratch[half:], stride)
		}
		for r := range s.panels * s.rows {
			up := scratch[r*stride:][:min(stride, j.width-lo*tileLanes)]
			j.activate(j.inner[(first+r)*j.width+lo*tileLanes:][:len(up)], scratch[half+r*stride:], up, e.Gate.W != nil)
		}
	}
}

// activate computes a stretch of what comes down of a row.
func (j *mixtureJob) activate(dst, gate, up []float32, gated bool) {
	level := j.owner.level
	switch {
	case !gated:
		copy(dst, up)
		j.Act.Apply(level, dst)
	case j.Clamp != vector.Clamp{}:
		j.Clamp.Gate(level, dst, gate, up)
	default:
		j.Act.Gate(level, dst, gate, up)
	}
}

// run makes a span one of panel n and those behind it that fit into the scratch, and returns the first row.
func (j *mixtureJob) run(s *span, c *section, n int, l *Linear) (first int) {
	s.w, s.funcs = l.W, l.W.funcs(j.owner.level)
	first = c.choose(s, n)
	s.panels = min(s.panels, mixedPanels)
	return first
}

// tiles multiplies a span into dst, [rows][stride]; what is in lanes without a row of the matrix has no meaning.
func (j *mixtureJob) tiles(s *span, c *section, n, first int, l *Linear, dst []float32, stride int) {
	in, lo, hi := &j.owner.input.input, s.lo, s.hi
	s.stride, s.bias, s.dst = stride, l.Bias, dst
	full := hi
	if l.Bias != nil {
		full = min(hi, l.W.Rows/tileLanes)
	}
	if s.hi = full; lo < full {
		in.multiply(s, c, n, first)
	}
	if s.lo, s.hi = full, hi; full < hi { // a bias of fewer lanes than a tile has
		s.bias, s.dst = nil, dst[(full-lo)*tileLanes:]
		in.multiply(s, c, n, first)
		for r := range s.panels * s.rows {
			for i, b := range l.Bias[full*tileLanes:] {
				s.dst[r*stride+i] += b
			}
		}
	}
	s.lo, s.hi = lo, hi
}

// outwardJob adds what experts give to a stretch of all rows.
type outwardJob struct{ *mixtureJob }

func (j *outwardJob) Do(worker, item int) {
	in, v := &j.owner.input.input, &j.visits
	w := j.Experts[0].Down.W
	s := span{lo: item * j.group, hi: min((item+1)*j.group, w.tiles())}
	stride, at := (s.hi-s.lo)*tileLanes, s.lo*tileLanes
	width := min(stride, w.Rows-at)
	scratch := j.owner.scratch[worker]
	for i := range in.sections {
		c, down := &in.sections[i], &j.Experts[v.experts[i]].Down
		for n := 0; n < c.panels; n += s.panels {
			first := j.run(&s, c, n, down)
			j.tiles(&s, c, n, first, down, scratch, stride)
			for r := range s.panels * s.rows {
				to := j.dst[int(v.rows[first+r])*w.Rows+at:][:width]
				vector.AddScaled(j.owner.level, to, scratch[r*stride:], v.shares[first+r])
			}
		}
	}
}

// givingJob computes what each visit gives, by itself.
type givingJob struct{ *mixtureJob }

func (j *givingJob) Do(_, item int) {
	it := j.pieces.list[item]
	in, down := &j.owner.input.input, &j.Experts[j.visits.experts[it.of]].Down
	c, stride := &in.sections[it.of], down.W.tiles()*tileLanes
	s := span{lo: int(it.lo), hi: int(it.hi)}
	for n := 0; n < c.panels; n += s.panels {
		first := j.run(&s, c, n, down)
		j.tiles(&s, c, n, first, down, j.given[first*stride+s.lo*tileLanes:], stride)
	}
}

// giveApart is the second round of few visits: each expert's matrix is read from front to back, and what it gives is added to the rows
// afterwards, in the same order.
func (j *mixtureJob) giveApart(visits int) {
	w := j.Experts[0].Down.W
	stride := w.tiles() * tileLanes
	if n := visits * stride; len(j.given) < n {
		j.given = make([]float32, n)
	}
	j.pieces.clear()
	for i := range j.visits.sections {
		m := j.Experts[j.visits.experts[i]].Down.W
		j.pieces.strip(m.tiles(), m.tileBytes(), pool.GrainMACs/(m.Cols*j.rowsOf(&j.visits.sections[i])*tileLanes))
	}
	j.pieces.sweep(j.owner.member.Workers(), groupBytes)
	j.pieces.run(j.owner.member, &j.giving)
	for v, row := range j.visits.rows {
		vector.AddScaled(j.owner.level, j.dst[int(row)*w.Rows:][:w.Rows], j.given[v*stride:], j.visits.shares[v])
	}
}
