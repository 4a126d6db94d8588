package server

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"go.uber.org/zap"

	"weir/api/admin"
	"weir/api/openai/models"
	"weir/configs"
	"weir/internal/server/state"
	"weir/router"
)

// Records with replicas that have one name are versions of it, each with a fleet of its own. A name with
// several versions may have rollouts, as one of the versions of this process has.

// routedName is a model that other servers compute, in one or several versions. It is never changed.
type routedName struct {
	versions []*routed // in the file's order
	entries  []*models.Model
	answers  int // index of the version that requests get
}

// move is what a rollout or an operator has decided: label answers, where the file's default was over.
type move struct{ label, over string }

// label gives versions without a name their place in the file's order.
func label(list []*routed) {
	places := make(map[string]int)
	for _, r := range list {
		if r == nil {
			continue // it could not be made
		}
		places[r.record.Name]++
		if r.label = r.record.Version; r.label == "" {
			r.label = strconv.Itoa(places[r.record.Name])
		}
	}
}

// names are the models by name. The caller holds mu.
func (f *fleets) names() map[string]*routedName {
	table := make(map[string]*routedName)
	for _, r := range f.list {
		n := table[r.record.Name]
		if n == nil {
			n = &routedName{answers: -1}
			table[r.record.Name] = n
		}
		if n.answers < 0 && r.record.Load != configs.LoadNever {
			n.answers = len(n.versions)
		}
		n.versions, n.entries = append(n.versions, r), append(n.entries, r.entry())
	}
	for name, n := range table {
		n.answers = f.answering(name, n)
	}
	return table
}

// answering is the place of the version that answers for a name of a list. n has that of the configuration's choice; where it has none, the first
// version is. The caller holds mu.
func (f *fleets) answering(name string, n *routedName) int {
	choice := max(n.answers, 0)
	m, ok := f.moved[name]
	decided := f.s.deployments.decides(name)
	if before := (*f.table.Load())[name]; !ok && decided && before != nil {
		m, ok = move{label: before.versions[before.answers].label}, true
	}
	if i := n.index(m.label); ok && i >= 0 && (decided || n.versions[choice].label == m.over) {
		return i
	}
	delete(f.moved, name) // the configuration says something else now
	return choice
}

// order lists the names in the file's order. The caller holds mu.
func (f *fleets) order() []string {
	var names []string
	for _, r := range f.list {
		if !slices.Contains(names, r.record.Name) {
			names = append(names, r.record.Name)
		}
	}
	return names
}

// served lists the names.
func (f *fleets) served() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.order()
}

// index is the place of a version; -1: there is none of this label.
func (n *routedName) index(label string) int {
	return slices.IndexFunc(n.versions, func(r *routed) bool { return r.label == label })
}

// answersBy reports whether requests that name no version get this one.
func (n *routedName) answersBy(r *routed) bool { return n != nil && n.versions[n.answers] == r }

// entry is the version as the edge knows it.
func (r *routed) entry() *models.Model {
	m := &models.Model{
		ID: r.record.Name, Aliases: r.record.Aliases, Created: r.created, Upstream: r.fleet, Fallback: r.record.Fallback, Version: r.record.Version,
		Policy: r.policy,
	}
	if r.reads != nil {
		m.Tokenizer, m.Template, m.Family = r.reads.tokenizer, r.reads.template.Template, r.reads.template.Family
	}
	return m
}

// model is the entry of the table: that of the version that answers, with the aliases of all.
func (n *routedName) model(f *fleets) *models.Model {
	m := *n.entries[n.answers]
	m.Price = f.s.prices.of(m.ID)
	m.Aliases = nil
	for _, r := range n.versions {
		for _, a := range r.record.Aliases {
			if !slices.Contains(m.Aliases, a) {
				m.Aliases = append(m.Aliases, a)
			}
		}
	}
	if len(n.versions) > 1 {
		m.Versions = f
	}
	return &m
}

// shown names a version where its name has several. The caller holds mu.
func (f *fleets) shown(r *routed) string {
	if n := (*f.table.Load())[r.record.Name]; n == nil || len(n.versions) < 2 {
		return r.record.Name
	}
	return r.record.Name + "@" + r.label
}

// Outline implements models.Versions.
func (f *fleets) Outline(name string) models.Outline {
	n := (*f.table.Load())[name]
	if n == nil {
		return models.Outline{}
	}
	r := n.versions[n.answers]
	load := r.fleet.Load()
	return models.Outline{Version: r.record.Version, Label: r.label, Policy: r.policy, Load: router.Load{Ready: load.Ready, Why: load.Why}}
}

