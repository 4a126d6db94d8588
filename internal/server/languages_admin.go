package server

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"weir/api/admin"
	"weir/api/openai/models"
	"weir/configs"
	"weir/internal/server/state"
	"weir/router/versions"
)

// List implements admin.Models.
func (l *languages) List() []admin.ModelState {
	states := l.versions.List()
	list := make([]admin.ModelState, len(states))
	var taken int64
	for _, st := range states {
		if st.State == versions.Loaded || st.State == versions.Loading || st.State == versions.Leaving {
			taken += st.Bytes
		}
	}
	for i, st := range states {
		list[i] = admin.ModelState{
			Name: st.Name, Version: st.Label, Digest: st.Digest, State: st.State, Answers: st.Answers, Last: st.Last, Pinned: st.Pinned,
			Requests: st.Holders, Waiting: st.Waiters, Bytes: st.Bytes, Error: st.Why,
		}
		if !st.Used.IsZero() {
			list[i].LastUse = &st.Used
		}
		others := taken
		if st.State == versions.Loaded || st.State == versions.Loading || st.State == versions.Leaving {
			others -= st.Bytes
		}
		list[i].Forecast = l.forecastOf(st.Name, st.Label, others)
	}
	return list
}

// commonTokens is a sequence as many are.
const commonTokens = 2048

// forecastOf is what a version takes, beside what others have taken; nil where its file was not read.
func (l *languages) forecastOf(name, label string, others int64) *admin.Forecast {
	n := (*l.table.Load())[name]
	if n == nil {
		return nil
	}
	at := slices.IndexFunc(n.planned, func(p *planned) bool { return p.label == label })
	if at < 0 {
		return nil
	}
	p := n.planned[at]
	i := &p.info
	f := &admin.Forecast{
		Architecture: i.Architecture, Params: i.Params, WeightBytes: i.MemoryBytes() - i.CacheBytes(), KVBytes: i.CacheBytes(), KVType: i.KVType,
		MaxModelLen: i.MaxModelLen, ContextLength: i.ContextLength, BudgetBytes: l.budget, TakenBytes: others, Embeds: i.Embeds, Fits: admin.FitsUnknown,
	}
	if i.Embeds {
		f.KVBytes, f.KVType = 0, ""
	} else if i.BlockTokens > 0 {
		f.Full, f.Common = i.Sequences(i.MaxModelLen), i.Sequences(min(commonTokens, i.MaxModelLen))
	}
	switch {
	case l.budget == 0:
	case others+p.bytes() <= l.budget:
		f.Fits = admin.FitsNow
	case p.bytes() <= l.budget:
		f.Fits = admin.FitsLater
	default:
		f.Fits = admin.FitsNever
	}
	return f
}

// modelActions are the audit log's names of changes.
var modelActions = map[string]string{
	admin.ModelLoad: state.ActionModelLoad, admin.ModelUnload: state.ActionModelUnload, admin.ModelStop: state.ActionModelStop, admin.ModelAlias: state.ActionModelAlias, admin.ModelRollback: state.ActionModelRollback,
}

// Do implements admin.Models.
func (l *languages) Do(ctx context.Context, by string, c admin.ModelChange) (admin.ModelChanged, error) {
	if c.Action == admin.ModelAlias || c.Action == admin.ModelRollback {
		if err := l.s.deployments.Owns(ctx, c.Name); err != nil {
			return admin.ModelChanged{}, err
		}
	}
	if done, err := l.adapters.do(ctx, by, c); done || err != nil {
		return admin.ModelChanged{Name: c.Name}, err
	}
	st, _, ok := l.versions.Answer(c.Name)
	if !ok {
		return l.s.fleets.do(ctx, by, c)
	}
	about := state.Details{"version": c.Version, "before": st.Label}
	if err := l.s.audit.Add(ctx, by, modelActions[c.Action], c.Name, about); err != nil {
		return admin.ModelChanged{}, err
	}
	if c.Action == admin.ModelRollback && l.s.rollouts.Abort(c.Name, by) {
		return l.moved(c.Name, st.Label, by) // the version answers all that did before the rollout
	}
	var err error
	switch c.Action {
	case admin.ModelLoad:
		err = l.versions.Load(ctx, c.Name, c.Version)
	case admin.ModelUnload:
		err = l.versions.Unload(c.Name, c.Version)
	case admin.ModelStop:
		err = l.versions.Stop(c.Name, c.Version)
	case admin.ModelAlias:
		_, err = l.versions.Move(ctx, c.Name, c.Version)
	case admin.ModelRollback:
		_, _, err = l.versions.Rollback(ctx, c.Name)
	}
	if err != nil {
		l.s.audit.Failed(ctx, by, modelActions[c.Action], c.Name, about, err)
		if errors.Is(err, versions.ErrUnknown) {
			err = fmt.Errorf("%w: %w", admin.ErrNoModel, err)
		}
		return admin.ModelChanged{}, err
	}
	if c.Action == admin.ModelAlias || c.Action == admin.ModelRollback {
		answers, _ := l.answers(c.Name)
		l.s.rollouts.Replaced(c.Name, answers, by)
	}
	return l.moved(c.Name, st.Label, by)
}

// moved lets edge and metrics follow a name, whose version may be another now.
func (l *languages) moved(name, before, by string) (admin.ModelChanged, error) {
	st, _, _ := l.versions.Answer(name)
	done := admin.ModelChanged{Name: name, Version: st.Label}
	if st.Label == before {
		return done, nil
	}
	done.Before = before
	l.changing.Lock()
	defer l.changing.Unlock()
	l.s.log.Info("another version answers", zap.String("model", name), zap.String("version", st.Label), zap.String("before", before), zap.String("by", by))
	return done, l.publish()
}

// answers implements rolled.
func (l *languages) answers(name string) (string, bool) {
	st, _, ok := l.versions.Answer(name)
	return st.Label, ok
}

// keep implements rolled.
func (l *languages) keep(ctx context.Context, name, label string) (func(), error) {
	release, err := l.versions.Keep(ctx, name, label)
	if errors.Is(err, versions.ErrUnknown) {
		err = fmt.Errorf("%w: %w", admin.ErrNoModel, err)
	}
	return release, err
}

// entryOf implements rolled.
func (l *languages) entryOf(name, label string) (*models.Model, func(), bool) {
	lease, err := l.versions.Acquire(name, label)
	if err != nil {
		return nil, nil, false
	}
	r, ok := lease.Content.(*resident)
	if !ok {
		lease.Release()
		return nil, nil, false
	}
	own := *r.entry
	own.Policy = l.policy(name, label)
	return &own, lease.Release, true
}

// withdraw implements rolled. A name that the configuration does not have leaves with the versions of its deployment.
func (l *languages) withdraw(name, by string) error {
	choice, ok := l.choice(name)
	if answers, _ := l.answers(name); !ok || answers == choice {
		return nil
	}
	return l.give(name, choice, by)
}

// choice is the version that the configuration has for a name: the first that is not only loaded on demand of an operator, or else the first.
func (l *languages) choice(name string) (label string, ok bool) {
	l.changing.Lock()
	defer l.changing.Unlock()
	for _, p := range l.configured {
		if p.record.Name != name {
			continue
		}
		if p.record.Load != configs.LoadNever {
			return p.label, true
		}
		if !ok {
			label, ok = p.label, true
		}
	}
	return label, ok
}

// give implements rolled.
func (l *languages) give(name, label, by string) error {
	before, _ := l.answers(name)
	_, err := l.versions.Move(context.Background(), name, label)
	if err == nil {
		_, err = l.moved(name, before, by)
	}
	return err
}
