package sample

import (
	"math"

	"weir/engine/kernel/isa"
	"weir/engine/kernel/vector"
	"weir/internal/inference"
	"weir/internal/work"
)

// Scratch is working memory for one row at a time, shared by samplers. It
// grows to the vocabulary's size once.
//
// Sampling never sorts the vocabulary. It makes weights of the logits in
// place, finds the lowest weight that the filters leave, and draws from the
// blocks' sums; each of these is a pass or a few over the row. Only tokens
// near a filter's threshold are compared one by one.
type Scratch struct {
	Level isa.Level  // of the passes; isa.Auto is the best that the machine has
	Meter work.Meter // of what constraints take; the zero value lets them take all that they want

	maxima []float32 // of the logits, by block
	sums   []float64 // of the candidates' weights, by block
	least  float32   // candidates are the tokens whose weight is at least this
	count  int       // candidates, at most
	ids    []int32
	cand   []candidate
	sorted []float32 // maxima in order
	kept   []float32 // logits of allowed tokens
	legal  []uint64  // tokens that a constraint allows, one bit per id
	wished []uint64  // of these, those that the other masks leave
}

// candidate is a token near a filter's threshold; a higher rank is better.
type candidate struct {
	id     inference.TokenID
	weight float32
	rank   float64
}

// top fits w to a row and finds its highest logit, passing over NaN; -Inf
// where there is nothing else.
func (w *Scratch) top(logits []float32) float32 {
	if w.Level == isa.Auto {
		w.Level = isa.Best()
	}
	if n := vector.ReduceBlocks(len(logits)); n > cap(w.maxima) {
		w.maxima, w.sorted, w.sums = make([]float32, n), make([]float32, n), make([]float64, n)
	} else {
		w.maxima, w.sorted, w.sums = w.maxima[:n], w.sorted[:n], w.sums[:n]
	}
	vector.BlockMaxima(w.Level, w.maxima, logits)
	top := float32(math.Inf(-1))
	for _, m := range w.maxima {
		top = max(top, m)
	}
	return top
}

// first is the lowest id with the logit top, which is the highest; 0 where
// that is -Inf.
func (w *Scratch) first(logits []float32, top float32) inference.TokenID {
	for b, m := range w.maxima {
		if m != top || math.IsInf(float64(m), -1) {
			continue
		}
		for i, l := range block(logits, b) {
			if l == top {
				return inference.TokenID(b*vector.ReduceBlock + i)
			}
		}
	}
	return 0
}

// find lists the tokens with lo <= x[i] <= hi by rising id, in memory of w.
func (w *Scratch) find(x []float32, lo, hi float32) []inference.TokenID {
	if n := vector.FindRoom(len(x)); len(w.ids) < n {
		w.ids = make([]int32, n)
	}
	return w.ids[:vector.Find(w.Level, w.ids, x, lo, hi)]
}

// total is the sum of the candidates' weights.
func (w *Scratch) total() float64 {
	sum := 0.0
	for _, s := range w.sums {
		sum += s
	}
	return sum
}

// Finite reports whether the highest logit is finite, so that a token can be
// sampled.
func (w *Scratch) Finite(logits []float32) bool {
	return !math.IsInf(float64(w.top(logits)), 0)
}

// block is block b of a row.
func block(x []float32, b int) []float32 {
	lo := b * vector.ReduceBlock
	return x[lo:min(lo+vector.ReduceBlock, len(x))]
}
