package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Rollout is what a scrape shows of a rollout that is under way.
type Rollout struct {
	Model   string
	Percent float64 // that the candidate answers
	Step    int
	Paused  bool
	Arms    []RolloutArm
	Copies  int
}

// RolloutArm is what was seen of one of its two versions.
type RolloutArm struct {
	Arm                                      string // "stable", "candidate"
	Requests, Failed, Empty, Length, Refused int
	Denied, Throttled                        int // answered 4xx; 429 or 503
}

// Rollouts are the series of rollouts. A model has at most one, so that their number is
// that of the models.
type Rollouts struct {
	read        func() []Rollout
	transitions *prometheus.CounterVec
	shadows     *prometheus.CounterVec

	percent, step, paused, copies *prometheus.Desc
	requests, bad                 *prometheus.Desc
}

// RolloutStates are the values of the label to of weir_rollout_transitions_total.
var RolloutStates = []string{"running", "paused", "promoted", "rolled_back", "aborted", "replaced"}

// AddRollouts registers the series; read is called on every scrape.
func AddRollouts(to Registerer, read func() []Rollout) (*Rollouts, error) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append([]string{"model_name"}, labels...), nil)
	}
	r := &Rollouts{
		read: read,
		transitions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_rollout_transitions_total", Help: "Changes of rollouts, by the state that they came to.",
		}, []string{"to"}),
		shadows: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_rollout_shadows_total", Help: "Copies of requests for a candidate, by what happened to them: compared, failed or dropped.",
		}, []string{"outcome"}),
		percent:  desc("weir_rollout_percent", "Share of the requests that the candidate answers."),
		step:     desc("weir_rollout_step", "Step of the rollout, from 1."),
		paused:   desc("weir_rollout_paused", "1 while the rollout waits for an operator."),
		copies:   desc("weir_rollout_copies", "Copies that were compared in this rollout."),
		requests: desc("weir_rollout_requests", "Requests of this rollout, by arm.", "arm"),
		bad:      desc("weir_rollout_bad_requests", "Requests of this rollout whose answer failed, was empty, was cut at its limit or refused, or that were answered 4xx (denied) or 429 and 503 (throttled).", "arm", "kind"),
	}
	for _, s := range RolloutStates {
		r.transitions.WithLabelValues(s)
	}
	for _, s := range []string{"compared", "failed", "dropped"} {
		r.shadows.WithLabelValues(s)
	}
	return r, registerAll(to, []prometheus.Collector{r.transitions, r.shadows, r})
}

// CountTransition adds a change of a rollout.
func (r *Rollouts) CountTransition(to string) { r.transitions.WithLabelValues(to).Inc() }

// CountShadow adds a copy.
func (r *Rollouts) CountShadow(outcome string) { r.shadows.WithLabelValues(outcome).Inc() }

// Describe implements prometheus.Collector.
func (r *Rollouts) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{r.percent, r.step, r.paused, r.copies, r.requests, r.bad} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (r *Rollouts) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, s := range r.read() {
		paused := 0.0
		if s.Paused {
			paused = 1
		}
		gauge(r.percent, s.Percent, s.Model)
		gauge(r.step, float64(s.Step), s.Model)
		gauge(r.paused, paused, s.Model)
		gauge(r.copies, float64(s.Copies), s.Model)
		for _, a := range s.Arms {
			gauge(r.requests, float64(a.Requests), s.Model, a.Arm)
			for kind, n := range map[string]int{"failed": a.Failed, "empty": a.Empty, "length": a.Length, "refused": a.Refused, "denied": a.Denied, "throttled": a.Throttled} {
				gauge(r.bad, float64(n), s.Model, a.Arm, kind)
			}
		}
	}
}
