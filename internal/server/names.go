package server

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"weir/api/admin"
	"weir/api/openai/models"
	"weir/internal/server/rollouts"
	"weir/internal/server/state"
	"weir/internal/tensor"
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
// version to another for rollouts and deployments. They implement rollouts.Models.
type names struct {
	all        []rolled // a name is of the first that has it
	predictors *predictors
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

// IsClassic reports whether a model is a classical one.
func (n *names) IsClassic(model string) bool {
	_, classic := n.of(model).(*predictors)
	return classic
}

// EntryOf is a version of a model that is ready, until release is called; false: it is not there, or its model is a classical one.
func (n *names) EntryOf(model, label string) (entry *models.Model, release func(), ok bool) {
	if v, ok := n.of(model).(generating); ok {
		return v.entryOf(model, label)
	}
	return nil, nil, false
}

// Answers is the version that requests get which name none; false: there is no such model.
func (n *names) Answers(model string) (label string, ok bool) {
	if v := n.of(model); v != nil {
		return v.answers(model)
	}
	return "", false
}

// Keep holds a version ready until release is called: one of this process in memory.
func (n *names) Keep(ctx context.Context, model, label string) (release func(), err error) {
	if v := n.of(model); v != nil {
		return v.keep(ctx, model, label)
	}
	return nil, fmt.Errorf("%w: %q", admin.ErrNoModel, model)
}

// Give lets a version answer for its name.
func (n *names) Give(model, label, by string) error {
	if v := n.of(model); v != nil {
		return v.give(model, label, by)
	}
	return fmt.Errorf("%w: %q", admin.ErrNoModel, model)
}

// Inputs are what a version of a classical model takes; false: it is out of order.
func (n *names) Inputs(model, label string) ([]tensor.Spec, bool) {
	found, err := n.predictors.enriched.Find(model, label)
	if err != nil || found.Describe() == nil {
		return nil, false
	}
	return found.Describe().Inputs, true
}

// namesInStore are the models that deployments and rollouts of the store have, or may have, given to other versions than the configuration does.
func namesInStore(ctx context.Context, s *Server) map[string]bool {
	names := make(map[string]bool)
	if s.store == nil {
		return names
	}
	ctx, cancel := context.WithTimeout(ctx, state.Timeout)
	defer cancel()
	records, err := s.deployments.kept.Deployments(ctx)
	for i := range records {
		names[records[i].Model] = true
	}
	list, failed := s.rollouts.Names(ctx)
	for _, name := range list {
		names[name] = true
	}
	if err := errors.Join(err, failed); err != nil {
		s.log.Error("which names are another version's cannot be read from the store; the configuration decides until it is back", zap.Error(err))
	}
	return names
}

var _ rollouts.Models = (*names)(nil)
