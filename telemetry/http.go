package telemetry

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// httpMetrics are the request counters of the HTTP edge, under the names that
// vLLM's instrumentation gives them.
type httpMetrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newHTTPMetrics() httpMetrics {
	return httpMetrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "http_requests_total",
			Help: "HTTP requests by route, method and status class.",
		}, []string{"handler", "method", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "http_request_duration_seconds",
			Help:    "Time from a request's arrival to its answer; of a stream, to its header.",
			Buckets: []float64{.1, .5, 1},
		}, []string{"handler", "method"}),
	}
}

func (h httpMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{h.requests, h.duration}
}

// ObserveHTTP counts one answered request. route is the pattern that matched
// (never the client's own path, whose values have no bound), or "none".
func (m *Metrics) ObserveHTTP(route, method string, status int, seconds float64) {
	m.http.requests.WithLabelValues(route, method, strconv.Itoa(status/100)+"xx").Inc()
	m.http.duration.WithLabelValues(route, method).Observe(seconds)
}
