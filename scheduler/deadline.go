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

func isPast(t, now int64) bool { return t != 0 && t <= now }

// expiry says which time has passed of a request that still waits, if one has.
func (r *Request) expiry(now int64) error {
	switch {
	case isPast(r.FirstTokenBy, now):
		return errFirstTokenLate
	case isPast(r.DoneBy, now):
		return errAnswerLate
	case isPast(r.WaitUntil, now):
		return inference.ErrQueueTimeout
	}
	return nil
}

// missedDeadline says which deadline has passed of a request that has been admitted, if
// one has.
func (r *request) missedDeadline(now int64) error {
	switch {
	case !r.answered && isPast(r.FirstTokenBy, now):
		return errPromptSlow
	case isPast(r.DoneBy, now):
		return errAnswerSlow
	}
	return nil
}
