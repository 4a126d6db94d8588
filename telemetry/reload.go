package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Reloads are the series of configuration reloads, as Prometheus names its own.
type Reloads struct {
	successful prometheus.Gauge
	at         prometheus.Gauge
}

func newReloads() *Reloads {
	r := &Reloads{
		successful: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "weir_config_last_reload_successful",
			Help: "1 if the configuration was valid when it was last read, at the start or at a reload; 0 if an older one is in force.",
		}),
		at: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "weir_config_last_reload_success_timestamp_seconds",
			Help: "Unix time at which the configuration in force was read.",
		}),
	}
	r.ObserveReload(true, time.Now())
	return r
}

// ObserveReload notes a reload of the configuration.
func (r *Reloads) ObserveReload(ok bool, at time.Time) {
	if !ok {
		r.successful.Set(0)
		return
	}
	r.successful.Set(1)
	r.at.Set(float64(at.UnixMilli()) / 1000)
}
