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

// nothing reports whether no text matches an expression.
func (c *compiler) nothing(r *regex.Regex) (bool, error) {
	nothing, err := r.IsNothingUnder(c.meter, c.room)
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
