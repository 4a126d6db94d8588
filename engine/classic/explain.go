package classic

import (
	"time"

	"weir/internal/inference"
	"weir/scheduler/batch"
)

// RequestState is what one live request does at a moment.
type RequestState struct {
	ID string // of the inference.Prediction
	inference.State
	Model, Version string
	Rows           int
	Queue, Compute time.Duration // so far
}

// Requests returns the state of the requests that wait or are computed in turns, in no
// order. Those that are computed inline have answers before anybody could read of them.
func (l *Lane) Requests() []RequestState {
	now := time.Now()
	l.inline.mu.Lock()
	states := explain(nil, now, l.inline.queue, l.inline.waiting)
	l.inline.mu.Unlock()
	l.apart.mu.Lock()
	states = explain(states, now, l.apart.queue, l.apart.waiting)
	l.apart.mu.Unlock()
	l.turns.mu.Lock()
	defer l.turns.mu.Unlock()
	return explain(states, now, l.turns.queue, l.turns.live)
}

// explain appends the states of tasks of one line, whose lock the caller holds.
func explain(states []RequestState, now time.Time, q *batch.Queue, tasks map[*task]struct{}) []RequestState {
	for t := range tasks {
		s := RequestState{
			ID: t.id, Model: t.v.desc.Name, Version: t.v.desc.Version, Rows: t.rows,
			State: inference.State{Tenant: t.tenant, Class: t.class, Choices: 1},
		}
		if ahead, waits := q.Position(t.ticket); waits {
			s.Phase, s.Cause, s.Ahead, s.Debt = inference.PhaseWaiting, inference.CauseTurn, ahead, q.Debt(t.tenant, t.class)
			s.Queue = now.Sub(t.since)
		} else {
			s.Phase, s.Queue = inference.PhaseCompute, t.waited
			s.Compute = max(0, now.Sub(t.since)-t.waited)
		}
		states = append(states, s)
	}
	return states
}
