package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Batches are what this process has done of batches, and does now.
type Batches struct {
	Running int // batches
	Lines   int // that run at this moment

	Completed, Failed, Expired, Cancelled, Refused uint64 // lines
}

// AddBatches publishes what read returns at each scrape.
func AddBatches(r Registerer, read func() Batches) error {
	gauge := func(name, help string, value func(Batches) int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value(read())) })
	}
	collectors := []prometheus.Collector{
		gauge("weir_batches_running", "Unfinished batches that this process runs.", func(b Batches) int { return b.Running }),
		gauge("weir_batch_lines_running", "Lines of batches that run at this moment.", func(b Batches) int { return b.Lines }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "weir_batch_line_refusals_total", Help: "Lines of batches that were refused for want of capacity or quota, and waited.",
		}, func() float64 { return float64(read().Refused) }),
	}
	for outcome, value := range map[string]func(Batches) uint64{
		"completed": func(b Batches) uint64 { return b.Completed },
		"failed":    func(b Batches) uint64 { return b.Failed },
		"expired":   func(b Batches) uint64 { return b.Expired },
		"cancelled": func(b Batches) uint64 { return b.Cancelled },
	} {
		collectors = append(collectors, prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "weir_batch_lines_total", Help: "Lines of batches by outcome: completed, failed (an error answer), expired or cancelled (not run).",
			ConstLabels: prometheus.Labels{"outcome": outcome},
		}, func() float64 { return float64(value(read())) }))
	}
	return registerAll(r, collectors)
}