// Acquire implements models.Versions.
func (f *fleets) Acquire(a *models.VersionRequest) (models.VersionLease, error) {
	n := (*f.table.Load())[a.Model]
	if n == nil {
		return models.VersionLease{}, fmt.Errorf("%w: the model %q is served no more", models.ErrNoVersion, a.Model)
	}
	wanted := a.Version
	d, rolling := f.s.rollouts.Choose(a, func(version string) bool {
		i := n.index(version)
		return i < 0 || n.versions[i].fleet.Reaches(a.Residency)
	})
	if rolling {
		wanted = d.Version
	}
	i := n.answers
	if wanted != "" {
		i = n.index(wanted)
	}
	if i < 0 && rolling { // a reload has taken the version away
		f.s.rollouts.Lost(a.Model, fmt.Errorf("the version %q is not there any more", wanted))
		rolling, i = false, n.answers
	}
	if i < 0 {
		return models.VersionLease{}, fmt.Errorf("%w: %s@%s", models.ErrNoVersion, a.Model, wanted)
	}
	held := models.VersionLease{Model: n.entries[i], Release: func() {}, Label: n.versions[i].label, Policy: n.versions[i].policy}
	held.Price = f.s.prices.ofVersion(a.Model, held.Label)
	if rolling {
		f.s.rollouts.Mark(&held, a, d)
	}
	return held, nil
}

// answers implements rolled.
func (f *fleets) answers(name string) (string, bool) {
	n := (*f.table.Load())[name]
	if n == nil {
		return "", false
	}
	return n.versions[n.answers].label, true
}

// has reports whether a name has a version of this label.
func (f *fleets) has(name, label string) bool {
	n := (*f.table.Load())[name]
	return n != nil && n.index(label) >= 0
}

// hasVersions reports whether a name has several versions.
func (f *fleets) hasVersions(name string) bool {
	n := (*f.table.Load())[name]
	return n != nil && len(n.versions) > 1
}

// withdraw implements rolled.
func (f *fleets) withdraw(name, _ string) error {
	f.mu.Lock()
	delete(f.moved, name)
	locals := f.locals
	f.mu.Unlock()
	return f.publish(locals)
}

// keep implements rolled: nothing of a fleet is in memory here.
func (f *fleets) keep(_ context.Context, name, label string) (func(), error) {
	if n := (*f.table.Load())[name]; n == nil || n.index(label) < 0 {
		return nil, fmt.Errorf("%w: %s@%s; list its replicas under models with the version %q", admin.ErrNoModel, name, label, label)
	}
	return func() {}, nil
}

// entryOf implements rolled.
func (f *fleets) entryOf(name, label string) (*models.Model, func(), bool) {
	n := (*f.table.Load())[name]
	if n == nil || n.index(label) < 0 {
		return nil, nil, false
	}
	return n.entries[n.index(label)], func() {}, true
}

// give implements rolled.
func (f *fleets) give(name, label, by string) error {
	f.mu.Lock()
	n := f.names()[name]
	if n == nil || n.index(label) < 0 {
		f.mu.Unlock()
		return fmt.Errorf("%w: %.100s@%.100s", admin.ErrNoModel, name, label)
	}
	before := n.versions[n.answers].label
	over := before
	if m, ok := f.moved[name]; ok {
		over = m.over
	}
	f.moved[name] = move{label, over}
	if label == over {
		delete(f.moved, name)
	}
	locals := f.locals
	f.mu.Unlock()
	f.s.log.Info("another version answers", zap.String("model", name), zap.String("version", label), zap.String("before", before), zap.String("by", by))
	return f.publish(locals)
}

// do moves a name, or takes a move back, for an operator.
func (f *fleets) do(ctx context.Context, by string, c admin.ModelChange) (admin.ModelChanged, error) {
	before, ok := f.answers(c.Name)
	if !ok {
		return f.s.predictors.do(ctx, by, c)
	}
	to := c.Version
	switch c.Action {
	case admin.ModelAlias:
	case admin.ModelRollback:
		f.mu.Lock()
		m, ok := f.moved[c.Name]
		f.mu.Unlock()
		if f.s.rollouts.Running(c.Name) {
			m.over = before // the rollout ends, and the version answers all that did before it
		} else if !ok {
			return admin.ModelChanged{}, fmt.Errorf("the name %q was not moved, so there is no version to go back to", c.Name)
		}
		to = m.over
	default:
		return admin.ModelChanged{}, fmt.Errorf("the model %q is computed by other servers, so nothing of it is loaded or unloaded here", c.Name)
	}
	if err := f.s.audit.Add(ctx, by, modelActions[c.Action], c.Name, state.Details{"version": to, "before": before}); err != nil {
		return admin.ModelChanged{}, err
	}
	if f.s.rollouts.Abort(c.Name, by) && to == before {
		return admin.ModelChanged{Name: c.Name, Version: to}, nil
	}
	if err := f.give(c.Name, to, by); err != nil {
		f.s.audit.Failed(ctx, by, modelActions[c.Action], c.Name, state.Details{"version": to, "before": before}, err)
		return admin.ModelChanged{}, err
	}
	f.s.rollouts.Replaced(c.Name, to, by)
	return admin.ModelChanged{Name: c.Name, Version: to, Before: before}, nil
}

var _ models.Versions = (*fleets)(nil)
