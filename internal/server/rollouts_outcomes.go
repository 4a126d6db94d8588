package server

import (
	"context"
	"time"

	"go.uber.org/zap"

	"weir/internal/server/state"
	"weir/router/rollout"
)

// openJournal keeps rollouts, and which arm gave an answer, in the store, where there is one.
func (r *rollouts) openJournal() {
	if r.s.store != nil {
		r.kept, r.others.kept = r.s.store.Rollouts, r.s.store.Rollouts
		r.journal = rollout.NewJournal(r.kept, r.control, r.key)
	}
}

// tell takes in an outcome. With a store any server on it takes it, and the one that gave the answer counts it.
func (r *rollouts) tell(s *rollout.Signal) error {
	s.ID = answerID(s.ID)
	if r.journal != nil {
		return r.journal.Tell(r.ctx, s)
	}
	list, err := r.control.Tell(time.Now(), s)
	r.changed(list)
	return err
}

func (r *rollouts) journalFailed(err error) {
	r.trouble.Do(func(held int) {
		r.s.log.Error("which arm gave an answer is not in the store; it is tried again, and outcomes of these answers are not known yet on other servers",
			zap.Error(err), zap.Int("times_before", held))
	})
}

// forgetAnswers ends what may be told of the answers of a rollout that is over.
func (r *rollouts) forgetAnswers(id string) {
	if r.journal == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), state.Timeout)
	defer cancel()
	if err := r.journal.Forget(ctx, id); err != nil {
		r.s.log.Error("answers of a rollout that is over stay in the store for a week", zap.String("id", id), zap.Error(err))
	}
}
