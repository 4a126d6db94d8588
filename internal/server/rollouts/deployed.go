package rollouts

import (
	"cmp"
	"context"
	"time"

	"weir/router/deployment"
	"weir/router/rollout"
)

// StartDeployed begins the rollout of a deployment on this server; tell hears how far the check is.
func (r *Rollouts) StartDeployed(ctx context.Context, p rollout.Plan, tell deployment.CheckProgress) (rollout.Status, error) {
	return r.start(ctx, deployment.Actor, p, tell, func() error { return nil })
}

// Check says why a candidate may not have users; nil: it may. tell hears how far the check is.
func (r *Rollouts) Check(ctx context.Context, p rollout.Plan, tell deployment.CheckProgress) error {
	return check(ctx, r.Models, r.Client, p, tell)
}

// Follow takes the rollout of a deployment to where the other servers have it.
func (r *Rollouts) Follow(model, id string, at rollout.Place) (rollout.Status, error) {
	r.apply(r.control.Follow(model, id, at, time.Now()))
	return r.status(id)
}

// End aborts the rollouts of a model whose ids are among ids, because a deployment decides.
func (r *Rollouts) End(model string, ids func(id string) bool) {
	for _, st := range r.List() {
		if p := st.Plan; p.Model == model && ids(p.ID) && !st.State.Over() {
			_, _ = r.Decide(context.Background(), deployment.Actor, model, "abort") // it may be over by now
		}
	}
}

// Begun is the rollout of a deployment that this server has begun, or the process before it, which may have been killed: it goes on. The
// error is rollout.ErrNone where none has. One that ended because this server left the deployment for a while has not begun.
func (r *Rollouts) Begun(ctx context.Context, id string) (rollout.Status, error) {
	if st, err := r.status(id); err == nil && !isLeftAlone(&st) {
		return st, nil
	}
	record, err := r.Records.Rollout(ctx, r.records.key(id))
	if record == nil || err != nil {
		return rollout.Status{}, cmp.Or(err, rollout.ErrNone)
	}
	run, err := rollout.Restore(record, time.Now())
	if err != nil {
		return rollout.Status{}, err
	}
	if st := run.Status(time.Now()); isLeftAlone(&st) {
		return rollout.Status{}, rollout.ErrNone
	}
	if run.State().Over() {
		err = r.control.Add(run)
	} else if err = r.records.own(ctx, id); err == nil {
		err = r.resume(run)
	}
	if err != nil {
		return rollout.Status{}, err
	}
	return r.status(id)
}

// isLeftAlone reports whether a rollout ended on this server alone: its deployment had no place here any more, or came over an operator's.
func isLeftAlone(st *rollout.Status) bool {
	return st.State == rollout.Aborted && lastChange(st).By == deployment.Actor
}

// lastChange is the newest transition of a rollout; the zero one where it has none.
func lastChange(st *rollout.Status) rollout.Transition {
	if len(st.Changes) == 0 {
		return rollout.Transition{}
	}
	return st.Changes[len(st.Changes)-1]
}
