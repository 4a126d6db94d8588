package rollouts

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"weir/internal/server/state"
	"weir/router/deployment"
	"weir/router/rollout"
	"weir/telemetry"
)

// records are what the store keeps of rollouts: where each stands, what was seen of both arms, and which arm gave an answer.
type records struct {
	options *Options
	control *rollout.Controller
	finish  func(t *rollout.Transition) // called for a rollout that another server goes on with
	journal *rollout.Journal            // nil: there is no store
	others  elsewhere
	saved   map[string]int // by rollout: how much had been seen when it was kept last; of the goroutine that applies transitions
	trouble telemetry.LogLimiter
}

func newRecords(o *Options, control *rollout.Controller, finish func(t *rollout.Transition)) *records {
	r := &records{options: o, control: control, finish: finish, saved: make(map[string]int), trouble: telemetry.LogLimiter{Every: telemetry.TroubleEvery}}
	r.others = elsewhere{kept: o.Records, instance: o.Instance, failed: func(err error) {
		r.failed("whether another server has a rollout cannot be read from the store; it is tried again", err)
	}}
	if o.Records != nil {
		r.journal = rollout.NewJournal(o.Records, control, r.key)
	}
	return r
}

// begin writes which arm gave an answer until ctx ends. changed takes in what outcomes decide.
func (r *records) begin(ctx context.Context, ended *sync.WaitGroup, changed func([]rollout.Transition)) {
	if r.journal == nil {
		return
	}
	ended.Go(func() {
		r.journal.Run(ctx, changed, func(err error) {
			r.failed("which arm gave an answer is not in the store; it is tried again, and outcomes of these answers are not known yet on other servers", err)
		})
	})
}

// failed logs what is tried again.
func (r *records) failed(what string, err error, more ...zap.Field) {
	r.trouble.Do(func(held int) {
		r.options.Log.Error(what, append(more, zap.Error(err), zap.Int("times_before", held))...)
	})
}

// key is what the store keeps a rollout under. That of a deployment runs on several servers: each keeps what it has seen,
// and where all of them stand is in the deployment's record.
func (r *records) key(id string) string {
	if deployment.IsRollout(id) {
		return id + "@" + r.options.Instance()
	}
	return id
}

// keep stores and audits a transition.
func (r *records) keep(t *rollout.Transition) error {
	if r.journal == nil {
		return nil
	}
	err := r.options.Audit.Add(context.Background(), "rollout: "+t.By, state.ActionRollout+string(t.To), t.Model, state.Details{
		"id": t.ID, "from": t.From, "step": t.Step, "percent": t.Percent, "reason": t.Reason, "harmed": t.Harmed,
	})
	return errors.Join(err, r.save(t.ID, t.At))
}

// save keeps where a rollout stands and what was seen of both arms. One that another server goes on with ends here: this one was taken for dead.
// That of a deployment is every server's, and its record that of whichever process has this one's address.
func (r *records) save(id string, at time.Time) error {
	ctx, cancel := context.WithTimeout(context.Background(), state.Timeout)
	defer cancel()
	err := r.journal.Save(ctx, id, at)
	switch {
	case !errors.Is(err, rollout.ErrElsewhere):
	case deployment.IsRollout(id):
		if err = r.own(ctx, id); err == nil {
			err = r.journal.Save(ctx, id, at)
		}
	default:
		list, _ := r.control.Decide(r.control.ModelOf(id), "abort", "server, "+err.Error(), at) // or it is over here, too
		for i := range list {
			r.finish(&list[i])
		}
	}
	return err
}

// own makes the record of a deployment's rollout this process's, which one before it at its address has begun.
func (r *records) own(ctx context.Context, id string) error {
	if r.others.take(ctx, r.key(id)) {
		return nil
	}
	return fmt.Errorf("%w that has this one's address %s, or has had it until a moment ago: %s; it is tried again", rollout.ErrElsewhere, r.options.Instance(), id)
}

// saveRunning keeps what was seen since the last time, so that a process that is killed goes on from there.
func (r *records) saveRunning(now time.Time) {
	if r.journal == nil {
		return
	}
	for id, seen := range r.control.Seen() {
		if r.saved[id] == seen {
			continue
		}
		if err := r.save(id, now); err != nil {
			r.failed("what was seen of a rollout is not in the store; it is tried again", err, zap.String("id", id))
			continue
		}
		r.saved[id] = seen
	}
}

// forgetAnswers ends what may be told of the answers of a rollout that is over.
func (r *records) forgetAnswers(id string) {
	if r.journal == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), state.Timeout)
	defer cancel()
	if err := r.journal.Forget(ctx, id); err != nil {
		r.options.Log.Error("answers of a rollout that is over stay in the store for a week", zap.String("id", id), zap.Error(err))
	}
}
