package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"weir/api"
	"weir/api/admin"
	"weir/api/replay"
	"weir/configs"
	"weir/router/deployment"
)

// deployer is nil without a store, which keeps deployments.
func (s *server) deployer() admin.Deployer {
	if s.deployments == nil {
		return nil
	}
	return s.deployments
}

// claims are the store's idempotency keys, if there is a store.
func (s *server) claims() replay.Claims {
	if s.store == nil {
		return nil
	}
	return s.store
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
	change := func(old *deployment.Record) (deployment.Record, error) {
		if err := matches(old, spec.Model, m); err != nil {
			return deployment.Record{}, err
		}
		return deployment.Apply(old, spec, strings.ToLower(rand.Text()[:10]), by, time.Now()), nil
	}
	before, err := d.record(ctx, spec.Model)
	if err != nil {
		return view, false, err
	}
	next, err := change(before)
	if err != nil {
		return view, false, err
	}
	if before == nil || next.Generation != before.Generation { // noted first: what cannot be noted is not done
		if err := d.s.audit(ctx, by, actionDeploy, spec.Model, details{"version": spec.Version, "resources": spec.Resources, "rollout": spec.Policy != nil, "warm": spec.Warm}); err != nil {
			return view, false, err
		}
	}
	var is deployment.Record
	err = d.s.store.ChangeDeployment(ctx, spec.Model, func(old *deployment.Record) (*deployment.Record, error) {
		created = old == nil
		is, err = change(old)
		return &is, err
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

// record is what the store has of a model; nil: nothing.
func (d *deployments) record(ctx context.Context, model string) (*deployment.Record, error) {
	list, err := d.s.store.Deployments(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(list, func(r deployment.Record) bool { return r.Model == model })
	if i < 0 {
		return nil, nil //nolint:nilnil // there is none, and that is no error
	}
	return &list[i], nil
}

// Deployments implements admin.Deployer.
func (d *deployments) Deployments(ctx context.Context) ([]admin.DeploymentView, error) {
	list, err := d.s.store.Deployments(ctx)
	if err != nil {
		return nil, err
	}
	seen, err := d.s.store.Observations(ctx)
	if err != nil {
		return nil, err
	}
	byModel := make(map[string][]deployment.Observation)
	for i := range seen {
		byModel[seen[i].Model] = append(byModel[seen[i].Model], seen[i])
	}
	views := make([]admin.DeploymentView, len(list))
	for i := range list {
		views[i] = admin.ViewOf(&list[i], byModel[list[i].Model])
	}
	return views, nil
}

// Deployment implements admin.Deployer.
func (d *deployments) Deployment(ctx context.Context, model string) (admin.DeploymentView, error) {
	views, err := d.Deployments(ctx)
	if err != nil {
		return admin.DeploymentView{}, err
	}
	i := slices.IndexFunc(views, func(v admin.DeploymentView) bool { return v.ModelID == model })
	if i < 0 {
		return admin.DeploymentView{}, deploymentFault(fmt.Errorf("%w: %.80q", deployment.ErrNone, model))
	}
	return views[i], nil
}

// Undeploy implements admin.Deployer.
func (d *deployments) Undeploy(ctx context.Context, by, model string, m admin.Match) error {
	before, err := d.record(ctx, model)
	if err != nil {
		return err
	}
	if before == nil {
		return deploymentFault(fmt.Errorf("%w: %.80q", deployment.ErrNone, model))
	}
	if err := matches(before, model, m); err != nil {
		return err
	}
	if err := d.s.audit(ctx, by, actionUndeploy, model, details{"version": before.Wanted.Version, "generation": before.Generation}); err != nil {
		return err
	}
	err = d.s.store.ChangeDeployment(ctx, model, func(old *deployment.Record) (*deployment.Record, error) {
		return nil, matches(old, model, m)
	})
	if err == nil {
		d.follower.Nudge()
	}
	return err
}
