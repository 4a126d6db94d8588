package telemetry

import (
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Build identifies the binary in weir_build_info.
type Build struct {
	Version, Commit, GoVersion string
}

// Metrics is one registry and the series of all processes; each subject has its own. It is safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry
	panics   *prometheus.CounterVec

	*HTTP
	*Answers
	*Keys
	*Reloads
	*Tenants
	*ModelTable
}

// Registerer is where the series of a subject go that not all processes have: Metrics.
type Registerer interface {
	Register(prometheus.Collector) error
}

// NewMetrics returns a registry with the process's, Go's and the HTTP edge's
// series; models join it as they load.
func NewMetrics(b Build) (*Metrics, error) {
	registry, answers := prometheus.NewRegistry(), newAnswers()
	tenants := newTenants(registry)
	m := &Metrics{
		registry: registry,
		panics: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_panics_recovered_total",
			Help: "Panics that were recovered, by the boundary that did; each failed one request or step.",
		}, []string{"boundary"}),
		HTTP:       newHTTP(),
		Answers:    answers,
		Keys:       newKeys(),
		Reloads:    newReloads(),
		Tenants:    tenants,
		ModelTable: newModelTable(registry, answers, tenants),
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
	all := append(m.HTTP.collectors(), answers.requests, answers.streams, m.Keys.requests, m.panics, info,
		m.successful, m.at,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if err := registerAll(m.registry, append(all, m.Tenants.collectors()...)); err != nil {
		return nil, err
	}
	return m, nil
}

func registerAll(r Registerer, all []prometheus.Collector) error {
	for _, c := range all {
		if err := r.Register(c); err != nil {
			return fmt.Errorf("register metric: %w", err)
		}
	}
	return nil
}

// Register adds a collector.
func (m *Metrics) Register(c prometheus.Collector) error { return m.registry.Register(c) }

// Handler serves the registry in the format that the scraper asks for;
// exemplars need OpenMetrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry, EnableOpenMetrics: true})
}

// CountPanic adds a recovered panic at a boundary ("handler", "step").
func (m *Metrics) CountPanic(boundary string) { m.panics.WithLabelValues(boundary).Inc() }
