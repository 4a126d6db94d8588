package rollouts

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"weir/api/admin"
	"weir/internal/server/state"
	"weir/router/deployment"
	"weir/router/rollout"
)

var _ admin.Rollouts = (*Rollouts)(nil)

// Start implements admin.Rollouts. A deployment that comes meanwhile ends the rollout.
func (r *Rollouts) Start(ctx context.Context, by string, p rollout.Plan) (rollout.Status, error) {
	p.ID = strings.TrimPrefix(cmp.Or(p.ID, strings.ToLower(rand.Text()[:10])), deployment.RolloutPrefix)
	if err := r.Deployments.Owns(ctx, p.Model); err != nil {
		return rollout.Status{}, err
	}
	return r.start(ctx, by, p, func(int, int) {}, func() error { return r.overrule(ctx, p.Model) })
}

// start begins a rollout whose candidate passes the check; tell hears how far that is. admitted has the last word, once the rollout is
// under way.
func (r *Rollouts) start(ctx context.Context, by string, p rollout.Plan, tell deployment.CheckProgress, admitted func() error) (rollout.Status, error) {
	if err := r.complete(&p); err != nil {
		return rollout.Status{}, err
	}
	o := r.Objectives()
	run, err := rollout.Start(p, 1-min(o.Availability, o.FirstToken.Share), time.Now())
	if err != nil {
		return rollout.Status{}, err
	}
	if err := r.control.Free(p.Model); err != nil {
		return rollout.Status{}, err
	}
	release, err := hold(ctx, r.Models, &p)
	if err != nil {
		return rollout.Status{}, err
	}
	if err := r.Audit.Add(ctx, by, state.ActionRollout+"start", p.Model, state.Details{"id": p.ID, "stable": p.Stable, "candidate": p.Candidate}); err != nil {
		release()
		return rollout.Status{}, err
	}
	r.holds.keep(p.ID, release)
	err = check(ctx, r.Models, r.Client, run.Plan(), tell)
	if err == nil {
		err = r.control.Add(run)
	}
	if err == nil {
		err = admitted()
	}
	if err != nil {
		r.holds.release(p.ID)
		r.Audit.Failed(ctx, by, state.ActionRollout+"start", p.Model, state.Details{"id": p.ID, "candidate": p.Candidate}, err)
		return rollout.Status{}, err
	}
	r.give(&p, p.Stable)
	r.apply(r.control.Begun(p.Model))
	return r.status(p.ID)
}

// complete fills in the version that answers now. A plan may name another stable version of a classical model, whose newest version
// answers without being asked: the stable one answers from the rollout's start on.
func (r *Rollouts) complete(p *rollout.Plan) error {
	answers, ok := r.Models.Answers(p.Model)
	if !ok {
		return fmt.Errorf("%w: %q", admin.ErrNoModel, p.Model)
	}
	if p.Stable = cmp.Or(p.Stable, answers); p.Stable != answers && !r.Models.IsClassic(p.Model) {
		return fmt.Errorf("%w: the stable version is %q, and %q answers; move the name first", rollout.ErrPlan, p.Stable, answers)
	}
	return nil
}

// overrule ends an operator's rollout that has just begun where a deployment decides by now which version answers. One that comes
// later ends the rollout when it activates its version.
func (r *Rollouts) overrule(ctx context.Context, model string) error {
	err := r.Deployments.Owns(ctx, model)
	if err != nil {
		r.Abort(model, deployment.Actor)
	}
	return err
}

// Decide implements admin.Rollouts.
func (r *Rollouts) Decide(ctx context.Context, by, model, what string) (rollout.Status, error) {
	list, err := r.control.Decide(model, what, by, time.Now())
	if err != nil {
		r.Audit.Failed(ctx, by, state.ActionRollout+what, model, nil, err)
		return rollout.Status{}, err
	}
	r.apply(list)
	return r.status(list[0].ID)
}

// Kill implements admin.Rollouts.
func (r *Rollouts) Kill(ctx context.Context, by string) error {
	list := r.control.Kill(by, time.Now()) // first: nothing may delay it
	r.apply(list)
	return r.Audit.Add(ctx, by, state.ActionRollout+"kill", "", state.Details{"aborted": len(list)})
}

// List implements admin.Rollouts.
func (r *Rollouts) List() []rollout.Status { return r.control.List(time.Now()) }

// Running reports whether a rollout of a model is under way.
func (r *Rollouts) Running(model string) bool {
	_, ok := r.control.Stable(model)
	return ok
}

// Abort takes the candidate of a model's rollout back, if one is under way.
func (r *Rollouts) Abort(model, by string) bool {
	list, err := r.control.Decide(model, "abort", by, time.Now())
	r.apply(list)
	return err == nil
}

// Replaced notes that an operator has moved a model's name to a version, over what a rollout has promoted, was trying, or took back.
func (r *Rollouts) Replaced(model, label, by string) {
	r.Abort(model, by)
	r.apply(r.control.Replace(model, label, by, time.Now()))
}
