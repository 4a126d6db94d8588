package scheduler

import (
	"fmt"
	"math"
	"slices"
	"time"

	"weir/internal/inference"
	"weir/scheduler/cost"
)

// An error says what was due, and where the request was then.
var (
	errFirstTokenLate = fmt.Errorf("%w: the first token was due while the request waited", inference.ErrDeadline)
	errAnswerLate     = fmt.Errorf("%w: the answer was due while the request waited", inference.ErrDeadline)
	errPromptSlow     = fmt.Errorf("%w: the first token was due while the prompt was prefilled", inference.ErrDeadline)
	errAnswerSlow     = fmt.Errorf("%w: the answer was due before it ended", inference.ErrDeadline)
)

// waitsUntil is when the request waits no longer, 0 for never.
func (r *Request) waitsUntil() int64 {
	until := int64(0)
	for _, t := range [...]int64{r.WaitUntil, r.FirstTokenBy, r.DoneBy} {
		if t != 0 && (until == 0 || t < until) {
			until = t
		}
	}
	return until
}

// firstDeadline is the sooner of the two deadlines, 0 for none.
func (r *Request) firstDeadline() int64 {
	if r.FirstTokenBy == 0 || r.DoneBy != 0 && r.DoneBy < r.FirstTokenBy {
		return r.DoneBy
	}
	return r.FirstTokenBy
}

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

// expire ends requests that waited as long as they may, and admitted ones of
// which a deadline has passed, whatever state they are in. Their blocks are free
// for this very plan.
func (s *Scheduler) expire(now int64) {
	for {
		ref, ok := s.waiting.Expire(now)
		if !ok {
			break
		}
		if r := s.requests.find(ID(ref)); r != nil {
			s.failRequest(r, inference.FinishCancelled, r.late(now), expired)
		}
	}
	for _, r := range slices.Backward(s.dated) {
		if err := r.slow(now); err != nil {
			s.failRequest(r, inference.FinishCancelled, err, expired) // takes r off the list
		}
	}
}

// date lists an admitted request that has deadlines.
func (s *Scheduler) date(r *request) {
	if r.FirstTokenBy != 0 || r.DoneBy != 0 {
		s.dated = append(s.dated, r)
	}
}

// undate takes a request that has ended off the list.
func (s *Scheduler) undate(r *request) {
	if r.FirstTokenBy == 0 && r.DoneBy == 0 {
		return
	}
	if i := slices.Index(s.dated, r); i >= 0 {
		s.dated = slices.Delete(s.dated, i, i+1)
	}
}

// slackFactor times what the rest of a prompt takes alone is the time in which
// it is done beside others, a quarter of the step being its own.
const slackFactor = 4

// due is the deadline of a prompt that would miss it if others went first, and
// makes it if it goes first; any other prompt has none.
func (s *Scheduler) due(q *sequence) int64 {
	r, by := q.req, int64(math.MaxInt64)
	if !r.answered && r.FirstTokenBy != 0 {
		by = r.FirstTokenBy
	}
	if r.DoneBy != 0 {
		by = min(by, r.DoneBy)
	}
	if by == math.MaxInt64 {
		return by
	}
	rows := q.pending()
	takes := s.cost.Estimate(cost.Load{Rows: rows, Outputs: 1, Prompt: cost.Attended(q.computed, rows)})
	if left := time.Duration(by - s.step.began); left < takes || left > slackFactor*takes {
		return math.MaxInt64
	}
	return by
}
