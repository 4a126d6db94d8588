package rollouts

import (
	"context"
	"slices"
	"time"

	"weir/internal/server/state"
	"weir/router/rollout"
)

// Records are the rollouts in the store, and the answers whose outcomes may be told.
type Records interface {
	rollout.AnswerStore
	Rollouts(ctx context.Context) ([][]byte, error)
	Rollout(ctx context.Context, id string) ([]byte, error)
	// TakeRollout makes a rollout this server's, unless another one that lives has it.
	TakeRollout(ctx context.Context, id, instance string) (bool, error)
}

// elsewhere are the rollouts that other servers on the store had under way when this one started.
type elsewhere struct {
	kept     Records
	instance func() string
	failed   func(error)
	ids      []string // of the goroutine that awaits them
}

// take makes a rollout this server's, where no other one that lives has it.
func (e *elsewhere) take(ctx context.Context, id string) bool {
	taken, err := e.kept.TakeRollout(ctx, id, e.instance())
	if err != nil {
		e.failed(err)
	}
	return taken
}

// await has look tell when a rollout is no other server's any more.
func (e *elsewhere) await(id string) { e.ids = append(e.ids, id) }

// look calls resume with the rollouts that are over, or that the servers which had them can go on with no more.
func (e *elsewhere) look(ctx context.Context, now time.Time, resume func(*rollout.Rollout)) {
	e.ids = slices.DeleteFunc(e.ids, func(id string) (done bool) {
		ctx, cancel := context.WithTimeout(ctx, state.Timeout)
		defer cancel()
		record, err := e.kept.Rollout(ctx, id)
		if err != nil {
			e.failed(err)
			return false
		}
		run, err := rollout.Restore(record, now)
		if err == nil && !run.State().Over() && !e.take(ctx, id) {
			return false
		}
		if err == nil { // otherwise it has left the store
			resume(run)
		}
		return true
	})
}
