package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Features is what the features of classical models say at a scrape.
type Features struct {
	Stores []FeatureStore
	Models []FeatureModel
}

// FeatureStore is an online store, since the start.
type FeatureStore struct {
	Breaker                            string // closed, half-open, open
	Reads, Failures, Timeouts, Refused int64
}

// FeatureModel is a version of a model whose features are joined or watched.
type FeatureModel struct {
	Model, Version string
	Remembered     int // entities in the cache
	Values         []FeatureValues
	OutOfRange     map[string]int64 // values by feature
	Drift          []Drift
	Log            *PredictionLog // nil: none is kept
}

// FeatureValues counts values of one view by where they came from.
type FeatureValues struct {
	View, Outcome string
	Count         int64
}

// Drift is that of a column in its last window.
type Drift struct {
	Kind, Name  string // feature or score
	PSI, JS, KS float64
	Judged      bool // a window was
	Drifting    bool
}

// PredictionLog counts rows.
type PredictionLog struct {
	Written, Dropped uint64
	Queued           int // requests
}

// maxColumnSeries bounds the columns of all models together that have series of their
// own; how many drift is always told of all.
const maxColumnSeries = 200

// featureMetrics writes Features in Prometheus's terms.
type featureMetrics struct {
	read                                                  func() Features
	breaker, reads, failures, timeouts, refused           *prometheus.Desc
	values, remembered, outOfRange, psi, js, ks, drifting *prometheus.Desc
	columns, logRows, logQueued                           *prometheus.Desc
}

// AddFeatures publishes what read returns at each scrape, and returns what observes a
// read of the online store.
func AddFeatures(r Registerer, read func() Features) (observe func(took time.Duration, err error), err error) {
	seconds := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "weir_feature_store_seconds", Help: "Time of reads of the online feature store, those that failed too.",
		Buckets: []float64{0.0001, 0.00025, 0.0005, 0.001, 0.002, 0.003, 0.004, 0.005, 0.0075, 0.01, 0.025, 0.05, 0.1, 1},
	})
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	model := []string{"model", "version"}
	column := []string{"model", "version", "kind", "column"}
	f := &featureMetrics{
		read:     read,
		breaker:  desc("weir_feature_store_breaker", "1 for the state of the breaker before the online feature store, 0 for others.", "state"),
		reads:    desc("weir_feature_store_reads_total", "Reads of the online feature store."),
		failures: desc("weir_feature_store_failures_total", "Reads that the online feature store did not answer, timeouts among them."),
		timeouts: desc("weir_feature_store_timeouts_total", "Reads that took longer than their request allowed."),
		refused:  desc("weir_feature_store_refused_total", "Reads that were not tried because the breaker is open."),
		values: desc("weir_feature_values_total", "Values of features by view and by where they came from, or why there was none; "+
			"the view is empty for features that are not stored.", "model", "version", "view", "outcome"),
		remembered: desc("weir_feature_cache_entities", "Entities whose features are remembered.", model...),
		outOfRange: desc("weir_feature_out_of_range_total", "Values outside of the range or the categories of their feature.", "model", "version", "feature"),
		psi:        desc("weir_drift_psi", "Population stability index of a feature or score in its last window.", column...),
		js:         desc("weir_drift_js_distance", "Jensen-Shannon distance of a feature or score in its last window.", column...),
		ks:         desc("weir_drift_ks", "Kolmogorov-Smirnov distance of a feature or score in its last window.", column...),
		drifting:   desc("weir_drift_drifting", "Whether a feature or score drifts.", column...),
		columns:    desc("weir_drift_columns", "Features and scores by state.", "model", "version", "state"),
		logRows:    desc("weir_prediction_log_rows_total", "Rows of the prediction log: written in whole files, or dropped.", "model", "version", "outcome"),
		logQueued:  desc("weir_prediction_log_queued", "Requests that wait to be written into the prediction log.", model...),
	}
	return func(took time.Duration, _ error) { seconds.Observe(took.Seconds()) }, registerAll(r, []prometheus.Collector{seconds, f})
}

// Describe implements prometheus.Collector.
func (f *featureMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{f.breaker, f.reads, f.failures, f.timeouts, f.refused, f.values, f.remembered, f.outOfRange,
		f.psi, f.js, f.ks, f.drifting, f.columns, f.logRows, f.logQueued} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (f *featureMetrics) Collect(out chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	all := f.read()
	for _, s := range all.Stores {
		for _, state := range []string{"closed", "half-open", "open"} {
			gauge(f.breaker, truth(s.Breaker == state), state)
		}
		counter(f.reads, float64(s.Reads))
		counter(f.failures, float64(s.Failures))
		counter(f.timeouts, float64(s.Timeouts))
		counter(f.refused, float64(s.Refused))
	}
	room := maxColumnSeries
	for i := range all.Models {
		m := &all.Models[i]
		for _, v := range m.Values {
			counter(f.values, float64(v.Count), m.Model, m.Version, v.View, v.Outcome)
		}
		gauge(f.remembered, float64(m.Remembered), m.Model, m.Version)
		for feature, n := range m.OutOfRange {
			if room--; room >= 0 {
				counter(f.outOfRange, float64(n), m.Model, m.Version, feature)
			}
		}
		states := map[string]int{"waiting": 0, "steady": 0, "drifting": 0}
		for _, d := range m.Drift {
			states[d.state()]++
			if room--; room >= 0 && d.Judged {
				gauge(f.psi, d.PSI, m.Model, m.Version, d.Kind, d.Name)
				gauge(f.js, d.JS, m.Model, m.Version, d.Kind, d.Name)
				gauge(f.ks, d.KS, m.Model, m.Version, d.Kind, d.Name)
				gauge(f.drifting, truth(d.Drifting), m.Model, m.Version, d.Kind, d.Name)
			}
		}
		if len(m.Drift) > 0 {
			for state, n := range states {
				gauge(f.columns, float64(n), m.Model, m.Version, state)
			}
		}
		if m.Log != nil {
			counter(f.logRows, float64(m.Log.Written), m.Model, m.Version, "written")
			counter(f.logRows, float64(m.Log.Dropped), m.Model, m.Version, "dropped")
			gauge(f.logQueued, float64(m.Log.Queued), m.Model, m.Version)
		}
	}
}

func (d *Drift) state() string {
	switch {
	case d.Drifting:
		return "drifting"
	case d.Judged:
		return "steady"
	default:
		return "waiting"
	}
}

func truth(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
