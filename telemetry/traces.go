package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Traces are the requests whose spans were offered for export since the start.
type Traces struct {
	Sent     uint64
	Overflow uint64 // dropped: too many waited
	Lost     uint64 // dropped: the collector did not take them
}

// AddTraces publishes what read returns at each scrape.
func AddTraces(r Registerer, read func() Traces) error {
	var all []prometheus.Collector
	for outcome, value := range map[string]func(Traces) uint64{
		"sent":     func(t Traces) uint64 { return t.Sent },
		"overflow": func(t Traces) uint64 { return t.Overflow },
		"lost":     func(t Traces) uint64 { return t.Lost },
	} {
		all = append(all, prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name:        "weir_traces_total",
			Help:        "Requests whose trace was to be exported: sent, dropped because too many waited (overflow) or because the collector failed (lost).",
			ConstLabels: prometheus.Labels{"outcome": outcome},
		}, func() float64 { return float64(value(read())) }))
	}
	return registerAll(r, all)
}
