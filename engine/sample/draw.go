package sample

import (
	"math"

	"weir/engine/kernel/vector"
	"weir/internal/inference"
)

// draw picks a token by u, uniform in [0,1): the first, by id, at which the
// weights in the running reach u of their total. It overwrites logits, whose
// highest is top, a finite number.
func (s *Sampler) draw(logits []float32, top float32, w *Scratch, u float64) inference.TokenID {
	t, filtered := s.p.Temperature, s.filters()
	if filtered {
		vector.BlockWeights(w.Level, w.sums, logits, top, t)
		s.filter(logits, w, top)
	} else {
		w.least = math.SmallestNonzeroFloat32
		vector.BlockExpSums(w.Level, w.sums, logits, top, t)
	}
	b, point := w.pick(u)
	if b < 0 {
		return w.first(logits, top) // NaN for a temperature: any token will do
	}
	part := block(logits, b)
	if !filtered {
		vector.BlockWeights(w.Level, w.sums[b:], part, top, t)
	}
	last := 0
	for i, weight := range part {
		if weight < w.least {
			continue
		}
		last = i
		if point -= float64(weight); point < 0 {
			break
		}
	}
	return inference.TokenID(b*vector.ReduceBlock + last)
}

// pick finds the block in which the running sum of weights reaches u of the
// total, and how much of that falls into the block. Where by rounding no
// block reaches u, the last block that has a weight is picked, with an infinite
// point. Block -1 means that no token has a weight.
func (w *Scratch) pick(u float64) (b int, point float64) {
	point, last := u*w.total(), -1
	for i, s := range w.sums {
		if !(s > 0) {
			continue
		}
		last = i
		if point < s {
			return i, point
		}
		point -= s
	}
	return last, math.Inf(1)
}
