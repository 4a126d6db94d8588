package sample

import (
	"cmp"
	"math"
	"slices"
)

// filter narrows the candidates by min_p, top_k, typical_p and top_p, in this order
// (vLLM takes min_p first too; typical_p stands where llama.cpp has it). Every
// filter keeps at least one candidate. Ties keep vocabulary order.
func (s *Sampler) filter(cand []candidate) []candidate {
	if s.p.MinP > 0 {
		cand = minP(cand, min(s.p.MinP, 1))
	}
	if k := s.p.TopK; k > 0 && k < len(cand) {
		best(cand, k)
		cand = cand[:k]
	}
	if s.p.TypicalP < 1 {
		cand = typicalP(cand, s.p.TypicalP)
	}
	if s.p.TopP < 1 {
		cand = topP(cand, s.p.TopP)
	}
	return cand
}

// better orders by weight, then by id, so that the order is total.
func better(a, b candidate) int {
	if c := cmp.Compare(b.weight, a.weight); c != 0 {
		return c
	}
	return cmp.Compare(a.id, b.id)
}

// minP keeps candidates at least p times as likely as the likeliest, whose
// weight is 1.
func minP(cand []candidate, p float32) []candidate {
	kept := cand[:0]
	for _, c := range cand {
		if c.weight >= p {
			kept = append(kept, c)
		}
	}
	return kept
}

// topP keeps the smallest set of likeliest candidates whose share reaches p
// (Holtzman et al. 2020). It sorts in growing prefixes: the set is most often
// small beside the vocabulary.
func topP(cand []candidate, p float32) []candidate {
	total := 0.0
	for _, c := range cand {
		total += float64(c.weight)
	}
	goal, sum, done := total*float64(p), 0.0, 0
	for n := 64; ; n *= 8 {
		n = min(n, len(cand))
		best(cand[done:], n-done)
		for ; done < n; done++ {
			if sum += float64(cand[done].weight); sum >= goal {
				return cand[:done+1]
			}
		}
		if n == len(cand) {
			return cand
		}
	}
}

// typicalP keeps the candidates whose surprise is nearest to the entropy until
// their share reaches p (Meister et al. 2022).
func typicalP(cand []candidate, p float32) []candidate {
	total := 0.0
	for _, c := range cand {
		total += float64(c.weight)
	}
	entropy := 0.0
	for _, c := range cand {
		q := float64(c.weight) / total
		entropy -= q * math.Log(q)
	}
	odd := func(c candidate) float64 { return math.Abs(-math.Log(float64(c.weight)/total) - entropy) }
	slices.SortFunc(cand, func(a, b candidate) int {
		if c := cmp.Compare(odd(a), odd(b)); c != 0 {
			return c
		}
		return cmp.Compare(a.id, b.id)
	})
	sum := 0.0
	for i, c := range cand {
		if sum += float64(c.weight) / total; sum >= float64(p) {
			return cand[:i+1]
		}
	}
	return cand
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
