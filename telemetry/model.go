package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"
)

// ModelInfo describes a served model once, when it has loaded.
type ModelInfo struct {
	Name         string // label model_name: the name clients ask for
	MaxModelLen  int    // tokens; also the last bucket of the histograms of sizes
	BlockTokens  int
	KVBlocks     int
	KVTokens     int // that the cache holds of sequences of MaxModelLen
	KVType       string
	Architecture string
	Digest       string
	WeightBytes  int64
}

// Model holds one model's series. Its methods may be called from any
// goroutine, allocate nothing, and ignore a nil receiver.
type Model struct {
	firstToken   prometheus.Histogram
	interToken   prometheus.Histogram
	perToken     prometheus.Histogram
	endToEnd     prometheus.Histogram
	queue        prometheus.Histogram
	inference    prometheus.Histogram
	prefill      prometheus.Histogram
	decode       prometheus.Histogram
	promptTokens prometheus.Histogram
	outputTokens prometheus.Histogram
	maxTokens    prometheus.Histogram
	choices      prometheus.Histogram
	preemptions  prometheus.Histogram
	computed     prometheus.Histogram
	stepTokens   prometheus.Histogram
	stepSeconds  prometheus.Histogram
	stepRatio    prometheus.Histogram
	planSeconds  prometheus.Histogram
	cancelToFree prometheus.Histogram
	success      *prometheus.CounterVec
	finished     map[string]prometheus.Counter // children of success, by reason
	rejections   *prometheus.CounterVec
	disconnects  prometheus.Counter
	unreadable   prometheus.Counter
	classes      classMetrics

	about   []prometheus.Collector // what describes the version that answers
	relayed bool                   // other servers compute it: it has no series of an engine
}

// FinishReasons are the values of the label finished_reason, which are vLLM's and content_filter:
// "abort" is what weir's API calls "cancelled".
var FinishReasons = []string{"abort", "content_filter", "error", "length", "stop"}

func newModel(maxModelLen int) *Model {
	sizes := sizeBuckets(maxModelLen)
	m := &Model{
		classes: newClassMetrics(),
		firstToken: histogram("vllm:time_to_first_token_seconds", "Time from a request's arrival to its first output token.",
			FirstTokenBuckets()),
		interToken: histogram("vllm:inter_token_latency_seconds", "Time between two successive output tokens of a choice.",
			PerTokenBuckets()),
		perToken: histogram("vllm:request_time_per_output_token_seconds",
			"Mean time per output token after the first, per request.", PerTokenBuckets()),
		endToEnd: histogram("vllm:e2e_request_latency_seconds", "Time from a request's arrival to its end.", requestBuckets()),
		queue: histogram("vllm:request_queue_time_seconds", "Time from a request's submission to its admission.",
			requestBuckets()),
		inference: histogram("vllm:request_inference_time_seconds",
			"Time from a request's admission to its last output token.", requestBuckets()),
		prefill: histogram("vllm:request_prefill_time_seconds", "Time from a request's admission to its first output token.",
			requestBuckets()),
		decode: histogram("vllm:request_decode_time_seconds", "Time from a request's first output token to its last.",
			requestBuckets()),
		promptTokens: histogram("vllm:request_prompt_tokens", "Prompt tokens per request.", sizes),
		outputTokens: histogram("vllm:request_generation_tokens", "Output tokens per request.", sizes),
		maxTokens:    histogram("vllm:request_params_max_tokens", "The parameter max_tokens of requests.", sizes),
		choices:      histogram("vllm:request_params_n", "The number of choices that requests ask for.", choiceBuckets()),
		preemptions:  histogram("vllm:request_num_preemptions", "Preemptions per request.", preemptionBuckets()),
		computed: histogram("vllm:request_prefill_kv_computed_tokens",
			"Prompt tokens per request that were computed, not found in the prefix cache.", sizes),
		stepTokens: histogram("vllm:iteration_tokens_total", "Rows (token positions) that one engine step computed.",
			stepTokenBuckets()),
		stepSeconds:  histogram("weir_step_seconds", "Duration of one engine step.", stepBuckets()),
		stepRatio:    histogram("weir_step_estimate_ratio", "Duration of one engine step divided by its estimate.", ratioBuckets()),
		planSeconds:  histogram("weir_plan_seconds", "Time to plan one engine step, part of the step's duration.", planBuckets()),
		cancelToFree: histogram("weir_cancel_to_free_seconds", "Time from a cancel until the KV blocks are released.", shortBuckets()),
		success: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vllm:request_success_total", Help: "Choices that ended, by finish reason.",
		}, []string{"finished_reason"}),
		rejections: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vllm:admission_rejections_total", Help: "Requests refused before they were queued, by reason.",
		}, []string{"reason"}),
		unreadable: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weir_unreadable_tool_calls_total",
			Help: "Tool calls of answers that could not be read to their end; what was not read of them is told as text.",
		}),
		disconnects: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weir_client_disconnects_total", Help: "Clients that hung up on a running request.",
		}),
		finished: make(map[string]prometheus.Counter, len(FinishReasons)),
	}
	// Series that appear with their first count would have no rate of increase then.
	// The codes say that a tenant's share of the waiting queue, or all of it, is full.
	for _, code := range []string{"rate_limit_exceeded", "server_is_overloaded"} {
		m.rejections.WithLabelValues(code)
	}
	for _, reason := range FinishReasons {
		m.finished[reason] = m.success.WithLabelValues(reason)
	}
	return m
}

