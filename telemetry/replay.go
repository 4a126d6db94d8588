package telemetry

import "github.com/prometheus/client_golang/prometheus"

// newKeyMetrics counts what becomes of requests with an idempotency key.
func newKeyMetrics() *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_idempotency_keys_total",
		Help: "Requests with an Idempotency-Key, by outcome: executed (and stored), freed (refused, or not stored), replayed, " +
			"in_flight (409), reused (422), failed (an error of the store).",
	}, []string{"outcome"})
	for _, outcome := range []string{"executed", "freed", "replayed", "in_flight", "reused", "failed"} {
		v.WithLabelValues(outcome)
	}
	return v
}

// CountKey counts one.
func (m *Metrics) CountKey(outcome string) { m.keys.WithLabelValues(outcome).Inc() }
