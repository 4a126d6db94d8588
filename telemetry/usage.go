package telemetry

import "github.com/prometheus/client_golang/prometheus"

// AddUsage publishes how many requests' usage is in no report, as dropped has it at each scrape.
func AddUsage(r Registerer, dropped func() uint64) error {
	return registerAll(r, []prometheus.Collector{
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "weir_usage_dropped_total",
			Help: "Requests whose usage is lost: the database was away for too long, or refuses what they used.",
		}, func() float64 { return float64(dropped()) }),
	})
}
