package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Class is what the requests of one class do at one moment. Tenants are no
// labels, since their number has no bound; the usage report has them.
type Class struct {
	Name       string
	Running    int     // requests that were admitted
	Waiting    int     // requests in the waiting queue
	KVBlocks   int     // that one request alone holds
	LagSeconds float64 // the most compute time, by weight, that a tenant has had beyond the least served one that waits
}

// classSeries are the gauges of a Class.
var classSeries = []struct {
	desc  *prometheus.Desc
	value func(*Class) float64
}{
	{classDesc("weir_class_requests_running", "Requests of a class that were admitted."),
		func(c *Class) float64 { return float64(c.Running) }},
	{classDesc("weir_class_requests_waiting", "Requests of a class in the waiting queue."),
		func(c *Class) float64 { return float64(c.Waiting) }},
	{classDesc("weir_class_kv_blocks", "KV blocks that requests of a class hold and share with no other."),
		func(c *Class) float64 { return float64(c.KVBlocks) }},
	{classDesc("weir_class_fairness_lag_seconds",
		"The most compute time, by weight, that a tenant has had beyond the least served tenant that waits in the class."),
		func(c *Class) float64 { return c.LagSeconds }},
}

func classDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, []string{"class"}, nil)
}

// classMetrics count what happens to the requests of a class.
type classMetrics struct {
	queueWait      *prometheus.HistogramVec
	deadlineMisses *prometheus.CounterVec
	shed           *prometheus.CounterVec
	tokens         *prometheus.CounterVec
	compute        *prometheus.CounterVec
	cost           *prometheus.CounterVec
}

func newClassMetrics() classMetrics {
	return classMetrics{
		queueWait: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "weir_queue_wait_seconds", Help: "Time from a request's submission to its admission, by class.",
			Buckets: queueWaitBuckets(),
		}, []string{"class"}),
		deadlineMisses: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_deadline_misses_total",
			Help: "Requests whose deadline passed (deadline_exceeded) or could not be met from the start (deadline_unreachable), by class.",
		}, []string{"class", "reason"}),
		shed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_shed_total", Help: "Requests answered with 503 instead of being run, by class and error code.",
		}, []string{"class", "reason"}),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_class_tokens_total", Help: "Prompt tokens, cached ones included, and output tokens of requests that ended, by class.",
		}, []string{"class"}),
		compute: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_class_compute_seconds_total", Help: "Compute time of requests that ended, by class.",
		}, []string{"class"}),
		cost: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_class_cost_total", Help: "What requests that ended cost at the configured prices, in the unit of these, by class.",
		}, []string{"class"}),
	}
}

func (c classMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{c.queueWait, c.deadlineMisses, c.shed, c.tokens, c.compute, c.cost}
}

// Use is what a request that ended has used.
type Use struct {
	Tokens         int // of prompt and output together
	ComputeSeconds float64
	Cost           float64 // in the unit of the prices
}

// ObserveUse adds what a request has used.
func (m *Model) ObserveUse(class string, u Use) {
	if m == nil {
		return
	}
	m.classes.tokens.WithLabelValues(class).Add(float64(max(u.Tokens, 0))) // a counter panics at less
	m.classes.compute.WithLabelValues(class).Add(max(u.ComputeSeconds, 0))
	m.classes.cost.WithLabelValues(class).Add(max(u.Cost, 0))
}

// ObserveQueueWait records how long an admitted request waited. class is one of
// a fixed set of names, as everywhere here.
func (m *Model) ObserveQueueWait(class string, seconds float64) {
	if m != nil {
		m.classes.queueWait.WithLabelValues(class).Observe(seconds)
	}
}

// CountDeadlineMiss counts a request; reason is its error code.
func (m *Model) CountDeadlineMiss(class, reason string) {
	if m != nil {
		m.classes.deadlineMisses.WithLabelValues(class, reason).Inc()
	}
}

// CountShed counts a request; reason is its error code.
func (m *Model) CountShed(class, reason string) {
	if m != nil {
		m.classes.shed.WithLabelValues(class, reason).Inc()
	}
}
