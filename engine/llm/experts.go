package llm

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"weir/engine/kernel"
	"weir/engine/kernel/weight"
)

// expertsPlan is a feed-forward network of experts: a row passes through the use best of
// them by softmax(router x), and each counts by its share.
type expertsPlan struct {
	count int // 0: the network has no experts
	use   int
}

// moeWeights is the experts' weights.
type moeWeights struct {
	router  linear
	experts []expert
}

type expert struct{ up, down linear }

// mixing is the memory of rows that pass through experts, of a block.
type mixing struct {
	scores []float32 // [rows][experts]
	routes []route   // of all rows, by expert and row
	in     []float32 // [rows of an expert][width]
	out    []float32 // as above
	sum    []float32 // [rows][width]
}

// route says that a row passes through an expert, and by how much that counts.
type route struct {
	expert, row int
	share       float32
}

// mixture wants the experts' tensors, each matrix of which is a part of one for all.
func (l *loader) mixture(f *feedForward, at string, h *hparams) {
	n := f.experts.count
	l.linear(&f.mixture.router, at+"ffn_gate_inp", absent, n, h.width)
	up := l.find(at+"ffn_up_exps.weight", required, h.width, f.width, n)
	down := l.find(at+"ffn_down_exps.weight", required, f.width, h.width, n)
	if up == nil || down == nil {
		return // the error is noted
	}
	f.mixture.experts = make([]expert, n)
	for i := range f.mixture.experts {
		e := &f.mixture.experts[i]
		l.wants = append(l.wants,
			l.want(up, i*f.width, f.width, h.width, &e.up.w), l.want(down, i*h.width, h.width, f.width, &e.down.w))
	}
}

// matrices are those of the experts, with their names.
func (x *moeWeights) matrices(at string) []namedMatrix {
	list := []namedMatrix{{at + "ffn_gate_inp", x.router.w}}
	for i := range x.experts {
		list = append(list, namedMatrix{fmt.Sprintf("%sffn_up_exps[%d]", at, i), x.experts[i].up.w},
			namedMatrix{fmt.Sprintf("%sffn_down_exps[%d]", at, i), x.experts[i].down.w})
	}
	return list
}

func (m *mixing) reserve(rows, width, experts int) {
	grow(&m.scores, rows*experts)
	grow(&m.in, rows*width)
	grow(&m.out, rows*width)
	grow(&m.sum, rows*width)
}

// mix: x = after(x + the sum over a row's experts of share * down(act(up x))). A row's sum
// runs over its experts in their order, so that its bits do not depend on other rows.
func (m *model) mix(c *kernel.CPU, f *feedForward, b *batch, r block) {
	x, rows, p := r.of(b.x, m.width), r.rows(), &b.mixing
	p.reserve(b.mostBlock, m.width, len(f.mixture.experts))
	scores := p.scores[:rows*len(f.mixture.experts)]
	c.Products(x, rows, weight.Norm{}, f.mixture.router.into(scores, false))
	p.route(scores, rows, f.experts)
	sum := p.sum[:rows*m.width]
	clear(sum)
	for routes := p.routes; len(routes) > 0; {
		n := 1
		for n < len(routes) && routes[n].expert == routes[0].expert {
			n++
		}
		e := &f.mixture.experts[routes[0].expert]
		for i, t := range routes[:n] {
			copy(p.in[i*m.width:(i+1)*m.width], x[t.row*m.width:])
		}
		up := e.up.into(b.gate, false)
		up.Act = f.act
		m.products(c, p.in, n, weight.Norm{}, up)
		c.Products(b.gate, n, weight.Norm{}, e.down.into(p.out, false))
		for i, t := range routes[:n] {
			to := sum[t.row*m.width : (t.row+1)*m.width]
			for k, v := range p.out[i*m.width : (i+1)*m.width] {
				to[k] += t.share * v
			}
		}
		routes = routes[n:]
	}
	add(x, sum)
	c.Norm(x, x, f.norms.after, rows)
}

// route finds the experts of all rows, by expert and row.
func (m *mixing) route(scores []float32, rows int, e expertsPlan) {
	m.routes = m.routes[:0]
	for row := range rows {
		s := scores[row*e.count : (row+1)*e.count]
		from := len(m.routes)
		top, sum := float64(slices.Max(s)), 0.0
		for i, v := range s {
			w := math.Exp(float64(v) - top)
			sum += w
			m.routes = append(m.routes, route{expert: i, row: row, share: float32(w)})
		}
		all := m.routes[from:]
		slices.SortStableFunc(all, func(a, b route) int { return cmp.Compare(b.share, a.share) })
		m.routes = m.routes[:from+e.use]
		for i := range m.routes[from:] {
			m.routes[from+i].share /= float32(sum)
		}
	}
	slices.SortFunc(m.routes, func(a, b route) int { return cmp.Or(a.expert-b.expert, a.row-b.row) })
}
