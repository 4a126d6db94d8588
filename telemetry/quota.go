package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Quota says how the meter does that several weirs share, since the start.
type Quota struct {
	Up       bool
	Failures uint64 // calls that Redis did not answer
	Local    uint64 // requests that this process decided by itself
	Lost     uint64 // requests whose use was not counted
}

// AddQuota publishes what read returns at each scrape.
func AddQuota(r Registerer, read func() Quota) error {
	counter := func(name, help string, value func(Quota) uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(value(read())) })
	}
	return registerAll(r, []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "weir_quota_shared_up", Help: "Whether the last call reached the Redis in which weirs count quotas together.",
		}, func() float64 {
			if read().Up {
				return 1
			}
			return 0
		}),
		counter("weir_quota_shared_failures_total", "Calls that the Redis of quotas did not answer.", func(q Quota) uint64 { return q.Failures }),
		counter("weir_quota_local_decisions_total", "Requests that this process decided by itself because Redis could not be reached.",
			func(q Quota) uint64 { return q.Local }),
		counter("weir_quota_lost_total", "Requests whose use was not counted in Redis.", func(q Quota) uint64 { return q.Lost }),
	})
}
