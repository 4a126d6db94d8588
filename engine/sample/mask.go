package sample

import (
	"math"
	"slices"

	"weir/internal/inference"
)

// Masks set logits to minus infinity: those of tokens beside the allowed ones,
// of tokens that would complete a bad word, and of the end before min_tokens.
// Each depends on the choice's own output alone. Where they leave no token,
// an allowed token is sampled: allowed tokens override the other masks. With a
// constraint, see constrain.

var minusInf = float32(math.Inf(-1))

// mask applies all masks to a row.
func (s *Sampler) mask(logits []float32, w *Scratch) {
	if len(s.p.AllowedTokens) > 0 {
		w.allow(logits, s.p.AllowedTokens)
	}
	if s.sampled < s.p.MinTokens {
		for _, id := range s.p.End {
			logits[id] = minusInf
		}
	}
	for _, word := range s.p.BadWords {
		if last := len(word) - 1; s.tail.endsWith(word[:last]) {
			logits[word[last]] = minusInf
		}
	}
}

// allow masks all but some tokens.
func (w *Scratch) allow(logits []float32, allowed []inference.TokenID) {
	kept := w.kept[:0]
	for _, id := range allowed {
		kept = append(kept, logits[id])
	}
	w.kept = kept
	for i := range logits {
		logits[i] = minusInf
	}
	for i, id := range allowed {
		logits[id] = kept[i]
	}
}

// highest is the lowest id with the logit top, which is the row's highest.
func (s *Sampler) highest(logits []float32, top float32, w *Scratch) inference.TokenID {
	switch {
	case top != minusInf:
	case s.constraint != nil:
		return least(w.legal)
	case len(s.p.AllowedTokens) > 0:
		return s.p.AllowedTokens[0]
	}
	return w.first(logits, top)
}

// tail is the end of an output: one token less than the longest bad word has.
// Its capacity never changes.
type tail []inference.TokenID

// newTail has room for what bad words need.
func newTail(words [][]inference.TokenID) tail {
	longest := 1
	for _, word := range words {
		longest = max(longest, len(word))
	}
	if longest == 1 {
		return nil
	}
	return make(tail, 0, longest-1)
}

func (t *tail) add(id inference.TokenID) {
	switch {
	case cap(*t) == 0:
	case len(*t) < cap(*t):
		*t = append(*t, id)
	default:
		copy(*t, (*t)[1:])
		(*t)[len(*t)-1] = id
	}
}

func (t tail) endsWith(part []inference.TokenID) bool {
	return len(part) <= len(t) && slices.Equal(t[len(t)-len(part):], part)
}
