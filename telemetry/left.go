package telemetry

import (
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// mostLeft is how many names that nothing is served by keep their series, so that scrapes to come find their last counts. Adapters come and
// go under new names while a server runs.
const mostLeft = 64

// Leave says that nothing is served any more by a name that AddRelayed added. Its series go once mostLeft other names have left after it.
func (t *ModelTable) Leave(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if model := t.models[name]; model == nil || !model.relayed || slices.Contains(t.left, name) {
		return
	}
	if t.left = append(t.left, name); len(t.left) <= mostLeft {
		return
	}
	t.drop(t.left[0])
	t.left = slices.Delete(t.left, 0, 1)
}

// back says that a name is served again. The caller holds mu.
func (t *ModelTable) back(name string) {
	t.left = slices.DeleteFunc(t.left, func(n string) bool { return n == name })
}

// drop takes a model's series away. The caller holds mu.
func (t *ModelTable) drop(name string) {
	series := t.seriesOf(name)
	for _, c := range t.models[name].ofRequests() {
		series.Unregister(c)
	}
	delete(t.models, name)
	t.answers.drop(name)
	t.tenants.drop(name)
}

func (a *Answers) drop(model string) {
	of := prometheus.Labels{"model_name": model}
	a.requests.DeletePartialMatch(of)
	a.streams.DeletePartialMatch(of)
}

func (t *Tenants) drop(model string) {
	t.ends.drop(model)
	t.versions.drop(func(version string) bool { return strings.HasPrefix(version, model+"\x00") })
	of := prometheus.Labels{"model_name": model}
	for _, c := range []*prometheus.CounterVec{t.tokens, t.compute, t.cost, t.answers} {
		c.DeletePartialMatch(of)
	}
}

func (n *names) drop(of func(name string) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.seen, func(name string, _ struct{}) bool { return of(name) })
}

func (e *ends) drop(model string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.list, func(k endKey, _ *endSeries) bool { return k.model == model })
}
