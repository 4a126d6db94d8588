package weight

import (
	"sync"

	"weir/engine/kernel/isa"
	"weir/engine/kernel/pool"
	"weir/engine/kernel/vector"
)

// input is a round's activations in the layouts that products need.
type input struct {
	x        []float32
	norm     Norm
	rows     int // of x
	cols     int
	sections []section // that their panels have
	picks    []pick    // [rows][use]: the places of a row in sections; nil: one each, in the only section
	use      int       // places of a row
	want     [kinds]bool

	output bool // see Product
	fine   bool

	sets  [2]panelSet  // of the rows; of what rounding takes from them, where products are fine
	locks []sync.Mutex // of each panel's large and masks
}

// section is a run of rows that is cut into panels of its own: all rows of a product, or those that one expert gets.
type section struct {
	panelSplit
	row   int // the first one, of those of all sections
	panel int // the first one, of those of all sections
}

// at returns the first row of panel n of the section, of those of all sections, and how many rows it has.
func (c *section) at(n int) (first, rows int) {
	first, rows = c.panelSplit.panel(n)
	return c.row + first, rows
}

// pick is the place of a row: which row of the panels of all sections it is.
type pick struct{ section, row int32 }

// begin takes rows of x, of so many columns, into one section, or into those that routes make.
func (i *input) begin(level isa.Level, x []float32, rows, cols int, norm Norm) {
	i.x, i.norm, i.rows, i.cols, i.picks, i.use = x, norm, rows, cols, nil, 1
	i.sections = append(i.sections[:0], section{panelSplit: cutRows(level, rows)})
	i.want, i.output = [kinds]bool{}, false
}

// pick is place n of a row.
func (i *input) pick(row, n int) pick {
	if i.picks == nil {
		return pick{row: int32(row)}
	}
	return i.picks[row*i.use+n]
}

// size is how many rows and panels all sections have.
func (i *input) size() (rows, panels int) {
	last := &i.sections[len(i.sections)-1]
	return i.use * i.rows, last.panel + last.panels
}

// panelSet are the panels of all rows.
type panelSet struct {
	panels [kinds][]float32 // dwords of several types
	large  [kinds][]uint32  // see panel.go
	masks  [kinds][]uint16
}

// setsOf are the sets that a product with a matrix of kind k has to multiply.
func (i *input) setsOf(k kind) []panelSet {
	if i.fine && k.rounds() {
		return i.sets[:]
	}
	return i.sets[:1]
}

// inputJob prepares one row.
type inputJob struct {
	owner *Multiplier
	input
}

func (j *inputJob) Do(worker, row int) {
	x := j.x[row*j.cols : (row+1)*j.cols]
	scratch := j.owner.scratch[worker]
	if j.norm.Weight != nil {
		j.norm.Apply(j.owner.level, scratch[:j.cols], x)
		x = scratch[:j.cols]
	}
	for k := range kinds {
		if j.want[k] {
			j.fill(k, row, x, scratch[j.cols:])
		}
	}
}

// fill writes x to its places in the panels of a kind. scratch holds at least three times len(x) floats.
func (j *inputJob) fill(k kind, row int, x, scratch []float32) {
	level, limit := j.owner.level, k.limit(j.output)
	for i := range j.setsOf(k) {
		place := j.place(&j.sets[i], k, j.pick(row, 0))
		rounded, marks, large := place.round(level, k, limit, x, scratch)
		place.fill(level, k, rounded, x, marks, large)
		for n := 1; n < j.use; n++ {
			j.place(&j.sets[i], k, j.pick(row, n)).fill(level, k, rounded, x, marks, large)
		}
		if i == 0 && j.fine && k.rounds() {
			rest := scratch[2*j.cols:][:j.cols]
			k.rest(rest, x, rounded, marks)
			x = rest
		}
	}
}

// place is that of a row in the panels of a set.
func (j *inputJob) place(s *panelSet, k kind, at pick) panelPlace {
	c := &j.sections[at.section]
	n := c.locate(int(at.row) - c.row)
	first, m := c.at(n)
	p := panelPlace{panel: s.panels[k][first*k.words(j.cols):], rows: m, row: int(at.row) - first}
	if k.rounds() {
		p.large, p.masks, p.lock = j.largeOf(s, k, first), j.masksOf(s, k, c.panel+n), &j.locks[c.panel+n]
	}
	return p
}

// panel returns panel p of a set, which begins with row first, in the layout that m needs.
func (i *input) panel(s *panelSet, m *Matrix, p, first int) panelView {
	k := m.format.kind
	v := panelView{codes: vector.Bytes(s.panels[k][first*k.words(m.Cols):])}
	if k.rounds() {
		v.large, v.masks = i.largeOf(s, k, first), i.masksOf(s, k, p)
	}
	return v
}

// largeOf are the pairs of large values of the panel that begins with row first.
func (i *input) largeOf(s *panelSet, k kind, first int) []uint32 {
	return s.large[k][first*i.cols/2:]
}

// masksOf are the masks of panel p and of those behind it.
func (i *input) masksOf(s *panelSet, k kind, p int) []uint16 {
	return s.masks[k][p*(i.cols/blockValues):]
}

// multiply multiplies a span, whose panels begin with panel n of a section and row first, by those of each set.
func (i *input) multiply(s *span, c *section, n, first int) {
	bias, add := s.bias, s.add
	sets := i.setsOf(s.w.format.kind)
	for k := range sets {
		s.panel = i.panel(&sets[k], s.w, c.panel+n, first)
		s.multiply()
		s.bias, s.add = nil, true
	}
	s.bias, s.add = bias, add
}

// ask makes room for the panels that m needs.
func (i *input) ask(m *Matrix) {
	k := m.format.kind
	if i.want[k] {
		return
	}
	i.want[k] = true
	rows, panels := i.size()
	sets := i.setsOf(k)
	for n := range sets {
		sets[n].reserve(k, rows, i.cols, panels)
	}
	if len(i.locks) < panels {
		i.locks = make([]sync.Mutex, panels+panels/4)
	}
}

// reserve makes room for panels of kind k without large values.
func (s *panelSet) reserve(k kind, rows, cols, panels int) {
	if n := rows * k.words(cols); len(s.panels[k]) < n {
		s.panels[k] = make([]float32, n+n/4)
	}
	if !k.rounds() {
		return
	}
	if n := rows * cols / 2; len(s.large[k]) < n {
		s.large[k] = make([]uint32, n+n/4)
	}
	n := panels * cols / blockValues
	if len(s.masks[k]) < n {
		s.masks[k] = make([]uint16, n+n/4)
	}
	clear(s.masks[k][:n])
}

// bring brings the rows into the layouts that were asked for.
func (u *Multiplier) bring() {
	j := &u.input
	j.owner = u
	u.reserve(max(4*j.cols, panelRows*tileLanes))
	if u.low.narrowed > 0 {
		u.low.narrow()
		return
	}
	u.member.Run(j, j.rows, pool.GrainMACs/(4*j.cols)+1)
}
