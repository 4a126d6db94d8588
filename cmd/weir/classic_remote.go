package main

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"weir/configs"
	"weir/router"
	"weir/router/balance"
	"weir/router/fleet"
)

// remotePredictors are the classical models that other servers compute.
type remotePredictors struct {
	p     *predictors
	begin func(func(context.Context)) context.CancelFunc
	end   context.CancelFunc // of all that watch replicas

	mu     sync.Mutex
	models map[string]*remotePredictor // by name
}

// remotePredictor is one of them.
type remotePredictor struct {
	record    configs.Classic
	fleet     *fleet.Fleet
	predictor *fleet.Predictor
	served    router.Predictor // with its metrics; nil until a replica has told of the model
	stop      context.CancelFunc
}

func newRemotePredictors(p *predictors) *remotePredictors {
	r := &remotePredictors{p: p}
	r.begin, r.end = background()
	return r
}

// prepare makes the fleets of a configuration; those of records that have not changed stay.
// commit cannot fail.
func (r *remotePredictors) prepare(c configs.Config) (commit func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := make(map[string]*remotePredictor)
	for _, m := range c.ClassicModels() {
		if len(m.Replicas) == 0 {
			continue
		}
		if next[m.Name] != nil {
			return nil, configError(fmt.Errorf("classic: the model %q with replicas is listed twice; its versions are those of the replicas", m.Name))
		}
		if old := r.models[m.Name]; old != nil && reflect.DeepEqual(old.record, m) {
			next[m.Name] = old
			continue
		}
		if next[m.Name], err = r.open(m); err != nil {
			return nil, configError(err)
		}
	}
	return func() { r.commit(next) }, nil
}

func (r *remotePredictors) open(m configs.Classic) (*remotePredictor, error) {
	policy, err := balance.ParsePolicy(m.Policy)
	if err != nil {
		return nil, err
	}
	f, err := fleet.New(fleet.Config{
		Model: m.Name, Sources: m.Replicas, Routing: m.Routing,
		Balance: balance.Config{Policy: policy, Seed: uint64(time.Now().UnixNano())}, //nolint:gosec // a seed
		Changed: func(c fleet.Change) {
			r.p.s.log.Info("replica", zap.String("model", m.Name), zap.String("replica", c.Replica), zap.String("change", c.What), zap.String("why", c.Why))
		},
	})
	if err != nil {
		return nil, err
	}
	return &remotePredictor{record: m, fleet: f, predictor: fleet.NewPredictor(f)}, nil
}

func (r *remotePredictors) commit(next map[string]*remotePredictor) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range next {
		if m.stop == nil {
			m.stop = r.begin(m.predictor.Run)
		}
	}
	for name, old := range r.models {
		if next[name] != old {
			old.stop()
			old.fleet.Close()
		}
	}
	r.models = next
}

// find is a model that other servers compute; nil: there is none of this name and version.
func (r *remotePredictors) find(name, version string) router.Predictor {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.models[name]
	if m == nil {
		return nil
	}
	about := m.predictor.Describe()
	switch {
	case about == nil:
		return m.predictor
	case version != "" && version != about.Version:
		return nil
	case m.served == nil:
		m.served = &observed{m.predictor, r.p.series.Of(name, about.Version)}
	}
	return m.served
}

// index lists them as the protocols' repositories do.
func (r *remotePredictors) index() []router.ModelState {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []router.ModelState
	for _, name := range slices.Sorted(maps.Keys(r.models)) {
		state := router.ModelState{Name: name, Reason: "no replica has told of the model yet"}
		if about := r.models[name].predictor.Describe(); about != nil {
			state = router.ModelState{Name: name, Version: about.Version, Ready: r.models[name].fleet.Load().Ready}
			if !state.Ready {
				state.Reason = "no replica takes requests"
			}
		}
		list = append(list, state)
	}
	return list
}

// close stops watching.
func (r *remotePredictors) close() {
	r.end()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.models {
		m.fleet.Close()
	}
}
