package schema

import (
	"errors"

	"weir/internal/work"
	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/regex"
)

// stepWork is about what a step of merging takes, in units of work.Meter.
const stepWork = 50

// tooMuch is the error of a schema that takes more than the builder's meter lets it. Another end of the work is told as it is.
func (c *compiler) tooMuch(err error) error {
	if errors.Is(err, work.ErrSpent) {
		return &Error{cause: grammar.ErrLimit, Reason: "the schema takes more work to compile than there is for it; make it smaller or its patterns simpler"}
	}
	return err
}

// freshWork is how many times as long a unit takes where two branches of a oneOf are held against each other: there are many such questions, each with
// an automaton of its own, most of whose time goes into making room.
const freshWork = 3

// nothing reports whether no text matches an expression.
func (c *compiler) nothing(r *regex.Regex) (bool, error) {
	from := c.meter.Spent()
	nothing, err := r.IsNothingUnder(c.meter, c.room)
	if err == nil && c.loose {
		err = c.meter.Spend((freshWork - 1) * int(c.meter.Spent()-from))
	}
	if err != nil && c.meter.Err() != nil {
		err = c.tooMuch(c.meter.Err())
	}
	return nothing, err
}

// matches reports whether an expression matches a text.
func (c *compiler) matches(r *regex.Regex, text string) (bool, error) {
	ok, err := r.MatchesUnder(c.meter, c.room, []byte(text))
	if err != nil && c.meter.Err() != nil {
		err = c.tooMuch(c.meter.Err())
	}
	return ok, err
}
