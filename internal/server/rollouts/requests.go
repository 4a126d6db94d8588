package rollouts

import (
	"strings"
	"time"

	"weir/api/edge"
	"weir/api/openai/models"
	"weir/router"
	"weir/router/rollout"
)

// Choose lets a rollout decide which version answers a request that names none. reaches says whether the tenant's residency lets it go
// to a version; nil: to all.
func (r *Rollouts) Choose(a *models.VersionRequest, reaches func(version string) bool) (d rollout.Decision, ok bool) {
	if a.Pinned {
		return d, false
	}
	if a.Spare {
		return r.control.Stable(a.Model)
	}
	return r.control.Choose(a.Model, a.Tenant, a.Conversation, a.ID, reaches)
}

// Mark notes on what answers a request what a rollout has decided for it: its arm, how the stable version comes to answer in place of a
// candidate that fails, and who takes its copy.
func (r *Rollouts) Mark(held *models.VersionLease, a *models.VersionRequest, d rollout.Decision) {
	held.Arm = armOf(d)
	if d.Arm == rollout.Candidate && !a.Spare {
		model, id := a.Model, d.Rollout
		held.Spare = func() bool { return r.control.Spare(model, id) }
	}
	if d.Shadow {
		held.Copy = r.shadows.take
	}
}

// Lost ends a rollout one of whose versions is not there any more.
func (r *Rollouts) Lost(model string, why error) {
	list, err := r.control.Decide(model, "abort", "server, "+why.Error(), time.Now())
	if err == nil {
		r.changed(list)
	}
}

// ChooseClassic lets a rollout decide which version of a classical model answers; "": that which answers by default. reaches says whether
// the tenant's residency lets the request go to a version.
func (r *Rollouts) ChooseClassic(model string, by router.StickyKey, reaches func(version string) bool) (version string, arm router.Arm) {
	if d, ok := r.control.Choose(model, by.Tenant, by.User, by.Request, reaches); ok {
		return d.Version, armOf(d)
	}
	return "", arm
}

// SpareClassic is the stable version in place of a candidate that has failed a request to a classical model.
func (r *Rollouts) SpareClassic(model string, arm router.Arm) (version string, may bool) {
	if arm.Name != rollout.Candidate.String() || !r.control.Spare(model, arm.Rollout) {
		return "", false
	}
	if d, ok := r.control.Stable(model); ok {
		return d.Version, true
	}
	return "", true // the rollout is over
}

// Drift takes a candidate back whose features or scores drift.
func (r *Rollouts) Drift(model, version string, columns []string) {
	why := "drift of " + strings.Join(columns[:min(len(columns), 5)], ", ")
	r.changed(r.control.Alarm(model, version, rollout.DriftRule, why, time.Now()))
}

// Hooks let rollouts see how requests ended.
func (r *Rollouts) Hooks() edge.Hooks {
	o := &observer{r.control, r.Objectives, r.changed}
	return edge.Hooks{
		OnRequestFinish: func(f edge.RequestFinish) {
			r.shadows.served.Store(time.Now().UnixNano())
			if f.Arm.Rollout != "" && f.Code != displaced {
				o.observe(&f)
			}
		},
		OnRefused: func(f edge.Refusal) {
			if f.Arm.Rollout != "" && !f.Started && f.Moderation == nil && f.Code != displaced {
				o.refused(&f)
			}
		},
	}
}

// Tell takes in an outcome. With a store any server on it takes it, and the one that gave the answer counts it.
func (r *Rollouts) Tell(s *rollout.Signal) error {
	s.ID = answerID(s.ID)
	if r.records.journal != nil {
		return r.records.journal.Tell(r.ctx, s)
	}
	list, err := r.control.Tell(time.Now(), s)
	r.changed(list)
	return err
}

// armOf is what a request carries of a decision.
func armOf(d rollout.Decision) router.Arm {
	return router.Arm{Rollout: d.Rollout, Name: d.Arm.String(), Key: d.Key}
}
