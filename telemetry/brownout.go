package telemetry

import "github.com/prometheus/client_golang/prometheus"

// AddBrownout registers the gauge of the steps that are in force, and returns what sets it.
func AddBrownout(r Registerer) (set func(level int), err error) {
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "weir_brownout_level",
		Help: "Steps of the brown-out that are in force, by their number in the configuration; 0 is full quality.",
	})
	return func(level int) { g.Set(float64(level)) }, registerAll(r, []prometheus.Collector{g})
}
