package telemetry

import "github.com/prometheus/client_golang/prometheus"

// predictOutcomes are the ends of a predict request, values of label outcome: those of a generation without
// streams. Their label budget: the versions that the configuration lists, times four.
var predictOutcomes = []string{AnswerComplete, AnswerRefused, AnswerFailed, AnswerAbandoned}

// PredictReasons are the values of label reason of weir_predict_refusals_total.
var PredictReasons = []string{
	"invalid", "queue_full", "tenant_queue_full", "queue_timeout", "shed", "deadline", "deadline_unreachable", "unavailable", "internal", "other",
}

// Predictions are the series of classical models.
type Predictions struct {
	requests *prometheus.CounterVec
	refusals *prometheus.CounterVec
	rows     *prometheus.CounterVec
	queue    *prometheus.HistogramVec
	compute  *prometheus.HistogramVec
	batch    *prometheus.HistogramVec
	changes  *prometheus.CounterVec
}

// PredictLane is the state of the lane at one moment.
type PredictLane struct {
	Waiting int   // requests in line or in a batch
	Bytes   int64 // memory of loaded models
	Loaded  int   // versions in memory
}

// Predictor holds one version's series. Its methods allocate nothing.
type Predictor struct {
	outcomes, reasons     map[string]prometheus.Counter
	rows                  prometheus.Counter
	queue, compute, batch prometheus.Observer
}

// AddPredictions registers the series of classical models; read is called at each scrape.
func AddPredictions(r Registerer, read func() PredictLane) (*Predictions, error) {
	labels := []string{"model_name", "version"}
	counter := func(name, help string, more ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append(more, labels...))
	}
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	gauge := func(name, help string, value func(PredictLane) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return value(read()) })
	}
	p := &Predictions{
		requests: counter("weir_predict_requests_total",
			"Predict requests that came to a model, by outcome: complete, refused (4xx), failed (5xx), abandoned.", "outcome"),
		refusals: counter("weir_predict_refusals_total", "Predict requests that a model gave no answer, by reason.", "reason"),
		rows:     counter("weir_predict_rows_total", "Rows that were scored for an answer."),
		queue:    histogram("weir_predict_queue_seconds", "Time that a predict request waited for its turn.", predictBuckets()),
		compute: histogram("weir_predict_compute_seconds",
			"Compute time of a predict request, summed over cores: its share of its batch.", predictBuckets()),
		batch: histogram("weir_predict_batch_rows", "Rows of the batch that a predict request was computed in.",
			[]float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384}),
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_predict_model_changes_total", Help: "Versions that were loaded, unloaded, evicted, or failed to load.",
		}, []string{"change"}),
	}
	for _, what := range []string{"load", "unload", "evict", "fail"} {
		p.changes.WithLabelValues(what)
	}
	return p, registerAll(r, []prometheus.Collector{
		p.requests, p.refusals, p.rows, p.queue, p.compute, p.batch, p.changes,
		gauge("weir_predict_requests_waiting", "Predict requests in line, or in a batch that is computed.",
			func(l PredictLane) float64 { return float64(l.Waiting) }),
		gauge("weir_predict_loaded_bytes", "Memory of loaded classical models.", func(l PredictLane) float64 { return float64(l.Bytes) }),
		gauge("weir_predict_loaded_versions", "Versions of classical models in memory.", func(l PredictLane) float64 { return float64(l.Loaded) }),
	})
}

// predictBuckets resolve a tree ensemble's microseconds and a batch's milliseconds.
func predictBuckets() []float64 {
	return []float64{
		.000005, .00001, .000025, .00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1,
	}
}

// CountChange counts what happened to a version: load, unload, evict or fail.
func (p *Predictions) CountChange(what string) { p.changes.WithLabelValues(what).Inc() }

// Of returns the series of a version, all of them at 0 at first.
func (p *Predictions) Of(model, version string) *Predictor {
	one := &Predictor{
		outcomes: make(map[string]prometheus.Counter), reasons: make(map[string]prometheus.Counter),
		rows:  p.rows.WithLabelValues(model, version),
		queue: p.queue.WithLabelValues(model, version), compute: p.compute.WithLabelValues(model, version), batch: p.batch.WithLabelValues(model, version),
	}
	for _, outcome := range predictOutcomes {
		one.outcomes[outcome] = p.requests.WithLabelValues(outcome, model, version)
	}
	for _, reason := range PredictReasons {
		one.reasons[reason] = p.refusals.WithLabelValues(reason, model, version)
	}
	return one
}

// Scored is a predict request that was answered.
type Scored struct {
	Rows, BatchRows              int
	QueueSeconds, ComputeSeconds float64
}

// ObserveScored takes in an answered request.
func (p *Predictor) ObserveScored(s Scored) {
	p.outcomes[AnswerComplete].Inc()
	p.rows.Add(float64(s.Rows))
	p.queue.Observe(s.QueueSeconds)
	p.compute.Observe(s.ComputeSeconds)
	p.batch.Observe(float64(s.BatchRows))
}

// CountRefused takes in a request without an answer: outcome is not AnswerComplete, and
// reason one of PredictReasons. One that its client abandoned has no reason.
func (p *Predictor) CountRefused(outcome, reason string) {
	p.outcomes[outcome].Inc()
	if c := p.reasons[reason]; c != nil {
		c.Inc()
	}
}
