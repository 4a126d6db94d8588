// Package sample turns logits into tokens: biases, penalties, masks,
// temperature, filters, one uniform draw per token from the request's own
// generator. A Sampler depends on nothing but its parameters and the tokens it has seen,
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
	MinTokens int                 // End tokens are masked until so many tokens were sampled
	End       []inference.TokenID // tokens that end the choice
	Ignored   []inference.TokenID // tokens that end it only where the constraint allows nothing else

	Constraint inference.Constraint // of this choice alone; nil is none
}

// Sampler holds one choice's state. It belongs to the step loop; its methods
// are not safe for concurrent use.
type Sampler struct {
	p       Params
	rng     rand.PCG
	seen    counts // prompt and output, for the repetition penalty
	output  counts // output only, for presence and frequency
	tail    tail   // of the output, for bad words
	sampled int

	constraint inference.Constraint // nil is none
	late       lateMask
}

// New returns a sampler for a choice that continues prompt.
func New(p Params, prompt []inference.TokenID) *Sampler {
	s := &Sampler{p: p, tail: newTail(p.BadWords), constraint: p.Constraint}
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
// the vocabulary. NaN counts as minus infinity. The token depends on the
// logits, the sampler and w's level alone; between levels, probabilities
// differ in the last bits. An error is the constraint's, and ends the choice; but a
// work.ErrLate says that w.Meter has no time for its mask: nothing was sampled then, and
// once Prepare is done the same row gives the token.
func (s *Sampler) Sample(logits []float32, w *Scratch) (inference.TokenID, error) {
	if s.late.kept {
		s.late.kept = false
		return s.late.token, nil
	}
	s.adjust(logits)
	if s.constraint == nil {
		s.mask(logits, w)
	} else if err := s.constrain(logits, w); err != nil {
		return 0, err
	}
	var id inference.TokenID
	switch top := w.top(logits); {
	case s.p.Temperature <= 0:
		id = s.highest(logits, top, w)
	case math.IsInf(float64(top), 0):
		s.uniform() // one draw per token, whatever it is used for
		id = s.highest(logits, top, w)
	default:
		id = s.draw(logits, top, w, s.uniform())
	}
	s.accept(id)
	if s.constraint != nil {
		return id, s.take(id, &w.Meter)
	}
	return id, nil
}

// uniform draws a number in [0,1).
func (s *Sampler) uniform() float64 { return float64(s.rng.Uint64()>>11) / (1 << 53) }

// Sampled is how many tokens were picked.
func (s *Sampler) Sampled() int { return s.sampled }

func (s *Sampler) accept(id inference.TokenID) {
	s.sampled++
	s.tail.add(id)
	if s.p.RepetitionPenalty != 1 {
		s.seen.add(id)
	}
	if s.p.PresencePenalty != 0 || s.p.FrequencyPenalty != 0 {
		s.output.add(id)
	}
}

// adjust applies, in this order, logit_bias, the repetition penalty (Keskar et
// al. 2019, as Hugging Face applies it: positive logits are divided, negative ones
// multiplied) and OpenAI's presence and frequency penalties.
func (s *Sampler) adjust(logits []float32) {
	for _, b := range s.p.LogitBias {
		if int(b.ID) < len(logits) {
			logits[b.ID] += b.Bias
		}
	}
	for _, c := range s.seen.list {
		id := c.id
		if l := logits[id]; l > 0 {
			logits[id] = l / s.p.RepetitionPenalty
		} else {
			logits[id] = l * s.p.RepetitionPenalty
		}
	}
	for _, c := range s.output.list {
		logits[c.id] -= s.p.PresencePenalty + s.p.FrequencyPenalty*float32(c.n)
	}
}
