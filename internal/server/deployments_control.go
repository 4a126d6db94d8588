package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"weir/api"
	"weir/api/admin"
	"weir/api/replay"
	"weir/configs"
	"weir/internal/server/state"
	"weir/router/deployment"
	"weir/telemetry/audit"
)

// deployer is nil without a store, which keeps deployments.
func (d *deployments) deployer() admin.Deployer {
	if d == nil {
		return nil
	}
	return d
}

// claimsOf are the store's idempotency keys, if there is a store.
func claimsOf(s *state.Store) replay.Claims {
	if s == nil {
		return nil
	}
	return s.Claims
}

func wrongDeployment(err error) *api.Error {
	return api.Refuse("invalid_value", strings.ReplaceAll(err.Error(), "\n", "; ")+`; send {"modelId": "chat", "version": "chat:v2"}, and resources, rolloutPolicy and warm where they are wanted`)
}

// Apply implements admin.Deployer.
func (d *deployments) Apply(ctx context.Context, by string, body []byte, m admin.Match) (view admin.DeploymentView, created bool, err error) {
	spec, err := configs.ParseDeployment("the body", body)
	if err != nil {
		return view, false, wrongDeployment(err)
	}
	if err := d.s.config.CheckDeployed(configs.Deployed(spec.Model, configs.BuiltinPath, spec.Version, spec.Resources)); err != nil {
		return view, false, wrongDeployment(err)
	}
	if err := d.checkResources(spec.Model, spec.Resources); err != nil {
		return view, false, api.Refuse("invalid_value", err.Error())
	}
	var is deployment.Record
	err = d.kept.NoteDeployment(ctx, spec.Model, func(old *deployment.Record, last int64) (*deployment.Record, *audit.Change, error) {
		if err := matches(old, spec.Model, m); err != nil {
			return nil, nil, err
		}
		is = deployment.Apply(old, spec, strings.ToLower(rand.Text()[:10]), by, time.Now())
		if created = old == nil; created {
			is = is.After(last)
		}
		if old != nil && old.Generation == is.Generation {
			return &is, nil, nil
		}
		note, err := state.ChangeOf(by, state.ActionDeploy, spec.Model, state.Details{"version": spec.Version, "resources": spec.Resources, "rollout": spec.Policy != nil, "warm": spec.Warm, "placement": spec.Placement, "generation": is.Generation})
		return &is, &note, err
	})
	if err != nil {
		return view, false, deploymentFault(err)
	}
	d.follower.Nudge()
	view, err = d.Deployment(ctx, spec.Model)
	if fault, ok := errors.AsType[*api.Error](err); ok && fault.Status == http.StatusNotFound { // deleted at once
		view, err = admin.ViewOf(&is, nil), nil
	}
	return view, created, err
}

// matches refuses a change that is for another state than there is.
func matches(r *deployment.Record, model string, m admin.Match) error {
	switch {
	case m.None && r != nil:
		return conflict("deployment_conflict", "there is a deployment of %q, at generation %d, and If-None-Match asks for none; read it, and send If-Match with its generation", model, r.Generation)
	case m.Generation > 0 && r == nil:
		return conflict("deployment_conflict", "there is no deployment of %q, and If-Match asks for generation %d; leave it out to make one", model, m.Generation)
	case m.Generation > 0 && r.Generation != m.Generation:
		return conflict("deployment_conflict", "the deployment of %q is at generation %d (version %s, by %s), and If-Match asks for %d; read it and try again", model, r.Generation,
			r.Wanted.Version, r.By, m.Generation)
	}
	return nil
}

func deploymentFault(err error) error {
	switch {
	case errors.Is(err, deployment.ErrAtMost):
		return conflict("too_many_deployments", "%v", err)
	case errors.Is(err, deployment.ErrNone):
		return &api.Error{Status: http.StatusNotFound, Type: api.TypeInvalidRequest, Code: "deployment_not_found", Message: err.Error() + "; GET /v1/deployments lists them"}
	}
	return err
}

// Deployments implements admin.Deployer.
func (d *deployments) Deployments(ctx context.Context) ([]admin.DeploymentView, error) {
	seen, err := d.kept.Observations(ctx) // before the records, so that no server acts on a generation that is not there
	if err != nil {
		return nil, err
	}
	list, err := d.kept.Deployments(ctx)
	if err != nil {
		return nil, err
	}
	servers, err := d.kept.Servers(ctx)
	if err != nil {
		return nil, err
	}
	seen = d.here(seen)
	byModel := make(map[string][]deployment.Observation)
	for i := range seen {
		byModel[seen[i].Model] = append(byModel[seen[i].Model], seen[i])
	}
	views := make([]admin.DeploymentView, len(list))
	for i := range list {
		views[i] = admin.ViewOf(&list[i], deployment.Await(byModel[list[i].Model], servers, list[i].Model))
	}
	return views, nil
}

// Deployment implements admin.Deployer.
func (d *deployments) Deployment(ctx context.Context, model string) (admin.DeploymentView, error) {
	seen, err := d.kept.ObservationsOf(ctx, model) // before the record, as for all of them
	if err != nil {
		return admin.DeploymentView{}, err
	}
	r, ok, err := d.kept.Deployment(ctx, model)
	if err != nil {
		return admin.DeploymentView{}, err
	}
	if !ok {
		return admin.DeploymentView{}, deploymentFault(fmt.Errorf("%w: %.80q", deployment.ErrNone, model))
	}
	servers, err := d.kept.Servers(ctx)
	if err != nil {
		return admin.DeploymentView{}, err
	}
	return admin.ViewOf(&r, deployment.Await(d.here(seen), servers, model)), nil
}

// here tells of this server what is so now, not what it has written down last, or the process before it at its address.
func (d *deployments) here(seen []deployment.Observation) (list []deployment.Observation) {
	own := d.s.ports.instance()
	for _, o := range seen {
		if o.Instance == own {
			now, ok := d.follower.Observed(o.Model)
			if !ok {
				continue
			}
			o = now
			o.Answers, _ = d.Answers(o.Model)
		}
		list = append(list, o)
	}
	return list
}

// Undeploy implements admin.Deployer.
func (d *deployments) Undeploy(ctx context.Context, by, model string, m admin.Match) error {
	err := d.kept.NoteDeployment(ctx, model, func(old *deployment.Record, _ int64) (*deployment.Record, *audit.Change, error) {
		if old == nil {
			return nil, nil, fmt.Errorf("%w: %.80q", deployment.ErrNone, model)
		}
		if err := matches(old, model, m); err != nil {
			return nil, nil, err
		}
		note, err := state.ChangeOf(by, state.ActionUndeploy, model, state.Details{"version": old.Wanted.Version, "generation": old.Generation})
		return nil, &note, err
	})
	if err != nil {
		return deploymentFault(err)
	}
	d.follower.Nudge()
	return nil
}
