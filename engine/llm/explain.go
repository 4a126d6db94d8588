package llm

import (
	"context"
	"time"

	"weir/internal/inference"
	"weir/scheduler"
)

// RequestState is what one live request does at a moment, and how long it has spent
// in each stage.
type RequestState struct {
	ID string // of the inference.Request
	inference.State
	Queue   time.Duration // submitted to admitted, or until now
	Prefill time.Duration // admitted to first token, or until now
	Decode  time.Duration // first token until now
}

// Requests returns the state of every live request, in no order. The step loop
// answers between two steps. Errors are those of ResetPrefixCache.
func (e *Engine) Requests(ctx context.Context) ([]RequestState, error) {
	var states []RequestState
	if err := e.ask(ctx, explaining, func() { states = requestStates(e.sched.Explain(nil), time.Now()) }); err != nil {
		return nil, err
	}
	return states, nil
}

func requestStates(all []scheduler.Explained, now time.Time) []RequestState {
	states := make([]RequestState, 0, len(all))
	for _, x := range all {
		j, ok := x.User.(*job)
		if !ok {
			continue
		}
		s := RequestState{ID: j.req.ID, State: x.State}
		switch {
		case j.admitted.IsZero():
			s.Queue = now.Sub(j.queued)
		case j.first.IsZero():
			s.Queue, s.Prefill = j.admitted.Sub(j.queued), now.Sub(j.admitted)
		default:
			s.Queue, s.Prefill, s.Decode = j.admitted.Sub(j.queued), max(0, j.first.Sub(j.admitted)), now.Sub(j.first)
		}
		states = append(states, s)
	}
	return states
}
