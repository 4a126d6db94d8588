package server

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"weir/configs"
	"weir/internal/console"
	"weir/router"
	"weir/router/fleet"
)

// remotePredictors are the classical models that other servers compute.
type remotePredictors struct {
	p     *predictors
	begin func(func(context.Context)) context.CancelFunc
	end   context.CancelFunc // of all that watch replicas

	mu     sync.Mutex
	models map[string][]*remotePredictor // by name: its versions, in the file's order
	moved  map[string]string             // by name: the version that a rollout or a deployment has given it to
}

// remotePredictor is one of them, or one of the versions of one. A record without a version has that which its replicas tell.
type remotePredictor struct {
	record    configs.Classic
	fleet     *fleet.Fleet
	predictor *fleet.Predictor
	served    router.Predictor // with its metrics; nil until a replica has told of the model
	stop      context.CancelFunc
}

func newRemotePredictors(p *predictors) *remotePredictors {
	r := &remotePredictors{p: p, moved: make(map[string]string)}
	r.begin, r.end = background()
	return r
}

// prepare makes the fleets of a configuration, and asks new ones what their models are; those of records that have not
// changed stay. commit cannot fail.
func (r *remotePredictors) prepare(c configs.Config) (commit func(), err error) {
	next, opened, err := r.plan(c)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), firstLookTimeout)
	defer cancel()
	var looks sync.WaitGroup
	for _, m := range opened {
		looks.Go(func() { m.predictor.Look(ctx) })
	}
	looks.Wait()
	return func() { r.commit(next) }, nil
}

// firstLookTimeout is how long the servers behind a new model may take to tell what it is before it is served all the
// same, and its callers are told to come again.
const firstLookTimeout = 2 * time.Second

// plan is the models of a configuration, and those among them that are new.
func (r *remotePredictors) plan(c configs.Config) (next map[string][]*remotePredictor, opened []*remotePredictor, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next = make(map[string][]*remotePredictor)
	for _, m := range c.ClassicModels() {
		if len(m.Replicas) == 0 {
			continue
		}
		if others := next[m.Name]; len(others) > 0 && (m.Version == "" || others[0].record.Version == "" || versionOf(others, m.Version) != nil) {
			return nil, nil, console.ConfigError(fmt.Errorf("classic: the model %q with replicas is listed twice; give each record a version of its own", m.Name))
		}
		made := versionOf(r.models[m.Name], m.Version)
		if made == nil || !reflect.DeepEqual(made.record, m) {
			if made, err = r.open(m); err != nil {
				return nil, nil, console.ConfigError(err)
			}
			opened = append(opened, made)
		}
		next[m.Name] = append(next[m.Name], made)
	}
	return next, opened, nil
}

// versionOf is the version of a label; nil: there is none.
func versionOf(list []*remotePredictor, label string) *remotePredictor {
	i := slices.IndexFunc(list, func(m *remotePredictor) bool { return m.record.Version == label })
	if i < 0 {
		return nil
	}
	return list[i]
}

// chosen is the version of a name that a request gets; of "" that which the name was moved to, or the file's. nil: there is none. The
// caller holds mu.
func (r *remotePredictors) chosen(name, version string) *remotePredictor {
	list := r.models[name]
	if moved := versionOf(list, r.moved[name]); version == "" && moved != nil {
		return moved
	}
	return configured(list, version)
}

// move lets a version answer for its name; false: there is none of this name and version.
func (r *remotePredictors) move(name, version string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if version == "" || versionOf(r.models[name], version) == nil {
		return false
	}
	r.moved[name] = version
	return true
}

// choice is the version that the file has for a name; ok is false where no servers compute it.
func (r *remotePredictors) choice(name string) (label string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := configured(r.models[name], "")
	if m == nil {
		return "", false
	}
	return m.record.Version, true
}

// configured is the version of a label; of "" the first one that is no candidate. nil: there is none.
func configured(list []*remotePredictor, version string) *remotePredictor {
	switch {
	case len(list) == 0:
		return nil
	case list[0].record.Version == "": // find compares what the replicas tell
		return list[0]
	case version != "":
		return versionOf(list, version)
	}
	return list[max(0, slices.IndexFunc(list, func(m *remotePredictor) bool { return !m.record.Candidate }))]
}

func (r *remotePredictors) open(m configs.Classic) (*remotePredictor, error) {
	of, err := m.Fleet()
	if err != nil {
		return nil, err
	}
	of.Bodies, of.Discover = r.p.s.bodies, discovery(r.p.s.deployments)
	of.Balance.Seed = uint64(time.Now().UnixNano()) //nolint:gosec // a seed
	of.Changed = func(c fleet.Change) {
		r.p.s.log.Info("replica", zap.String("model", m.Name), zap.String("replica", c.Replica), zap.String("change", c.What), zap.String("why", c.Why))
	}
	f, err := fleet.New(of)
	if err != nil {
		return nil, err
	}
	return &remotePredictor{record: m, fleet: f, predictor: fleet.NewPredictor(f)}, nil
}

func (r *remotePredictors) commit(next map[string][]*remotePredictor) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, list := range next {
		for _, m := range list {
			if m.stop == nil {
				m.stop = r.begin(m.predictor.Run)
			}
		}
	}
	for name, list := range r.models {
		for _, old := range list {
			if !slices.Contains(next[name], old) {
				old.stop()
				old.fleet.Close()
			}
		}
	}
	r.models = next
}

// find is a model that other servers compute; nil: there is none of this name and version.
func (r *remotePredictors) find(name, version string) router.Predictor {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.chosen(name, version)
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

// version is the label of a version; ok is false where no servers compute it.
func (r *remotePredictors) version(name, version string) (label string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.chosen(name, version)
	if m == nil || m.record.Version == "" {
		return "", false
	}
	return m.record.Version, true
}

// reaches reports whether a request that has to stay in the regions may go to a version: also to one that is computed here.
func (r *remotePredictors) reaches(name, version string, regions []string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.chosen(name, version)
	return m == nil || m.fleet.Reaches(regions)
}

// index lists them as the protocols' repositories do.
func (r *remotePredictors) index() []router.ModelState {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []router.ModelState
	for _, name := range slices.Sorted(maps.Keys(r.models)) {
		for _, m := range r.models[name] {
			list = append(list, m.state())
		}
	}
	return list
}

func (m *remotePredictor) state() router.ModelState {
	about, load := m.predictor.Describe(), m.fleet.Load()
	switch {
	case about == nil:
		return router.ModelState{Name: m.record.Name, Version: m.record.Version, Reason: cmp.Or(load.Why, "no replica has told of the model yet")}
	case !load.Ready:
		return router.ModelState{Name: m.record.Name, Version: about.Version, Reason: load.Why}
	}
	return router.ModelState{Name: m.record.Name, Version: about.Version, Ready: true}
}

// answering lists the versions that requests get which name none.
func (r *remotePredictors) answering() []router.ModelState {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []router.ModelState
	for _, name := range slices.Sorted(maps.Keys(r.models)) {
		if m := r.chosen(name, ""); m != nil {
			list = append(list, m.state())
		}
	}
	return list
}

// close stops watching.
func (r *remotePredictors) close() {
	r.end()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, list := range r.models {
		for _, m := range list {
			m.fleet.Close()
		}
	}
}
