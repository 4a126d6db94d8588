package sample

import (
	"cmp"
	"math"
	"slices"

	"weir/internal/inference"
)

// Logprob is the natural logarithm of id's probability under raw logits
// (temperature 1), and the n likeliest tokens, best first; nil for n = 0.
func Logprob(logits []float32, id inference.TokenID, n int) (float32, []inference.TokenLogprob) {
	norm := logSumExp(logits)
	var top []inference.TokenLogprob
	for i, l := range logits {
		if n <= 0 || math.IsNaN(float64(l)) || len(top) == n && l <= top[n-1].Logprob {
			continue
		}
		at, _ := slices.BinarySearchFunc(top, l, func(t inference.TokenLogprob, l float32) int {
			if t.Logprob >= l {
				return -1 // equals keep vocabulary order
			}
			return cmp.Compare(l, t.Logprob)
		})
		if len(top) == n {
			top = top[:n-1]
		}
		top = slices.Insert(top, at, inference.TokenLogprob{ID: inference.TokenID(i), Logprob: l})
	}
	for i := range top {
		top[i].Logprob = float32(float64(top[i].Logprob) - norm)
	}
	return float32(float64(logits[id]) - norm), top
}

func logSumExp(logits []float32) float64 {
	top := float64(logits[argmax(logits)])
	sum := 0.0
	for _, l := range logits {
		if e := math.Exp(float64(l) - top); e == e {
			sum += e
		}
	}
	return top + math.Log(sum)
}

// Finite reports whether the highest logit is a number to sample by.
func Finite(logits []float32) bool {
	top := float64(logits[argmax(logits)])
	return !math.IsNaN(top) && !math.IsInf(top, 0)
}
