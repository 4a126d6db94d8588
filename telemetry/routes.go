package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Route is the state of a model that other servers compute. Its label budget: the models and
// replicas that the configuration lists or finds, times the reasons of a pick.
type Route struct {
	Model    string
	Replicas []RouteReplica
	Picks    map[string]int64 // by reason
	Retries  int64            // attempts after a failure
	Spills   int64            // attempts after a refusal
	Resumed  int64            // streams that went on at another replica
	None     int64            // picks that found no replica
	// Displaced are those of None that found replicas only outside the regions of the tenant's residency.
	Displaced int64
	Prefills  map[string]int64 // what happened to prompts' prefixes, by outcome; nil where no replica computes them for others
}

// RouteReplica is the state of one of its servers. Counts are since it was added.
type RouteReplica struct {
	Replica  string
	Ready    bool // its probes say so
	Breaker  float64
	InFlight int

	Requests int64
	Faults   map[string]int64 // by kind
	Untold   int64            // tokens

	PrefillSeconds float64 // expected, of a prompt token; 0: it does not count, because no replica computes prompts for others
}

// Values of RouteReplica.Breaker.
const (
	BreakerClosed   = 0
	BreakerHalfOpen = 1
	BreakerOpen     = 2
)

// routes collects what read returns.
type routes struct {
	read func() []Route

	picks, retries, none, displaced, prefills                         *prometheus.Desc
	requests, errors, untold, inFlight, ready, breakerNow, prefillNow *prometheus.Desc
}

// AddRoutes publishes what read returns at each scrape.
func AddRoutes(r Registerer, read func() []Route) error {
	model, replica := []string{"model_name"}, []string{"model_name", "replica"}
	desc := func(name, help string, labels []string, more ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append(append([]string{}, labels...), more...), nil)
	}
	return registerAll(r, []prometheus.Collector{&routes{
		read:    read,
		picks:   desc("weir_route_picks_total", "Replicas that were picked for a request, by reason.", model, "reason"),
		retries: desc("weir_route_retries_total", "Further attempts of requests: after a failure, after a refusal, or to go on with a stream.", model, "after"),
		none:    desc("weir_route_no_replica_total", "Picks that found no replica.", model),
		displaced: desc("weir_route_no_replica_in_region_total",
			"Picks that found replicas, and none in a region where the tenant's data stays.", model),
		prefills: desc("weir_route_prefills_total",
			"Requests by what happened to their prompts' prefixes at prefill replicas: done, not begun (short, cost, failing, unknown, no_replica), or failed and computed at the decode replica.", model, "outcome"),
		requests: desc("weir_route_requests_total", "Requests that were sent to a replica.", replica),
		errors: desc("weir_route_errors_total", "Answers of replicas with a fault, by kind; docs/replicas.md has what follows each.",
			replica, "kind"),
		untold: desc("weir_route_estimated_tokens_total",
			"Tokens of answers that were counted here by their text, because the replica did not tell its usage, or told one that cannot be.", replica),
		inFlight: desc("weir_route_in_flight", "Requests at a replica that have not ended.", replica),
		ready:    desc("weir_route_replica_ready", "1 where a replica's probes say that it takes requests.", replica),
		prefillNow: desc("weir_route_prefill_seconds_per_token",
			"Expected time of a prompt token at a replica, which decides where prompts are computed. Prompts that were given up there count for some time.", replica),
		breakerNow: desc("weir_route_breaker_state", "A replica's breaker: 0 closed, 1 half-open, 2 open.", replica),
	}})
}

// Describe implements prometheus.Collector.
func (r *routes) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{r.picks, r.retries, r.none, r.displaced, r.prefills, r.requests, r.errors, r.untold, r.inFlight, r.ready, r.breakerNow, r.prefillNow} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (r *routes) Collect(to chan<- prometheus.Metric) {
	for _, route := range r.read() {
		model := route.Model
		send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
			to <- prometheus.MustNewConstMetric(d, kind, v, append([]string{model}, labels...)...)
		}
		count := func(d *prometheus.Desc, n int64, labels ...string) {
			send(d, prometheus.CounterValue, float64(n), labels...)
		}
		for reason, n := range route.Picks {
			count(r.picks, n, reason)
		}
		count(r.retries, route.Retries, "failure")
		count(r.retries, route.Spills, "refusal")
		count(r.retries, route.Resumed, "broken_stream")
		count(r.none, route.None)
		count(r.displaced, route.Displaced)
		for outcome, n := range route.Prefills {
			count(r.prefills, n, outcome)
		}
		for _, p := range route.Replicas {
			count(r.requests, p.Requests, p.Replica)
			for kind, n := range p.Faults {
				count(r.errors, n, p.Replica, kind)
			}
			count(r.untold, p.Untold, p.Replica)
			send(r.inFlight, prometheus.GaugeValue, float64(p.InFlight), p.Replica)
			ready := 0.0
			if p.Ready {
				ready = 1
			}
			send(r.ready, prometheus.GaugeValue, ready, p.Replica)
			send(r.breakerNow, prometheus.GaugeValue, p.Breaker, p.Replica)
			if p.PrefillSeconds > 0 {
				send(r.prefillNow, prometheus.GaugeValue, p.PrefillSeconds, p.Replica)
			}
		}
	}
}
