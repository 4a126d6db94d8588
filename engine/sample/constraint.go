package sample

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"weir/internal/inference"
	"weir/internal/work"
)

// constrain masks every token that may not come next by the sampler's constraint, and
// leaves in w.legal what may. End tokens may come where the constraint says that the
// answer may end, but before min_tokens, and ignored ones always, only where nothing
// else may follow. Allowed tokens and bad words narrow what is left, unless they leave
// nothing: the constraint wins. The result is the same for every way to sample.
func (s *Sampler) constrain(logits []float32, w *Scratch) error {
	w.legal = room(w.legal, len(logits))
	end, err := s.legalNow(w.legal, &w.Meter)
	if err != nil {
		return err
	}
	if beyond := len(logits) % 64; beyond > 0 {
		w.legal[len(w.legal)-1] &= 1<<beyond - 1
	}
	for _, list := range [...][]inference.TokenID{s.p.End, s.p.Ignored} {
		for _, id := range list {
			unset(w.legal, id)
		}
	}
	complete := empty(w.legal)
	switch {
	case complete && !end:
		return fmt.Errorf("%w after %d tokens: nothing may follow, and the answer may not end; "+
			"a stop token that the grammar needs as text would do that", inference.ErrConstraint, s.sampled)
	case complete:
		setAll(w.legal, s.p.End)
		setAll(w.legal, s.p.Ignored)
	case end && s.sampled >= s.p.MinTokens:
		setAll(w.legal, s.p.End)
	}
	s.narrow(w)
	apply(logits, w.legal)
	return nil
}

// narrow takes what the other masks forbid from w.legal, if that leaves anything.
func (s *Sampler) narrow(w *Scratch) {
	if len(s.p.AllowedTokens) == 0 && len(s.p.BadWords) == 0 {
		return
	}
	w.wished = room(w.wished, 64*len(w.legal))
	if len(s.p.AllowedTokens) == 0 {
		copy(w.wished, w.legal)
	} else {
		clear(w.wished)
		for _, id := range s.p.AllowedTokens {
			if isSet(w.legal, id) {
				set(w.wished, id)
			}
		}
	}
	for _, word := range s.p.BadWords {
		if last := len(word) - 1; s.tail.endsWith(word[:last]) {
			unset(w.wished, word[last])
		}
	}
	if !empty(w.wished) {
		w.legal, w.wished = w.wished, w.legal
	}
}

// take tells the constraint of a token that was sampled, unless the token is the end.
// Where there is no time for that, it is done before the next mask.
func (s *Sampler) take(id inference.TokenID, m *work.Meter) error {
	if s.ends(id) {
		return nil
	}
	s.late.owes, s.late.owed = true, id
	if err := s.settle(m); err != nil && !errors.Is(err, work.ErrLate) {
		return err
	}
	return nil
}

func (s *Sampler) ends(id inference.TokenID) bool {
	return slices.Contains(s.p.End, id) || slices.Contains(s.p.Ignored, id)
}

// Legal is how many leading tokens of a guess the constraint allows one after the
// other, as far as m has time to find out; without a constraint, all.
func (s *Sampler) Legal(guess []inference.TokenID, m *work.Meter) int {
	if s.constraint == nil {
		return len(guess)
	}
	if s.settle(m) != nil {
		return 0
	}
	n := 0
	for ; n < len(guess); n++ {
		if id := guess[n]; s.ends(id) || !s.constraint.Allows(id) || s.constraint.Accept(id) != nil {
			break
		}
	}
	s.constraint.Rollback(n)
	return n
}

// Forced appends the tokens that the constraint says must come next, none where m has no
// time to find out.
func (s *Sampler) Forced(dst []inference.TokenID, m *work.Meter) []inference.TokenID {
	if s.constraint == nil || s.settle(m) != nil {
		return dst
	}
	return s.constraint.Forced(dst)
}

// room makes a set of n bits of memory that it may reuse. What it holds is undefined.
func room(words []uint64, n int) []uint64 {
	n = (n + 63) / 64
	if cap(words) < n {
		return make([]uint64, n)
	}
	return words[:n]
}

func set(words []uint64, id inference.TokenID)        { words[id/64] |= 1 << (id % 64) }
func unset(words []uint64, id inference.TokenID)      { words[id/64] &^= 1 << (id % 64) }
func isSet(words []uint64, id inference.TokenID) bool { return words[id/64]>>(id%64)&1 != 0 }

func setAll(words []uint64, ids []inference.TokenID) {
	for _, id := range ids {
		set(words, id)
	}
}

func empty(words []uint64) bool {
	for _, word := range words {
		if word != 0 {
			return false
		}
	}
	return true
}

// least is the lowest id of a set that is not empty.
func least(words []uint64) inference.TokenID {
	for i, word := range words {
		if word != 0 {
			return inference.TokenID(64*i + bits.TrailingZeros64(word))
		}
	}
	return 0
}

// forbidden are the logits of 64 tokens that may not come.
var forbidden = func() (row [64]float32) {
	for i := range row {
		row[i] = minusInf
	}
	return row
}()

// apply sets the logits of all tokens that are not in a set to minus infinity: one by
// one where they are few of 64, else all 64 at once, and the others are put back.
func apply(logits []float32, legal []uint64) {
	for i, word := range legal {
		part := logits[64*i : min(64*i+64, len(logits))]
		if bits.OnesCount64(word) > 32 {
			for not := ^word & (1<<len(part) - 1); not != 0; not &= not - 1 {
				part[bits.TrailingZeros64(not)] = minusInf
			}
			continue
		}
		var kept [32]float32
		n := 0
		for rest := word; rest != 0; rest &= rest - 1 {
			kept[n&31] = part[bits.TrailingZeros64(rest)]
			n++
		}
		copy(part, forbidden[:])
		n = 0
		for rest := word; rest != 0; rest &= rest - 1 {
			part[bits.TrailingZeros64(rest)] = kept[n&31]
			n++
		}
	}
}
