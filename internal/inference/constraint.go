package inference

import "weir/internal/work"

// Constraint says which tokens may come next in one choice: the state of a grammar.
// Its owner is the choice's sampler, and its methods are not called concurrently; forks
// of one constraint are used by several goroutines at once. The model's end tokens and
// the request's stop tokens are never passed to it: the sampler allows them where Mask
// says that the answer may end. Errors end the choice's request, and no other.
type Constraint interface {
	// Under says what counts the calls to come and may end them; nil is none. A call that
	// ends with work.ErrLate has changed nothing and is made again at another time.
	Under(m *work.Meter)
	// Mask sets the bit of every token that may come next and clears all others. dst has
	// one bit per id of the model's vocabulary, 64 per word, the lowest bit first. end
	// reports whether the answer may end here. No bit and no end is an error of the
	// constraint.
	Mask(dst []uint64) (end bool, err error)
	// Allows reports whether Mask would set a token's bit, for less work than Mask; false
	// where there is no time to find out.
	Allows(id TokenID) bool
	// Accept takes in a token that Mask allowed.
	Accept(id TokenID) error
	// Rollback takes back the last tokens that were accepted.
	Rollback(tokens int)
	// Fork is a copy that shares nothing that changes.
	Fork() Constraint
	// Forced appends the tokens that must come next, where only one canonical
	// tokenisation can; they may be proposed as drafts.
	Forced(dst []TokenID) []TokenID
}
