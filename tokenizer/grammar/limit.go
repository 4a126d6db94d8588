package grammar

import (
	"errors"
	"fmt"

	"weir/internal/work"
)

// Errors that callers tell apart.
var (
	// ErrLimit is wrapped by errors of grammars and answers that exceed a limit.
	ErrLimit = errors.New("the grammar is too large")
	// ErrNoText is the error of a grammar that no text fits.
	ErrNoText = errors.New("no text fits the grammar")
	// ErrNoToken is wrapped by errors of matchers whose vocabulary lacks a control token of the grammar.
	ErrNoToken = errors.New("the vocabulary lacks a control token of the grammar")
	// ErrRefused is wrapped by errors of Accept for a token that may not come next.
	ErrRefused = errors.New("the token does not fit the grammar")
)

// Limits bound what a grammar may take; a zero field is its default.
type Limits struct {
	Symbols int // symbols in all alternatives of all rules
	Items   int // rules in progress at one place of an answer
	States  int // places of answers that one grammar keeps, shared by its matchers
	Work    int // units of work.Meter that a single mask may take; a unit is some ten nanoseconds
	Answer  int // units that all masks of one request may take, with a tenth of Work more for each of its tokens
	Bytes   int // memory of one grammar with what its answers have worked out; once they have filled a quarter, later answers begin with none of it

	Meter   *work.Meter   // counts what compiling takes, and may end it; nil: it is not called
	Account *work.Account // that of the grammar is below it; nil: none
}

// DefaultLimits are the limits of a zero Limits.
var DefaultLimits = Limits{Symbols: 500_000, Items: 20_000, States: 400_000, Work: 10_000_000, Answer: 100_000_000, Bytes: 64 << 20}

func (l Limits) orDefault() Limits {
	d := DefaultLimits
	for _, f := range []struct {
		dst *int
		set int
	}{{&d.Symbols, l.Symbols}, {&d.Items, l.Items}, {&d.States, l.States}, {&d.Work, l.Work}, {&d.Answer, l.Answer}, {&d.Bytes, l.Bytes}} {
		if f.set > 0 {
			*f.dst = f.set
		}
	}
	d.Meter, d.Account = l.Meter, l.Account
	return d
}

func limitError(what string, limit int, wayOut string) error {
	return fmt.Errorf("%w: more than %d %s; %s", ErrLimit, limit, what, wayOut)
}