// ofRequests are the series that the edge counts, whichever server computes the model.
func (m *Model) ofRequests() []prometheus.Collector {
	return append(m.classes.collectors(), []prometheus.Collector{
		m.firstToken, m.perToken, m.endToEnd, m.decode, m.promptTokens, m.outputTokens, m.maxTokens, m.choices, m.computed,
		m.success, m.rejections, m.disconnects, m.unreadable,
	}...)
}

// ofEngine are the series that only an engine in this process counts.
func (m *Model) ofEngine() []prometheus.Collector {
	return []prometheus.Collector{
		m.interToken, m.queue, m.inference, m.prefill, m.preemptions, m.stepTokens, m.stepSeconds, m.stepRatio, m.planSeconds, m.cancelToFree,
	}
}

// histogram has classic buckets only: a Prometheus that takes native ones drops
// the classic ones beside them, which vLLM's dashboards and our rules read.
func histogram(name, help string, bounds []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: bounds})
}

// ObserveFirstToken records a time to first token, with the trace id of its
// request as exemplar unless that is empty.
func (m *Model) ObserveFirstToken(seconds float64, traceID string) {
	if m != nil {
		observe(m.firstToken, seconds, traceID)
	}
}

// ObserveInterToken records the gap before one further token of a choice.
// An exemplar, as above, allocates memory.
func (m *Model) ObserveInterToken(seconds float64, traceID string) {
	if m != nil {
		observe(m.interToken, seconds, traceID)
	}
}

func observe(h prometheus.Histogram, seconds float64, traceID string) {
	e, ok := h.(prometheus.ExemplarObserver)
	if traceID == "" || !ok {
		h.Observe(seconds)
		return
	}
	e.ObserveWithExemplar(seconds, prometheus.Labels{"trace_id": traceID})
}

// Step is what is known of an engine step when it has ended.
type Step struct {
	Rows            int
	Seconds         float64
	PlanSeconds     float64 // of Seconds, planning
	EstimateSeconds float64 // expected before the step; 0 means that there was no estimate
}

// ObserveStep records one engine step.
func (m *Model) ObserveStep(s Step) {
	if m == nil {
		return
	}
	m.stepTokens.Observe(float64(s.Rows))
	m.stepSeconds.Observe(s.Seconds)
	m.planSeconds.Observe(s.PlanSeconds)
	if s.EstimateSeconds > 0 {
		m.stepRatio.Observe(s.Seconds / s.EstimateSeconds)
	}
}

// ObserveCancel records how long a cancelled request kept its KV blocks.
func (m *Model) ObserveCancel(seconds float64) {
	if m != nil {
		m.cancelToFree.Observe(seconds)
	}
}

// Phases are the times of an admitted request in the engine. A negative time
// belongs to a phase that the request did not reach, and is not recorded.
type Phases struct {
	QueueSeconds     float64
	PrefillSeconds   float64
	InferenceSeconds float64
	Preemptions      int // of the request's sequences
}

// ObservePhases records an admitted request that has ended.
func (m *Model) ObservePhases(p Phases) {
	if m == nil {
		return
	}
	observePast(m.queue, p.QueueSeconds)
	observePast(m.prefill, p.PrefillSeconds)
	observePast(m.inference, p.InferenceSeconds)
	m.preemptions.Observe(float64(p.Preemptions))
}

func observePast(h prometheus.Histogram, seconds float64) {
	if seconds >= 0 {
		h.Observe(seconds)
	}
}

// CountRejection counts a request that was refused before it was queued. reason is a short
// constant ("server_is_overloaded"), never text of the request.
func (m *Model) CountRejection(reason string) {
	if m != nil {
		m.rejections.WithLabelValues(reason).Inc()
	}
}

// Request is what is known of a request when it has ended.
type Request struct {
	PromptTokens    int
	CachedTokens    int // of PromptTokens, from the prefix cache
	OutputTokens    int // over all choices
	MaxTokens       int
	Choices         int
	EndToEndSeconds float64
	DecodeSeconds   float64 // first token to last; negative, and not recorded, for a request without a token
}

// CountFinish counts a choice that ended. A reason outside FinishReasons
// counts as "error", so that the label stays bounded.
func (m *Model) CountFinish(reason string) {
	if m == nil {
		return
	}
	ended, known := m.finished[reason]
	if !known {
		ended = m.finished["error"]
	}
	ended.Inc()
}

// CountDisconnect counts a client that hung up on a running request.
func (m *Model) CountDisconnect() {
	if m != nil {
		m.disconnects.Inc()
	}
}

// CountUnreadable counts tool calls that could not be read to their end.
func (m *Model) CountUnreadable(calls int) {
	if m != nil && calls > 0 {
		m.unreadable.Add(float64(calls))
	}
}

// ObserveRequest records a request that has ended.
func (m *Model) ObserveRequest(r Request) {
	if m == nil {
		return
	}
	m.promptTokens.Observe(float64(r.PromptTokens))
	m.computed.Observe(float64(r.PromptTokens - r.CachedTokens))
	m.outputTokens.Observe(float64(r.OutputTokens))
	m.maxTokens.Observe(float64(r.MaxTokens))
	m.choices.Observe(float64(r.Choices))
	m.endToEnd.Observe(r.EndToEndSeconds)
	if r.DecodeSeconds < 0 {
		return
	}
	m.decode.Observe(r.DecodeSeconds)
	if perChoice := r.OutputTokens / max(r.Choices, 1); perChoice > 1 {
		m.perToken.Observe(r.DecodeSeconds / float64(perChoice-1))
	}
}
