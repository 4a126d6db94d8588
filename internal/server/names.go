package server

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"weir/api/admin"
	"weir/api/openai/models"
	"weir/router/rollout"
)

// rolled has the versions of models: languages, fleets and predictors are such.
type rolled interface {
	// answers is the version that requests get which name none; false: there is no such model.
	answers(model string) (label string, ok bool)
	// keep holds a version ready until release is called. Errors wrap admin.ErrNoModel.
	keep(ctx context.Context, model, label string) (release func(), err error)
	// give lets a version answer for its name.
	give(model, label, by string) error
	// withdraw lets the version answer that the configuration has for a name.
	withdraw(model, by string) error
}

// generating are models whose versions answer chats and the like.
type generating interface {
	rolled
	// entryOf is a version that is ready, until release is called.
	entryOf(model, label string) (entry *models.Model, release func(), ok bool)
}

// names are the models of the server, by name: those that are computed here, and those of other servers. Their names move from one
// version to another for rollouts and deployments.
type names struct {
	all []rolled // a name is of the first that has it
	log *zap.Logger
}

// of is what has the versions of a model; nil: there is no such model.
func (n *names) of(model string) rolled {
	for _, v := range n.all {
		if _, ok := v.answers(model); ok {
			return v
		}
	}
	return nil
}

// isClassic reports whether a model is a classical one.
func (n *names) isClassic(model string) bool {
	_, classic := n.of(model).(*predictors)
	return classic
}

// entryOf is a version of a model that is ready, until release is called; false: it is not there, or its model is a classical one.
func (n *names) entryOf(model, label string) (entry *models.Model, release func(), ok bool) {
	if v, ok := n.of(model).(generating); ok {
		return v.entryOf(model, label)
	}
	return nil, nil, false
}

// give lets a version of a rollout answer for its name, unless it does.
func (n *names) give(p *rollout.Plan, label string) {
	v := n.of(p.Model)
	if v == nil {
		return
	}
	if answers, _ := v.answers(p.Model); answers == label {
		return
	}
	if err := v.give(p.Model, label, "rollout "+p.ID); err != nil {
		n.log.Error("the version that a rollout decided for does not answer", zap.String("model", p.Model), zap.String("version", label), zap.Error(err))
	}
}

// hold keeps both versions of a model ready: those of this process in memory.
func (n *names) hold(ctx context.Context, p rollout.Plan) (release func(), err error) {
	v := n.of(p.Model)
	if v == nil {
		return nil, fmt.Errorf("%w: %q", admin.ErrNoModel, p.Model)
	}
	var held []func()
	release = func() {
		for _, f := range held {
			f()
		}
	}
	for _, label := range []string{p.Stable, p.Candidate} {
		f, err := v.keep(ctx, p.Model, label)
		if err != nil {
			release()
			return nil, err
		}
		held = append(held, f)
	}
	return release, nil
}
