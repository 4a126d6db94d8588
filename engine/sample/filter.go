package sample

import (
	"cmp"
	"math"
	"slices"

	"weir/engine/kernel/vector"
	"weir/internal/inference"
)

// filters reports whether any filter is on.
func (s *Sampler) filters() bool {
	return s.p.MinP > 0 || s.p.TopK > 0 || s.p.TypicalP < 1 || s.p.TopP < 1
}

// filter applies min_p, top_k, typical_p and top_p to the candidate tokens, in
// this order (vLLM also applies min_p first; typical_p is where llama.cpp has
// it). Every filter keeps at least one token. The better of two tokens has
// the higher weight, or at equal weights the lower id. x holds the weights; a
// filter sets the weight of a token to 0 where the threshold w.least alone would
// keep it. top is the highest logit, whose weight is 1.
func (s *Sampler) filter(x []float32, w *Scratch, top float32) {
	w.least, w.count = math.SmallestNonzeroFloat32, len(x)
	if s.p.MinP > 0 {
		w.least = max(w.least, min(s.p.MinP, 1))
		w.sum(x)
	}
	if k := s.p.TopK; k > 0 && k < w.count {
		w.keep(x, target{k, math.Inf(1)}, w.kth(k, top, s.p.Temperature))
		w.sum(x)
	}
	if s.p.TypicalP < 1 {
		w.typical(x, s.p.TypicalP)
		w.sum(x)
	}
	if s.p.TopP < 1 {
		// All below this weight together weigh too little to be needed.
		total := w.total()
		idle := total * (1 - float64(s.p.TopP)) / float64(w.count)
		w.keep(x, target{math.MaxInt, total * float64(s.p.TopP)}, float32(idle))
		w.sum(x)
	}
}

// sum computes w.sums and w.count for the threshold w.least.
func (w *Scratch) sum(x []float32) {
	w.count = vector.BlockSums(w.Level, w.sums, x, w.least).Count
}

// target says how many of the best tokens a filter keeps: up to the token with
// which they are count tokens, or with which their weights add up to mass (for top_p, the
// smallest set of likeliest tokens whose share reaches p, Holtzman et al. 2020).
type target struct {
	count int
	mass  float64
}

func (t target) reached(count int, mass float64) bool {
	return count > 0 && (count >= t.count || mass >= t.mass)
}

// window is how many tokens around a filter's threshold are compared one by one;
// with more the threshold is narrowed further first.
const window = 512

// keep filters the candidate tokens to a target. It searches, by bisection, the
// weight of the last token to keep: the tokens from weight lo up reach the target
// (or are all candidates), those above hi do not. The search begins at guess.
func (w *Scratch) keep(x []float32, goal target, guess float32) {
	lo, hi := w.least, float32(1)
	from, above, mass := w.count, 0, 0.0 // how many from lo up, at most; what is above hi
	for t := guess; from-above > window && lo < hi; t = between(lo, hi) {
		if !(t > lo && t <= hi) {
			t = between(lo, hi)
		}
		part := vector.BlockSums(w.Level, w.sums, x, t)
		if sum := w.total(); goal.reached(part.Count, sum) {
			lo, from = part.Lowest, part.Count
		} else {
			hi, above, mass = part.Below, part.Count, sum
		}
	}
	if lo <= hi {
		w.cut(x, goal, lo, hi, above, mass)
	}
}

// cut finds the last token to keep among those with weights in [lo,hi]; above
// tokens, whose weights add up to mass, are better than all of these. Worse tokens
// are dropped by raising w.least, those of equal weight by setting theirs to 0.
func (w *Scratch) cut(x []float32, goal target, lo, hi float32, above int, mass float64) {
	ids := w.find(x, lo, hi)
	if lo == hi { // many ties, in order
		for i := range ids {
			above++
			if mass += float64(lo); goal.reached(above, mass) {
				drop(x, ids[i+1:])
				break
			}
		}
		w.least = lo
		return
	}
	cand := w.cand[:0]
	for _, id := range ids {
		cand = append(cand, candidate{id, x[id], float64(x[id])})
	}
	w.cand = cand
	if last := boundary(cand, goal, above, mass); last < len(cand) {
		w.least = cand[last].weight
		for _, c := range cand[last+1:] {
			if c.weight == w.least {
				x[c.id] = 0
			}
		}
	}
}

