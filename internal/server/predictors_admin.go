package server

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"weir/api/admin"
	"weir/internal/server/state"
	"weir/router/versions"
)

// do changes a classical model for an operator: which version answers, or what is in memory. Without a version it is the one that answers.
func (p *predictors) do(ctx context.Context, by string, c admin.ModelChange) (admin.ModelChanged, error) {
	before, ok := p.answers(c.Name)
	if !ok {
		return admin.ModelChanged{}, fmt.Errorf("%w: %.100q; this server has %s", admin.ErrNoModel, c.Name, strings.Join(append(p.s.edge.Names(), p.names()...), ", "))
	}
	about := state.Details{"version": c.Version, "before": before}
	if err := p.s.audit.Add(ctx, by, modelActions[c.Action], c.Name, about); err != nil {
		return admin.ModelChanged{}, err
	}
	err := p.alter(ctx, by, c)
	if err != nil {
		p.s.audit.Failed(ctx, by, modelActions[c.Action], c.Name, about, err)
		if errors.Is(err, versions.ErrUnknown) {
			err = fmt.Errorf("%w: %w", admin.ErrNoModel, err)
		}
		return admin.ModelChanged{}, err
	}
	done := admin.ModelChanged{Name: c.Name}
	if done.Version, _ = p.answers(c.Name); done.Version != before {
		done.Before = before
	}
	return done, nil
}

// alter does what an operator asks for.
func (p *predictors) alter(ctx context.Context, by string, c admin.ModelChange) error {
	_, remote := p.remotes.choice(c.Name)
	switch c.Action {
	case admin.ModelRollback:
		if p.s.rollouts.Abort(c.Name, by) {
			return nil // the version answers all that did before the rollout
		}
		if err := p.rollBack(ctx, c.Name); err != nil {
			return err
		}
	case admin.ModelAlias:
		if err := p.give(c.Name, c.Version, by); err != nil {
			return err
		}
	default:
		if remote {
			return fmt.Errorf("the model %q is computed by other servers, so nothing of it is loaded or unloaded here", c.Name)
		}
		if c.Action == admin.ModelStop {
			return p.local.Stop(c.Name, c.Version)
		}
		return p.local.LoadOrUnload(ctx, c.Name, c.Version, c.Action == admin.ModelLoad)
	}
	answers, _ := p.answers(c.Name)
	p.s.rollouts.Replaced(c.Name, answers, by)
	return nil
}

// rollBack lets the version answer that did before the last move; of a model that other servers compute, the configuration's choice.
func (p *predictors) rollBack(ctx context.Context, name string) error {
	choice, remote := p.remotes.choice(name)
	if !remote {
		return p.local.Rollback(ctx, name)
	}
	if answers, _ := p.answers(name); answers == choice || !p.remotes.move(name, choice) {
		return fmt.Errorf("the name %q was not moved, so there is no version to go back to", name)
	}
	return nil
}
