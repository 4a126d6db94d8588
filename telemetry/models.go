package telemetry

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// ModelTable has the series of models by name. It is safe for concurrent use.
type ModelTable struct {
	registry prometheus.Registerer
	answers  *Answers
	tenants  *Tenants

	mu     sync.RWMutex
	models map[string]*Model
	left   []string // names of models that nothing is served by any more, the first that left first
}

func newModelTable(r prometheus.Registerer, a *Answers, t *Tenants) *ModelTable {
	return &ModelTable{registry: r, answers: a, tenants: t, models: make(map[string]*Model)}
}

// Model returns the series of a model that AddModel added, or nil. A nil
// *Model ignores every observation, so that callers need no branch.
func (t *ModelTable) Model(name string) *Model {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.models[name]
}

// Models lists the names of the models that have series, sorted.
func (t *ModelTable) Models() []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Sorted(maps.Keys(t.models))
}

// AddModel registers a model's series; snapshot is called on every scrape,
// from the scraping goroutine; the scrape lasts as long as it does.
func (t *ModelTable) AddModel(info ModelInfo, snapshot func() Snapshot) (*Model, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, taken := t.models[info.Name]; taken {
		return nil, fmt.Errorf("add metrics of model %q: the name is taken", info.Name)
	}
	return t.addModel(info, snapshot)
}

// SetModel is AddModel for a name that may have been added before: then its series go on,
// and those that describe it say what the version is that answers now.
func (t *ModelTable) SetModel(info ModelInfo, snapshot func() Snapshot) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.back(info.Name)
	model, known := t.models[info.Name]
	if !known {
		_, err := t.addModel(info, snapshot)
		return err
	}
	series := t.seriesOf(info.Name)
	if model.relayed { // the name is computed here from now on
		if err := registerAll(series, append(model.ofEngine(), newSnapshotCollector(snapshot))); err != nil {
			return err
		}
		model.relayed = false
	}
	for _, c := range model.about {
		series.Unregister(c)
	}
	model.about = []prometheus.Collector{cacheConfig(info), modelInfo(info)}
	return registerAll(series, model.about)
}

// AddRelayed registers the series of requests of a model that other servers compute, which have those of the engine. The series of a name
// that was added before go on.
func (t *ModelTable) AddRelayed(name string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.back(name)
	if _, known := t.models[name]; known {
		return nil
	}
	model := newModel(relayedModelLen)
	model.relayed = true
	if err := registerAll(t.seriesOf(name), model.ofRequests()); err != nil {
		return err
	}
	t.answers.add(name)
	t.models[name] = model
	return nil
}

// addModel registers a new model. The caller holds mu.
func (t *ModelTable) addModel(info ModelInfo, snapshot func() Snapshot) (*Model, error) {
	model := newModel(info.MaxModelLen)
	model.about = []prometheus.Collector{cacheConfig(info), modelInfo(info)}
	all := slices.Concat(model.ofRequests(), model.ofEngine(), []prometheus.Collector{newSnapshotCollector(snapshot)})
	if err := registerAll(t.seriesOf(info.Name), append(all, model.about...)); err != nil {
		return nil, err
	}
	t.answers.add(info.Name)
	t.models[info.Name] = model
	return model, nil
}

// seriesOf labels what is registered as a model's.
func (t *ModelTable) seriesOf(model string) prometheus.Registerer {
	return prometheus.WrapRegistererWith(prometheus.Labels{"model_name": model, "engine": "0"}, t.registry)
}

// relayedModelLen is the last bucket of sizes in tokens where a model's context is not known here.
const relayedModelLen = 128 << 10