// boundary moves the best candidates to the front, up to the one at which
// they reach the goal, and returns its index; len(cand) if they do not reach
// it. above tokens of weight mass are better than all of them. It is
// quickselect by weight: nothing is sorted.
func boundary(cand []candidate, goal target, above int, mass float64) int {
	lo, end := 0, len(cand)
	for hi := end; lo < hi; {
		p := lo + partition(cand[lo:hi])
		sum := 0.0
		for _, c := range cand[lo:p] {
			sum += float64(c.weight)
		}
		if goal.reached(above+p-lo, mass+sum) {
			hi, end = p, p-1
			continue
		}
		above, mass = above+p+1-lo, mass+sum+float64(cand[p].weight)
		if goal.reached(above, mass) {
			return p
		}
		lo = p + 1
	}
	return end
}

func drop(x []float32, ids []inference.TokenID) {
	for _, id := range ids {
		x[id] = 0
	}
}

// between returns the middle of the float32 values from lo to hi, by count of
// representable values, and always above lo. Both are above 0.
func between(lo, hi float32) float32 {
	a, b := math.Float32bits(lo), math.Float32bits(hi)
	return math.Float32frombits(a + (b-a+1)/2)
}

// kth is a lower bound of the k-th highest weight: the k-th highest of the
// blocks' maxima, 0 where there are fewer than k blocks.
func (w *Scratch) kth(k int, top, temperature float32) float32 {
	if k > len(w.maxima) {
		return 0
	}
	x, sum := [1]float32{w.highest(k)}, [1]float64{}
	vector.BlockWeights(w.Level, sum[:], x[:], top, temperature)
	return x[0]
}

// highest is the k-th highest of the blocks' maxima.
func (w *Scratch) highest(k int) float32 {
	copy(w.sorted, w.maxima)
	slices.Sort(w.sorted)
	return w.sorted[len(w.sorted)-k]
}

// typical filters the candidates to the tokens whose surprise is nearest to the
// entropy, until their share reaches p (Meister et al. 2022).
func (w *Scratch) typical(x []float32, p float32) {
	total, entropy := w.total(), 0.0
	cand := w.cand[:0]
	for _, id := range w.find(x, w.least, 1) {
		q := float64(x[id]) / total
		surprise := -math.Log(q)
		entropy += q * surprise
		cand = append(cand, candidate{id, x[id], surprise})
	}
	w.cand = cand
	for i := range cand {
		cand[i].rank = -math.Abs(cand[i].rank - entropy)
	}
	last := boundary(cand, target{math.MaxInt, total * float64(p)}, 0, 0)
	for i := last + 1; i < len(cand); i++ {
		x[cand[i].id] = 0
	}
}

// better orders by rank, then by id, so that the order is total.
func better(a, b candidate) int {
	if c := cmp.Compare(b.rank, a.rank); c != 0 {
		return c
	}
	return cmp.Compare(a.id, b.id)
}

// best moves the k best candidates, sorted, to the front: quickselect, then a
// sort of the front.
func best(cand []candidate, k int) {
	for lo, hi := 0, len(cand); hi-lo > 1; {
		p := lo + partition(cand[lo:hi])
		switch {
		case p < k-1:
			lo = p + 1
		case p > k:
			hi = p
		default:
			lo = hi
		}
	}
	slices.SortFunc(cand[:k], better)
}

// partition places one element, returning its final index: better ones stand
// before it, worse ones after.
func partition(c []candidate) int {
	last := len(c) - 1
	mid := last / 2
	if better(c[mid], c[0]) < 0 {
		c[mid], c[0] = c[0], c[mid]
	}
	if better(c[last], c[0]) < 0 {
		c[last], c[0] = c[0], c[last]
	}
	if better(c[mid], c[last]) < 0 {
		c[mid], c[last] = c[last], c[mid]
	}
	store := 0
	for i := range last {
		if better(c[i], c[last]) < 0 {
			c[i], c[store] = c[store], c[i]
			store++
		}
	}
	c[store], c[last] = c[last], c[store]
	return store
}
