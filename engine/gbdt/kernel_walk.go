package gbdt

import "math"

// walker follows the nodes of each tree one by one. It knows every rule and is the reference of the other kernels.
type walker[X, S float] struct {
	*Ensemble
	thresholds []X
	values     []S
	base       []S // nil: zeros
}

func newWalker[X, S float](e *Ensemble) *walker[X, S] {
	w := &walker[X, S]{Ensemble: e, thresholds: make([]X, len(e.Threshold)), values: make([]S, len(e.Values))}
	convert(w.thresholds, e.Threshold)
	convert(w.values, e.Values)
	if e.Base != nil {
		w.base = make([]S, len(e.Base))
		convert(w.base, e.Base)
	}
	return w
}

func (w *walker[X, S]) name() string { return "walk" }

func (w *walker[X, S]) margins(rows []X, out []S) {
	for len(rows) > 0 {
		w.row(rows[:w.Features], out[:w.Outputs])
		rows, out = rows[w.Features:], out[w.Outputs:]
	}
}

// row computes one row's margins.
func (w *walker[X, S]) row(x []X, out []S) {
	w.begin(out)
	for t := range w.Trees {
		leaf := w.leaf(t, x)
		if w.Width == 1 {
			w.combine(&out[w.Trees[t].Output], w.value(leaf, x))
			continue
		}
		for j, v := range w.values[leaf*w.Width : (leaf+1)*w.Width] {
			w.combine(&out[j], v)
		}
	}
	w.finish(out)
}

// begin sets margins to what the first tree's values are combined with.
func (w *walker[X, S]) begin(out []S) {
	start := S(0)
	switch w.Aggregate {
	case Min:
		start = S(math.Inf(1))
	case Max:
		start = S(math.Inf(-1))
	case Sum:
		if w.base != nil && !w.BaseLast {
			copy(out, w.base)
			return
		}
	}
	for j := range out {
		out[j] = start
	}
}

func (w *walker[X, S]) combine(margin *S, v S) {
	switch w.Aggregate {
	case Min:
		*margin = min(*margin, v)
	case Max:
		*margin = max(*margin, v)
	case Sum:
		*margin += v
	}
}

// finish does what follows the last tree.
func (w *walker[X, S]) finish(out []S) {
	for j, v := range out {
		if w.Divisor != 0 {
			v /= S(w.Divisor)
		}
		if w.Scale != 0 {
			v = S(v * S(w.Scale)) //nolint:unconvert // rounds the product, which the sum below could be fused with
		}
		if w.base != nil && w.BaseLast {
			v += w.base[j]
		}
		out[j] = v
	}
}

// leaf gives the leaf that tree t leads row x to.
func (w *walker[X, S]) leaf(t int, x []X) int {
	n, hi := w.nodes(t)
	if n == hi {
		return int(w.Trees[t].Leaf)
	}
	for n >= 0 {
		if w.goesLeft(n, x[w.Feature[n]]) {
			n = w.Left[n]
		} else {
			n = w.Right[n]
		}
	}
	return int(^n)
}

func (w *walker[X, S]) goesLeft(n int32, x X) bool {
	rule, threshold := w.Rules[n], w.thresholds[n]
	switch {
	case x != x, rule&ZeroMissing != 0 && math.Abs(float64(x)) <= zeroThreshold:
		return rule&MissingLeft != 0
	case rule&Member != 0:
		return w.Rounding.member(w.Sets[int(threshold)], float64(x))
	case rule&Equal != 0:
		return x == threshold
	case w.Less:
		return x < threshold
	}
	return x <= threshold
}

// member says whether the category of x is in the set.
func (r Rounding) member(set []uint32, x float64) bool {
	if x <= -1 || x >= float64(32*len(set)) || (r == NonNegative && x < 0) {
		return false
	}
	category := int(x) // towards 0
	if r == Whole && float64(category) != x {
		return false
	}
	return set[category/32]>>(category%32)&1 != 0
}

// value gives the value of a leaf for row x.
func (w *walker[X, S]) value(leaf int, x []X) S {
	l := w.Linear
	if l == nil {
		return w.values[leaf]
	}
	sum := S(l.Const[leaf])
	for j := l.Start[leaf]; j < l.Start[leaf+1]; j++ {
		v := S(x[l.Feature[j]])
		if v != v {
			return w.values[leaf]
		}
		if math.Abs(float64(v)) <= zeroThreshold {
			v = 0
		}
		sum += S(S(l.Coefficient[j]) * v) //nolint:unconvert // rounds the product before it is added
	}
	return sum
}
