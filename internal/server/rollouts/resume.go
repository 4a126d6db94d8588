package rollouts

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"weir/internal/server/state"
	"weir/router/deployment"
	"weir/router/rollout"
)

// Names are the models that rollouts of the store have, or may have, given to other versions than the configuration does.
func (r *Rollouts) Names(ctx context.Context) ([]string, error) {
	if r.Records == nil {
		return nil, nil
	}
	list, err := r.Records.Rollouts(ctx)
	var names []string
	for _, record := range list {
		if run, err := rollout.Restore(record, time.Now()); err == nil {
			names = append(names, run.Plan().Model)
		}
	}
	return names, err
}

// restore goes on with what the store has: rollouts that were under way, and versions that were promoted, or taken back, over what the
// configuration says. It calls named once no name is a candidate's that should not be, and before candidates are loaded.
func (r *Rollouts) restore(named func()) {
	last := r.stored()
	for _, run := range last {
		if st := run.Status(time.Now()); st.State.Over() {
			r.left(&st)
		} else {
			r.give(&st.Plan, st.Plan.Stable)
		}
	}
	named()
	for _, run := range last {
		if !run.State().Over() {
			_ = r.resume(run) // which logs why not
		}
	}
}

// stored are the last rollouts of models that the store has for this server, by model.
func (r *Rollouts) stored() map[string]*rollout.Rollout {
	if r.Records == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.ctx, state.Timeout)
	defer cancel()
	err := r.Deployments.Announce(ctx)
	list, failed := r.Records.Rollouts(ctx)
	if err := errors.Join(err, failed); err != nil {
		r.Log.Error("rollouts cannot be read from the store; none goes on", zap.Error(err))
		return nil
	}
	last := make(map[string]*rollout.Rollout)
	for _, record := range list {
		run, err := rollout.Restore(record, time.Now())
		if err != nil {
			r.Log.Error("a rollout in the store cannot be read; it does not go on", zap.Error(err))
			continue
		}
		if deployment.IsRollout(run.Plan().ID) {
			continue // its deployment goes on with it
		}
		if !run.State().Over() && !r.records.others.take(ctx, run.Plan().ID) {
			r.records.others.await(run.Plan().ID)
			continue
		}
		last[run.Plan().Model] = run
		if run.State().Over() {
			_ = r.control.Add(run) // for people to see
		}
	}
	return last
}

// follow goes on with the last rollout of a model, or with what it has left.
func (r *Rollouts) follow(run *rollout.Rollout) {
	if st := run.Status(time.Now()); st.State.Over() {
		r.left(&st)
		return
	}
	_ = r.resume(run) // which logs why not
}

// resume goes on with a rollout where it was: the stable version answers by default, whatever the configuration says.
func (r *Rollouts) resume(run *rollout.Rollout) error {
	p := run.Plan()
	log := r.Log.With(zap.String("id", p.ID), zap.String("model", p.Model), zap.String("candidate", p.Candidate))
	r.give(&p, p.Stable)
	release, err := hold(r.ctx, r.Models, &p)
	if err == nil {
		r.holds.keep(p.ID, release)
		err = r.control.Add(run)
	}
	if err == nil && !deployment.IsRollout(p.ID) {
		err = r.overrule(r.ctx, p.Model)
	}
	if err != nil {
		r.holds.release(p.ID)
		log.Error("a rollout does not go on", zap.Error(err))
		return fmt.Errorf("the rollout %s does not go on: %w", p.ID, err)
	}
	log.Info("a rollout goes on where it was")
	return nil
}

// left gives a name to the version that the last rollout of its model has left it with before the server started, unless the
// configuration says otherwise since: the promoted one in place of the stable one, and the stable one in place of a candidate that was
// taken back. The configuration says nothing of that for a classical model, whose newest version answers.
func (r *Rollouts) left(st *rollout.Status) {
	p := &st.Plan
	answers, ok := r.Models.Answers(p.Model)
	classic := r.Models.IsClassic(p.Model)
	switch {
	case !ok || isChosenSince(st):
	case st.State == rollout.Promoted:
		if classic || answers == p.Stable {
			r.give(p, p.Candidate)
		}
	case classic:
		r.give(p, p.Stable)
	case st.State != rollout.Replaced && !isLeftAlone(st) && answers == p.Candidate && p.Stable != p.Candidate:
		r.Log.Warn("the configuration's choice is a candidate that a rollout took back; the stable version answers. To let the candidate answer: weir models alias MODEL VERSION",
			zap.String("model", p.Model), zap.String("candidate", p.Candidate), zap.String("answers", p.Stable), zap.String("rollout", p.ID), zap.String("reason", st.Reason))
		r.give(p, p.Stable)
	}
}

// isChosenSince reports whether an operator has given the name to the candidate after it was taken back.
func isChosenSince(st *rollout.Status) bool {
	return st.State == rollout.Replaced && lastChange(st).From != rollout.Promoted
}
