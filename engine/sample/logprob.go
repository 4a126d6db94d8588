package sample

import (
	"math"

	"weir/engine/kernel/vector"
	"weir/internal/inference"
)

// Logprob is the natural logarithm of id's probability under raw logits
// (temperature 1), and the n likeliest tokens, best first, of equals the lower
// id first; nil for n = 0. It is exact to 1e-5.
func (w *Scratch) Logprob(logits []float32, id inference.TokenID, n int) (float32, []inference.TokenLogprob) {
	norm := w.LogNorm(logits)
	lp := float32(float64(logits[id]) - norm)
	if n <= 0 {
		return lp, nil
	}
	cand := w.likeliest(logits, n)
	list := make([]inference.TokenLogprob, len(cand))
	for i, c := range cand {
		list[i] = inference.TokenLogprob{ID: c.id, Logprob: float32(c.rank - norm)}
	}
	return lp, list
}

// LogprobsOf is Logprob with alternatives that are named: the token itself, then the others.
func (w *Scratch) LogprobsOf(logits []float32, id inference.TokenID, named []inference.TokenID) (float32, []inference.TokenLogprob) {
	norm := w.LogNorm(logits)
	list := make([]inference.TokenLogprob, 0, len(named)+1)
	for i := -1; i < len(named); i++ {
		of := id
		if i >= 0 {
			of = named[i]
		}
		if i < 0 || of != id {
			list = append(list, inference.TokenLogprob{ID: of, Logprob: float32(float64(logits[of]) - norm)})
		}
	}
	return list[0].Logprob, list
}

// LogNorm is the natural logarithm of what the probabilities of raw logits add up to before they are divided by it: a token's
// log-probability is its logit minus that.
func (w *Scratch) LogNorm(logits []float32) float64 {
	top := w.top(logits)
	vector.BlockExpSums(w.Level, w.sums, logits, top, 1)
	return float64(top) + math.Log(w.total())
}

// Rank is how likely a token is among all: 1 and the number of those that are likelier.
func Rank(logits []float32, id inference.TokenID) int32 {
	rank := int32(1)
	for _, l := range logits {
		if l > logits[id] {
			rank++
		}
	}
	return rank
}

// likeliest lists the n tokens with the highest logits, in memory of w: as
// many blocks have one as high as the n-th of their maxima, so no lower token
// need be looked at, nor more than n that are equal to it.
func (w *Scratch) likeliest(logits []float32, n int) []candidate {
	from := float32(math.Inf(-1))
	if n <= len(w.maxima) {
		from = w.highest(n)
	}
	cand, equals := w.cand[:0], 0
	for _, id := range w.find(logits, from, float32(math.Inf(1))) {
		if logits[id] == from {
			if equals++; equals > n {
				continue
			}
		}
		cand = append(cand, candidate{id: id, rank: float64(logits[id])})
	}
	w.cand = cand
	n = min(n, len(cand))
	best(cand, n)
	return cand[:n]
}
