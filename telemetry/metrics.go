package telemetry

import (
	"fmt"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Build identifies the binary in weir_build_info.
type Build struct {
	Version, Commit, GoVersion string
}

// Metrics is one registry and everything in it. It is safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry
	http     httpMetrics
	answers  answers
	keys     *prometheus.CounterVec // requests with an idempotency key
	panics   *prometheus.CounterVec
	reloads  reloads
	tenants  *tenantMetrics

	mu     sync.RWMutex
	models map[string]*Model
}

// NewMetrics returns a registry with the process's, Go's and the HTTP edge's
// series; models join it as they load.
func NewMetrics(b Build) (*Metrics, error) {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		http:     newHTTPMetrics(),
		answers:  newAnswers(),
		keys:     newKeyMetrics(),
		reloads:  newReloads(),
		tenants:  newTenantMetrics(),
		panics: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_panics_recovered_total",
			Help: "Panics that were recovered, by the boundary that did; each failed one request or step.",
		}, []string{"boundary"}),
		models: make(map[string]*Model),
	}
	for _, boundary := range []string{"handler", "stream"} {
		m.panics.WithLabelValues(boundary) // present, at 0, before the first
	}
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "weir_build_info",
		Help:        "Always 1; the labels identify the binary.",
		ConstLabels: prometheus.Labels{"version": b.Version, "commit": b.Commit, "go_version": b.GoVersion},
	})
	info.Set(1)
	all := append(m.http.collectors(), m.answers.requests, m.answers.streams, m.keys, m.panics, info,
		m.reloads.successful, m.reloads.at,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if err := registerAll(m.registry, append(all, m.tenants.collectors()...)); err != nil {
		return nil, err
	}
	return m, nil
}

func registerAll(r prometheus.Registerer, all []prometheus.Collector) error {
	for _, c := range all {
		if err := r.Register(c); err != nil {
			return fmt.Errorf("register metric: %w", err)
		}
	}
	return nil
}

// Handler serves the registry in the format that the scraper asks for;
// exemplars need OpenMetrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry, EnableOpenMetrics: true})
}

// CountPanic adds a recovered panic at a boundary ("handler", "step").
func (m *Metrics) CountPanic(boundary string) { m.panics.WithLabelValues(boundary).Inc() }

// Model returns the series of a model that AddModel added, or nil. A nil
// *Model ignores every observation, so that callers need no branch.
func (m *Metrics) Model(name string) *Model {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.models[name]
}
