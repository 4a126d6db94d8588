package llm

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"weir/internal/inference"
	"weir/scheduler"
	"weir/scheduler/admission"
)

// RequestState is what one live request does at a moment, and how long it has spent
// in each stage.
type RequestState struct {
	ID string // of the inference.Request
	inference.State
	Queue   time.Duration // submitted to admitted, or until now
	Prefill time.Duration // admitted to first token, or until now
	Decode  time.Duration // first token until now

	Adapter string // of the inference.Request

	Life  *inference.Stream // says what it has done
	Wait  time.Duration     // until it is admitted, as far as that can be told
	Known bool              // Wait can be told
}

// Requests returns the state of every live request, in no order. The step loop
// answers between two steps. Errors are those of ResetPrefixCache.
func (e *Engine) Requests(ctx context.Context) ([]RequestState, error) {
	var states []RequestState
	var waiters []waiter
	if err := e.ask(ctx, explaining, func() { states, waiters = requestStates(e.sched.Explain(nil), time.Now()) }); err != nil {
		return nil, err
	}
	e.expect(states, waiters)
	return states, nil
}

// waiter is a state of a request that waits.
type waiter struct {
	state int // its index
	item  *admission.Item
}

// expect estimates how long requests will wait yet: by the work of their own tenants and classes before them, and half of their own.
func (e *Engine) expect(states []RequestState, waiters []waiter) {
	slices.SortFunc(waiters, func(a, b waiter) int {
		return cmp.Or(cmp.Compare(a.item.Class, b.item.Class), strings.Compare(a.item.Tenant, b.item.Tenant), cmp.Compare(states[a.state].Ahead, states[b.state].Ahead))
	})
	now, own := time.Now().UnixNano(), uint64(0)
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, w := range waiters {
		if i > 0 && (waiters[i-1].item.Class != w.item.Class || waiters[i-1].item.Tenant != w.item.Tenant) {
			own = 0
		}
		s := &states[w.state]
		s.Wait, s.Known = e.precheck.WaitBehind(now, w.item, own+w.item.Work/2) // the one before it left at any time since
		own += w.item.Work
	}
}

// requestStates are the states of live requests, and which of them wait.
func requestStates(all []scheduler.Explained, now time.Time) (states []RequestState, waiters []waiter) {
	states = make([]RequestState, 0, len(all))
	for _, x := range all {
		j, ok := x.User.(*job)
		if !ok {
			continue
		}
		if x.Phase == inference.PhaseWaiting {
			waiters = append(waiters, waiter{len(states), &j.item})
		}
		s := RequestState{ID: j.req.ID, Adapter: j.req.Adapter, State: x.State, Life: j.stream}
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
	return states, waiters
}
