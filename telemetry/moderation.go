package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Moderated is what a rule of a policy found on one side of a request. All labels are names of
// the configuration.
type Moderated struct {
	Model, Policy, Category, Side, Action string
	Count                                 int // matches
}

// ModerationLog says what happened to the entries about findings in the audit log.
type ModerationLog struct {
	Kept    uint64
	Dropped uint64 // the queue was full, or the store failed
}

// AddModeration adds the series of policies; log is read at each scrape, nil where nothing is
// kept. The result counts findings.
func AddModeration(r Registerer, log func() ModerationLog) (count func(Moderated), err error) {
	found := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_moderation_findings_total", Help: "Matches of policies' rules in requests (input) and answers (output), by what was done.",
	}, []string{"model_name", "policy", "category", "side", "action"})
	all := []prometheus.Collector{found}
	if log != nil {
		all = append(all,
			prometheus.NewCounterFunc(prometheus.CounterOpts{
				Name: "weir_moderation_entries_total", Help: "Requests with findings that the audit log has an entry of."},
				func() float64 { return float64(log().Kept) }),
			prometheus.NewCounterFunc(prometheus.CounterOpts{
				Name: "weir_moderation_entries_dropped_total", Help: "Requests with findings that the audit log could not take an entry of in time."},
				func() float64 { return float64(log().Dropped) }))
	}
	return func(f Moderated) {
		found.WithLabelValues(f.Model, f.Policy, f.Category, f.Side, f.Action).Add(float64(f.Count))
	}, registerAll(r, all)
}
