package telemetry

import "github.com/prometheus/client_golang/prometheus"

// DeploymentStates are the values of the label state of weir_deployments.
var DeploymentStates = []string{"pending", "pulling", "verifying", "loading", "rolling_out", "serving", "rolled_back", "failed", "elsewhere"}

// deployments counts the deployments that a server follows.
type deployments struct {
	read  func() map[string]int
	count *prometheus.Desc
}

// AddDeployments registers how many deployments are in which state on this server; read is called on every scrape.
func AddDeployments(r Registerer, read func() map[string]int) error {
	return registerAll(r, []prometheus.Collector{&deployments{
		read: read, count: prometheus.NewDesc("weir_deployments", "Deployments that this server follows, by where it is on the way to what they want.", []string{"state"}, nil),
	}})
}

// Describe implements prometheus.Collector.
func (d *deployments) Describe(to chan<- *prometheus.Desc) { to <- d.count }

// Collect implements prometheus.Collector.
func (d *deployments) Collect(to chan<- prometheus.Metric) {
	now := d.read()
	for _, s := range DeploymentStates {
		to <- prometheus.MustNewConstMetric(d.count, prometheus.GaugeValue, float64(now[s]), s)
	}
}
