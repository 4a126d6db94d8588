package telemetry

import (
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// OtherTenant is the label of tenants that the configuration does not name, whose number has no bound.
const OtherTenant = "other"

// maxNames bounds the different tenants, and the different versions of models, that a process gives series of their
// own: names come and go with reloads, series stay.
const maxNames = 1024

// names keeps the values of a label bounded.
type names struct {
	mu   sync.RWMutex
	seen map[string]struct{}
}

// label is the name, or OtherTenant once there are maxNames others.
func (n *names) label(name string) string {
	n.mu.RLock()
	_, ok := n.seen[name]
	n.mu.RUnlock()
	if ok {
		return name
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.seen) >= maxNames {
		return OtherTenant
	}
	if n.seen == nil {
		n.seen = make(map[string]struct{})
	}
	n.seen[name] = struct{}{}
	return name
}

// Tenants count what tenants ask and use. The number of their series is that of the configured tenants.
type Tenants struct {
	registry prometheus.Registerer
	known    func(name string) bool // whether the configuration names a tenant
	names    names
	versions names
	ends     ends

	requests   *prometheus.CounterVec
	refusals   *prometheus.CounterVec
	tokens     *prometheus.CounterVec
	compute    *prometheus.CounterVec
	cost       *prometheus.CounterVec
	firstToken *prometheus.HistogramVec
	answers    *prometheus.CounterVec // by version
}

func newTenants(r prometheus.Registerer) *Tenants {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	return &Tenants{
		registry: r,
		known:    func(string) bool { return false },
		requests: counter("weir_tenant_requests_total",
			"Requests to models that ended, by the caller's tenant and outcome as in weir_requests_total; predictions are among them.", "tenant", "outcome"),
		refusals: counter("weir_tenant_refusals_total",
			"HTTP requests answered with an error, by the caller's tenant, status and error code; the tenant is empty where it is not known.",
			"tenant", "status", "code"),
		tokens: counter("weir_tenant_tokens_total",
			"Tokens of requests that ended, as usage counts them: prompt, cached (a part of prompt), output, and rows of predictions.",
			"tenant", "model_name", "kind"),
		compute: counter("weir_tenant_compute_seconds_total", "Compute time of requests that ended, and of tokenising and compiling for others.", "tenant", "model_name"),
		cost: counter("weir_tenant_cost_total", "What requests that ended cost at the configured prices, in the unit of these.",
			"tenant", "model_name"),
		firstToken: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "weir_tenant_time_to_first_token_seconds", Help: "Time from a request's arrival to its first token.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"tenant"}),
		answers: counter("weir_version_requests_total",
			"Requests to models that ended, by the version that answered, the rollout's arm that chose it, outcome and error code.",
			"model_name", "version", "arm", "outcome", "code"),
	}
}

func (t *Tenants) collectors() []prometheus.Collector {
	return []prometheus.Collector{t.requests, t.refusals, t.tokens, t.compute, t.cost, t.firstToken, t.answers}
}

func (t *Tenants) label(tenant string) string {
	if tenant == "" || !t.known(tenant) {
		return OtherTenant
	}
	return t.names.label(tenant)
}

// TenantEnd is how a request ended, and what it has used.
type TenantEnd struct {
	Tenant, Outcome              string // Outcome is one of the Answer constants
	Model, Version, Arm, Code    string // Model "": the request came to none
	Prompt, Cached, Output, Rows int64  // tokens; rows of a prediction
	ComputeSeconds, Cost         float64
}

// CountTenantEnd counts a request of a tenant.
func (t *Tenants) CountTenantEnd(e *TenantEnd) {
	tenant := t.label(e.Tenant)
	s := t.ends.of(endKey{tenant, e.Outcome, e.Model, e.Version, e.Arm, e.Code}, t.series)
	s.requests.Inc()
	if e.Model == "" {
		return
	}
	s.answers.Inc()
	for kind, count := range [...]int64{tokensPrompt: e.Prompt, tokensCached: e.Cached, tokensOutput: e.Output, tokensRows: e.Rows} {
		if count > 0 {
			s.tokens[kind].of(func() prometheus.Counter { return t.tokens.WithLabelValues(tenant, e.Model, tokenKinds[kind]) }).Add(float64(count))
		}
	}
	if e.Prompt+e.Output+e.Rows > 0 || e.ComputeSeconds > 0 {
		s.compute.of(func() prometheus.Counter { return t.compute.WithLabelValues(tenant, e.Model) }).Add(e.ComputeSeconds)
		s.cost.of(func() prometheus.Counter { return t.cost.WithLabelValues(tenant, e.Model) }).Add(e.Cost)
	}
}

// The kinds of tokens.
const (
	tokensPrompt = iota
	tokensCached
	tokensOutput
	tokensRows
)

var tokenKinds = [...]string{tokensPrompt: "prompt", tokensCached: "cached", tokensOutput: "output", tokensRows: "rows"}

// endKey is what the series of a request's end depend on.
type endKey struct{ tenant, outcome, model, version, arm, code string }

// endSeries are the series that an end counts in, so that a request finds them at once.
type endSeries struct {
	requests, answers prometheus.Counter
	tokens            [len(tokenKinds)]lazyCounter
	compute, cost     lazyCounter
}

// series finds those of a key whose tenant is a label.
func (t *Tenants) series(k endKey) *endSeries {
	s := &endSeries{requests: t.requests.WithLabelValues(k.tenant, k.outcome)}
	if k.model == "" {
		return s
	}
	if t.versions.label(k.model+"\x00"+k.version) == OtherTenant {
		k.version = OtherTenant
	}
	s.answers = t.answers.WithLabelValues(k.model, k.version, k.arm, k.outcome, k.code)
	return s
}

// lazyCounter is a series that is there from its first use on.
type lazyCounter struct {
	found atomic.Pointer[prometheus.Counter]
}

func (l *lazyCounter) of(find func() prometheus.Counter) prometheus.Counter {
	if c := l.found.Load(); c != nil {
		return *c
	}
	c := find() // the same one for all that find it
	l.found.Store(&c)
	return c
}

// maxEnds bounds the ends whose series are kept at hand.
const maxEnds = 4096

// ends keeps series at hand.
type ends struct {
	mu   sync.RWMutex
	list map[endKey]*endSeries
}

func (e *ends) of(k endKey, find func(endKey) *endSeries) *endSeries {
	e.mu.RLock()
	s, full := e.list[k], len(e.list) >= maxEnds
	e.mu.RUnlock()
	if s != nil {
		return s
	}
	s = find(k)
	if full {
		return s
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.list == nil {
		e.list = make(map[endKey]*endSeries)
	}
	e.list[k] = s
	return s
}

// CountTenantWork counts compute time of a request that came to no model's answer, such as /tokenize.
func (t *Tenants) CountTenantWork(tenant, model string, seconds float64) {
	t.compute.WithLabelValues(t.label(tenant), model).Add(seconds)
}

// CountTenantRefusal counts a request that was answered with an error. An empty tenant is a caller that is not known.
func (t *Tenants) CountTenantRefusal(tenant string, known bool, status int, code string) {
	if known {
		tenant = t.label(tenant)
	}
	t.refusals.WithLabelValues(tenant, strconv.Itoa(status), code).Inc()
}

// ObserveTenantFirstToken records how long a tenant's request waited for its first token.
func (t *Tenants) ObserveTenantFirstToken(tenant string, seconds float64) {
	t.firstToken.WithLabelValues(t.label(tenant)).Observe(seconds)
}

// TenantLimit is one limit of a tenant, and how much of it is used.
type TenantLimit struct {
	Tenant            string
	Model             string // of which the limit is; "" is all of them
	Limit             string // its key in the configuration: "daily_tokens"
	Value, Used, Left float64
}

// AddTenants gives the tenants that known names labels of their own, and publishes what read returns at each scrape.
func (t *Tenants) AddTenants(known func(name string) bool, read func() []TenantLimit) error {
	t.known = known
	return t.registry.Register(&tenantLimits{read})
}

var (
	tenantLimitLabels = []string{"tenant", "model_name", "limit"}
	tenantLimitDesc   = prometheus.NewDesc("weir_tenant_limit", "A limit of a tenant, by its key in the configuration; costs in the unit of the prices.", tenantLimitLabels, nil)
	tenantUsedDesc    = prometheus.NewDesc("weir_tenant_limit_used", "What is used of a limit now, or in the running day or month.", tenantLimitLabels, nil)
	tenantLeftDesc    = prometheus.NewDesc("weir_tenant_limit_left", "What is left of a limit for new requests.", tenantLimitLabels, nil)
)

type tenantLimits struct{ read func() []TenantLimit }

// Describe implements prometheus.Collector.
func (t *tenantLimits) Describe(ch chan<- *prometheus.Desc) {
	ch <- tenantLimitDesc
	ch <- tenantUsedDesc
	ch <- tenantLeftDesc
}

// Collect implements prometheus.Collector.
func (t *tenantLimits) Collect(ch chan<- prometheus.Metric) {
	for _, l := range t.read() {
		for _, s := range []struct {
			desc  *prometheus.Desc
			value float64
		}{{tenantLimitDesc, l.Value}, {tenantUsedDesc, l.Used}, {tenantLeftDesc, l.Left}} {
			ch <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, s.value, l.Tenant, l.Model, l.Limit)
		}
	}
}
