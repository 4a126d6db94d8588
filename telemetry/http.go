package telemetry

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// HTTP are the series of the HTTP edge; the request counters have the
// names that vLLM's instrumentation gives them.
type HTTP struct {
	requests     *prometheus.CounterVec
	duration     *prometheus.HistogramVec
	refusals     *prometheus.CounterVec
	retries      prometheus.Counter
	acceptErrors prometheus.Counter
	turnedAway   prometheus.Counter
	evicted      prometheus.Counter
	denied       *prometheus.CounterVec
	handshakes   *prometheus.CounterVec
}

func newHTTP() *HTTP {
	return &HTTP{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "http_requests_total",
			Help: "HTTP requests by route, method and status class.",
		}, []string{"handler", "method", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "http_request_duration_seconds",
			Help:    "Time from a request's arrival to its response; of a stream, to the response's header.",
			Buckets: []float64{.1, .5, 1},
		}, []string{"handler", "method"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_http_refusals_total",
			Help: "HTTP requests answered with an error, by status and error code.",
		}, []string{"status", "code"}),
		retries: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weir_client_retries_total",
			Help: "Requests for generations that their client says it has sent before (x-stainless-retry-count above 0).",
		}),
		acceptErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weir_accept_errors_total",
			Help: "Failed accepts of a connection, for want of file descriptors or memory; each is retried.",
		}),
		turnedAway: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weir_connections_turned_away_total",
			Help: "Connections refused because --http-max-connections were open, or the limit on open files was reached.",
		}),
		evicted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weir_connections_evicted_total",
			Help: "Connections without a request that were closed to make room for new ones.",
		}),
		denied: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_sign_ins_denied_total",
			Help: "Requests whose key, token or certificate stands for no tenant, by listener and by why, which the client is not told.",
		}, []string{"listener", "reason"}),
		handshakes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_tls_handshake_errors_total",
			Help: "TLS handshakes of the API that failed, by why.",
		}, []string{"reason"}),
	}
}

func (h *HTTP) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		h.requests, h.duration, h.refusals, h.retries, h.acceptErrors, h.turnedAway, h.evicted, h.denied, h.handshakes,
	}
}

// CountDenied counts a request whose caller is no tenant. reason is one of few.
func (h *HTTP) CountDenied(listener, reason string) {
	h.denied.WithLabelValues(listener, reason).Inc()
}

// CountClientRetry counts one request that its client has sent before.
func (h *HTTP) CountClientRetry() { h.retries.Inc() }

// ObserveHTTP counts one answered request. route is the pattern that matched
// (never the client's own path, whose values have no bound), or "none".
func (h *HTTP) ObserveHTTP(route, method string, status int, seconds float64) {
	h.requests.WithLabelValues(route, method, strconv.Itoa(status/100)+"xx").Inc()
	h.duration.WithLabelValues(route, method).Observe(seconds)
}

// CountRefusal counts one request that was answered with an error. code is one
// of the API's error codes, whose number is bounded.
func (h *HTTP) CountRefusal(status int, code string) {
	h.refusals.WithLabelValues(strconv.Itoa(status), code).Inc()
}

// CountAcceptError counts one failed accept.
func (h *HTTP) CountAcceptError() { h.acceptErrors.Inc() }

// CountTurnedAway counts one connection that was refused because too many are open.
func (h *HTTP) CountTurnedAway() { h.turnedAway.Inc() }

// CountEvicted counts one connection without a request that was closed to make
// room for another.
func (h *HTTP) CountEvicted() { h.evicted.Inc() }

// CountHandshakeError counts one failed TLS handshake. why is one of the edge's few.
func (h *HTTP) CountHandshakeError(why string) { h.handshakes.WithLabelValues(why).Inc() }

// Connections is the state of the HTTP edge at one moment.
type Connections struct {
	Open      int   // connections
	BodyBytes int64 // memory of request bodies
}

// AddConnections publishes what read returns at each scrape.
func AddConnections(r Registerer, read func() Connections) error {
	return registerAll(r, []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "weir_connections_open", Help: "Open connections of the API.",
		}, func() float64 { return float64(read().Open) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "weir_request_body_bytes", Help: "Memory of the request bodies that arrive or are being parsed.",
		}, func() float64 { return float64(read().BodyBytes) }),
	})
}
