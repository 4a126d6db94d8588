package schema

import (
	"errors"
	"fmt"

	"weir/internal/work"
	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/regex"
)

// stepWork is about what a step of merging takes, in units of work.Meter.
const stepWork = 50

// spending is what compiling one document may take, and took.
type spending struct {
	limits Limits
	steps  int         // of merging
	meter  *work.Meter // counts them, too; nil is none
	room   int64       // bytes that an automaton may take
	fresh  bool        // each question has an automaton of its own, so that a unit takes freshWork times as long
}

// spend counts work, and fails where a schema asks for more than the limit.
func (s *spending) spend(steps int) error {
	if err := s.meter.Spend(stepWork * steps); err != nil {
		return tooMuch(err)
	}
	s.steps += steps
	if s.steps > s.limits.Work {
		return &Error{cause: grammar.ErrLimit, Reason: fmt.Sprintf("the schema needs more than %d steps to compile: its anyOf, oneOf, allOf and references combine into "+
			"too many cases; split it or drop some", s.limits.Work)}
	}
	return nil
}

// tooMuch is the error of a schema that takes more than the builder's meter lets it. Another end of the work is told as it is.
func tooMuch(err error) error {
	if errors.Is(err, work.ErrSpent) {
		return &Error{cause: grammar.ErrLimit, Reason: "the schema takes more work to compile than there is for it; make it smaller or its patterns simpler"}
	}
	return err
}

// freshWork is how many times as long a unit takes where two branches of a oneOf are held against each other: there are many such questions, each with
// an automaton of its own, most of whose time goes into making room.
const freshWork = 3

// nothing reports whether no text matches an expression.
func (s *spending) nothing(r *regex.Regex) (bool, error) {
	from := s.meter.Spent()
	nothing, err := r.IsNothingUnder(s.meter, s.room)
	if err == nil && s.fresh {
		err = s.meter.Spend((freshWork - 1) * int(s.meter.Spent()-from))
	}
	if err != nil && s.meter.Err() != nil {
		err = tooMuch(s.meter.Err())
	}
	return nothing, err
}

// matches reports whether an expression matches a text.
func (s *spending) matches(r *regex.Regex, text string) (bool, error) {
	ok, err := r.MatchesUnder(s.meter, s.room, []byte(text))
	if err != nil && s.meter.Err() != nil {
		err = tooMuch(s.meter.Err())
	}
	return ok, err
}
