package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Keys count what happens to requests with an idempotency key.
type Keys struct{ requests *prometheus.CounterVec }

func newKeys() *Keys {
	k := &Keys{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_idempotency_keys_total",
		Help: "Requests with an Idempotency-Key, by outcome: executed (and stored), freed (refused, or not stored), replayed, " +
			"in_flight (409), reused (422), failed (an error of the store).",
	}, []string{"outcome"})}
	for _, outcome := range []string{"executed", "freed", "replayed", "in_flight", "reused", "failed"} {
		k.requests.WithLabelValues(outcome)
	}
	return k
}

// CountKey counts one.
func (k *Keys) CountKey(outcome string) { k.requests.WithLabelValues(outcome).Inc() }

// AddUnkept publishes what unkept and late return at each scrape.
func AddUnkept(r Registerer, unkept, late func() uint64) error {
	counter := func(name, help string, read func() uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(read()) })
	}
	return registerAll(r, []prometheus.Collector{
		counter("weir_responses_unkept_total", "Responses that clients wanted to be kept and that the store did not take.", unkept),
		counter("weir_responses_late_total", "Responses whose answers ended before the store had taken them, which it did afterwards or not.", late),
	})
}

// ResponseCache is what happened to requests that the response cache could answer, and
// its state.
type ResponseCache struct {
	Hits, Misses, Evictions uint64
	Bytes                   int64
}

// AddResponseCache publishes what read returns at each scrape.
func AddResponseCache(r Registerer, read func() ResponseCache) error {
	counter := func(name, help string, value func(ResponseCache) uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help},
			func() float64 { return float64(value(read())) })
	}
	return registerAll(r, []prometheus.Collector{
		counter("weir_response_cache_hits_total", "Requests that were answered from the response cache.",
			func(c ResponseCache) uint64 { return c.Hits }),
		counter("weir_response_cache_misses_total", "Requests that the response cache could have answered and did not.",
			func(c ResponseCache) uint64 { return c.Misses }),
		counter("weir_response_cache_evictions_total", "Answers that left the response cache for want of room or by age.",
			func(c ResponseCache) uint64 { return c.Evictions }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "weir_response_cache_bytes", Help: "Memory of the answers in the response cache.",
		}, func() float64 { return float64(read().Bytes) }),
	})
}
