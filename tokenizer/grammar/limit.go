package grammar

import (
	"errors"
	"fmt"
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
	Work    int // places and states of terminals that a single mask may have to work out, large places counted as several
	Bytes   int // memory of the places that one grammar keeps
}

// DefaultLimits are the limits of a zero Limits.
var DefaultLimits = Limits{Symbols: 500_000, Items: 20_000, States: 400_000, Work: 20_000, Bytes: 128 << 20}

func (l Limits) orDefault() Limits {
	d := DefaultLimits
	for _, f := range []struct {
		dst *int
		set int
	}{{&d.Symbols, l.Symbols}, {&d.Items, l.Items}, {&d.States, l.States}, {&d.Work, l.Work}, {&d.Bytes, l.Bytes}} {
		if f.set > 0 {
			*f.dst = f.set
		}
	}
	return d
}

func limitError(what string, limit int, wayOut string) error {
	return fmt.Errorf("%w: more than %d %s; %s", ErrLimit, limit, what, wayOut)
}
