// Package sample turns logits into tokens: biases and penalties, temperature,
// filters, one uniform draw per token from the request's own generator. A
// Sampler depends on nothing but its parameters and the tokens it has seen,
// so the same seed gives the same text whatever else the engine runs.
package sample

import (
	"math"
	"math/rand/v2"

	"weir/internal/inference"
)

// Params are one choice's parameters.
type Params struct {
	inference.Sampling
	Choice    int                 // draws from seed Seed+Choice
	MinTokens int                 // End tokens are masked for so many tokens
	End       []inference.TokenID // tokens that end the choice
}

// Sampler holds one choice's state. It belongs to the step loop; its methods
// are not safe for concurrent use.
type Sampler struct {
	p       Params
	rng     rand.PCG
	seen    counts // prompt and output, for the repetition penalty
	output  counts // output only, for presence and frequency
	sampled int
}

// Scratch is working memory for one Sample at a time, shared by samplers. It
// grows to the vocabulary's size once.
type Scratch struct{ cand []candidate }

// candidate is a token still in the running, with its probability times an
// unknown constant.
type candidate struct {
	id     inference.TokenID
	weight float32
}

// New returns a sampler for a choice that continues prompt.
func New(p Params, prompt []inference.TokenID) *Sampler {
	s := &Sampler{p: p}
	seed := p.Seed + uint64(p.Choice)
	s.rng.Seed(seed, seed^0x9e3779b97f4a7c15)
	if p.RepetitionPenalty != 1 {
		for _, id := range prompt {
			s.seen.add(id)
		}
	}
	return s
}

// Sample picks the next token. It overwrites logits, one value per token of
// the vocabulary. NaN counts as minus infinity.
func (s *Sampler) Sample(logits []float32, w *Scratch) inference.TokenID {
	s.adjust(logits)
	var id inference.TokenID
	if s.p.Temperature <= 0 {
		id = argmax(logits)
	} else {
		id = s.draw(logits, w)
	}
	s.accept(id)
	return id
}

// Sampled is how many tokens were picked.
func (s *Sampler) Sampled() int { return s.sampled }

func (s *Sampler) accept(id inference.TokenID) {
	s.sampled++
	if s.p.RepetitionPenalty != 1 {
		s.seen.add(id)
	}
	if s.p.PresencePenalty != 0 || s.p.FrequencyPenalty != 0 {
		s.output.add(id)
	}
}

// adjust applies, in this order, logit_bias, min_tokens, the repetition
// penalty (Keskar et al. 2019, as Hugging Face applies it: divide what is
// positive, multiply what is negative) and OpenAI's presence and frequency
// penalties.
func (s *Sampler) adjust(logits []float32) {
	for _, b := range s.p.LogitBias {
		if int(b.ID) < len(logits) {
			logits[b.ID] += b.Bias
		}
	}
	if s.sampled < s.p.MinTokens {
		for _, id := range s.p.End {
			logits[id] = float32(math.Inf(-1))
		}
	}
	for id := range s.seen {
		if l := logits[id]; l > 0 {
			logits[id] = l / s.p.RepetitionPenalty
		} else {
			logits[id] = l * s.p.RepetitionPenalty
		}
	}
	for id, n := range s.output {
		logits[id] -= s.p.PresencePenalty + s.p.FrequencyPenalty*float32(n)
	}
}

// draw samples from the filtered distribution.
func (s *Sampler) draw(logits []float32, w *Scratch) inference.TokenID {
	cand := s.filter(w.gather(logits, s.p.Temperature))
	total := 0.0
	for _, c := range cand {
		total += float64(c.weight)
	}
	point := float64(s.rng.Uint64()>>11) / (1 << 53) * total
	for _, c := range cand {
		if point -= float64(c.weight); point < 0 {
			return c.id
		}
	}
	return cand[len(cand)-1].id // rounding left a crumb of the total
}

// gather lists every token that has a chance, in vocabulary order, its weight
// taken after temperature. The likeliest has weight 1.
func (w *Scratch) gather(logits []float32, temperature float32) []candidate {
	if cap(w.cand) < len(logits) {
		w.cand = make([]candidate, 0, len(logits))
	}
	cand := w.cand[:0]
	top := logits[argmax(logits)]
	if math.IsInf(float64(top), 0) || math.IsNaN(float64(top)) {
		return append(cand, candidate{id: argmax(logits), weight: 1})
	}
	for id, l := range logits {
		if p := float32(math.Exp(float64((l - top) / temperature))); p > 0 {
			cand = append(cand, candidate{inference.TokenID(id), p})
		}
	}
	return cand
}

// argmax is the lowest id with the highest logit; NaN never wins.
func argmax(logits []float32) inference.TokenID {
	best, top := 0, float32(math.Inf(-1))
	for i, l := range logits {
		if l > top {
			best, top = i, l
		}
	}
	return inference.TokenID(best)
}
