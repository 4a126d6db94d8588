package scheduler

import (
	"fmt"

	"weir/internal/inference"
)

// An error says what was due, and where the request was then.
var (
	errFirstTokenLate = fmt.Errorf("%w: the first token was due while the request waited", inference.ErrDeadline)
	errAnswerLate     = fmt.Errorf("%w: the answer was due while the request waited", inference.ErrDeadline)
	errPromptSlow     = fmt.Errorf("%w: the first token was due while the prompt was prefilled", inference.ErrDeadline)
	errAnswerSlow     = fmt.Errorf("%w: the answer was due before it ended", inference.ErrDeadline)
)

func passed(t, now int64) bool { return t != 0 && t <= now }

// late says which time has passed of a request that still waits, if one has.
func (r *Request) late(now int64) error {
	switch {
	case passed(r.FirstTokenBy, now):
		return errFirstTokenLate
	case passed(r.DoneBy, now):
		return errAnswerLate
	case passed(r.WaitUntil, now):
		return inference.ErrQueueTimeout
	}
	return nil
}

// slow says which deadline has passed of a request that has been admitted, if
// one has.
func (r *request) slow(now int64) error {
	switch {
	case !r.answered && passed(r.FirstTokenBy, now):
		return errPromptSlow
	case passed(r.DoneBy, now):
		return errAnswerSlow
	}
	return nil
}
