package telemetry

import (
	"bufio"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var rewrite = flag.Bool("rewrite", false, "rewrite golden files")

func testModel(t *testing.T) (*Metrics, *Model) {
	t.Helper()
	m, err := NewMetrics(Build{Version: "v0", Commit: "c0", GoVersion: "go0"})
	if err != nil {
		t.Fatal(err)
	}
	model, err := m.AddModel(ModelInfo{
		Name: "tiny", MaxModelLen: 128, BlockTokens: 16, KVBlocks: 40, KVTokens: 640, KVType: "f16",
		Architecture: "llama", Digest: "d0", WeightBytes: 1000,
	}, func() Snapshot {
		return Snapshot{
			Running: 2, Waiting: 3, WaitingTokens: 50, KVBlocks: 40, KVReferenced: 10, KVCached: 5, States: 96, Checkpoints: 21, Stateless: 48,
			KVEvictions: 7, PrefixQueries: 100, PrefixHits: 60, Preemptions: 4, Paused: 1, Pauses: 6, Late: 8,
			Drafts: 5, DraftTokens: 20, AcceptedTokens: 12, AcceptedAt: []uint64{5, 4, 3, 0}, PromptTokens: 100,
			DraftSources: []DraftSource{{"ngram", 5, 3}, {"draft_model", 15, 9}}, DraftsStopped: true,
			PromptCached: 60, Recomputed: 9, OutputTokens: 33, Steps: 12, Classes: []Class{{"batch", 1, 3, 7, 0.25}}, StepPanics: 1, Faults: 2,
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return m, model
}

// scrape returns the exposition without the series of Go and of the process,
// whose values change from run to run.
func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	var kept strings.Builder
	lines := bufio.NewScanner(w.Body)
	for lines.Scan() {
		name := strings.TrimPrefix(strings.TrimPrefix(lines.Text(), "# HELP "), "# TYPE ")
		if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") || strings.HasPrefix(name, "promhttp_") {
			continue
		}
		kept.WriteString(lines.Text() + "\n")
	}
	return kept.String()
}

// observed is a registry with a model and most of what a server adds, of which something was observed.
func observed(t *testing.T) *Metrics {
	t.Helper()
	m, model := testModel(t)
	model.ObserveFirstToken(0.03, "")
	model.ObserveInterToken(0.02, "")
	model.ObserveStep(Step{Rows: 17, Seconds: 0.004, PlanSeconds: 0.00002, EstimateSeconds: 0.0041})
	model.ObserveCancel(0.002)
	model.CountRejection("queue_full")
	model.ObserveQueueWait("default", 0.4)
	model.CountDeadlineMiss("interactive", "deadline_exceeded")
	model.CountShed("batch", "server_is_overloaded")
	model.ObserveUse("default", Use{Tokens: 150, ComputeSeconds: 0.5, Cost: 0.0003})
	model.ObservePhases(Phases{QueueSeconds: 0.4, PrefillSeconds: 0.9, InferenceSeconds: 3})
	model.ObserveRequest(Request{
		PromptTokens: 20, OutputTokens: 11, MaxTokens: 16, Choices: 1,
		EndToEndSeconds: 1.25, DecodeSeconds: 0.5,
	})
	model.CountFinish("stop")
	model.CountDisconnect()
	m.ObserveHTTP("/v1/completions", "POST", 200, 1.25)
	m.ObserveReload(true, time.UnixMilli(1_700_000_000_500))
	m.CountRefusal(413, "request_too_large")
	m.CountClientRetry()
	m.CountAcceptError()
	m.CountTurnedAway()
	m.CountEvicted()
	m.CountHandshakeError("plain_http")
	if err := AddConnections(m, func() Connections { return Connections{Open: 3, BodyBytes: 4096} }); err != nil {
		t.Fatal(err)
	}
	if err := AddUnkept(m, func() uint64 { return 3 }, func() uint64 { return 5 }); err != nil {
		t.Fatal(err)
	}
	if err := AddResponseCache(m, func() ResponseCache { return ResponseCache{Hits: 8, Misses: 9, Evictions: 2, Bytes: 512} }); err != nil {
		t.Fatal(err)
	}
	if err := AddBatches(m, func() Batches {
		return Batches{Running: 1, Lines: 2, Completed: 3, Failed: 4, Expired: 5, Cancelled: 6, Refused: 7}
	}); err != nil {
		t.Fatal(err)
	}
	if err := AddTraces(m, func() Traces { return Traces{Sent: 5, Overflow: 6, Lost: 7} }); err != nil {
		t.Fatal(err)
	}
	if err := AddRoutes(m, func() []Route {
		return []Route{{
			Model: "chat", Picks: map[string]int64{"prefix": 5, "gate": 1}, Retries: 2, Spills: 3, Resumed: 1, None: 4,
			Prefills: map[string]int64{"done": 5, "short": 40, "failing": 2, "timeout": 1},
			Replicas: []RouteReplica{{Replica: "10.0.0.7:8000", Ready: true, InFlight: 2, Requests: 9, Faults: map[string]int64{"server_error": 3, "throttled": 2, "broken_stream": 1}, Untold: 70, Breaker: BreakerOpen, PrefillSeconds: 0.0015}},
		}}
	}); err != nil {
		t.Fatal(err)
	}
	if err := AddUsage(m, func() uint64 { return 11 }); err != nil {
		t.Fatal(err)
	}
	if err := AddQuota(m, func() Quota { return Quota{Up: true, Failures: 8, Local: 9, Lost: 10} }); err != nil {
		t.Fatal(err)
	}
	predictions, err := AddPredictions(m, func() PredictLane { return PredictLane{Waiting: 4, Bytes: 2048, Loaded: 1} })
	if err != nil {
		t.Fatal(err)
	}
	iris := predictions.Of("iris", "1")
	iris.ObserveScored(Scored{Rows: 3, BatchRows: 8, QueueSeconds: 0.0002, ComputeSeconds: 0.00002})
	iris.CountRefused(AnswerFailed, "queue_full")
	iris.CountRefused(AnswerAbandoned, "")
	predictions.CountChange("load")
	observe, err := AddFeatures(m, func() Features {
		return Features{Stores: []FeatureStore{{Breaker: "open", Reads: 4, Failures: 3, Timeouts: 2, Refused: 1}}, Models: []FeatureModel{{
			Model: "trees", Version: "2", Remembered: 5, Values: []FeatureValues{{"profile", "timeout", 6}}, OutOfRange: map[string]int64{"age": 7},
			Drift: []Drift{{Kind: "score", Name: "output", PSI: 0.3, JS: 0.2, KS: 0.1, Judged: true, Drifting: true}, {Kind: "feature", Name: "age"}},
			Log:   &PredictionLog{Written: 8, Dropped: 9, Queued: 1},
		}}}
	})
	if err != nil {
		t.Fatal(err)
	}
	observe(2*time.Millisecond, nil)
	found, err := AddModeration(m, func() ModerationLog { return ModerationLog{Kept: 2, Dropped: 1} })
	if err != nil {
		t.Fatal(err)
	}
	found(Moderated{Model: "tiny", Policy: "default", Category: "violence", Side: "input", Action: "block", Count: 3})
	if err := m.AddTenants(func(name string) bool { return name == "acme" }, func() []TenantLimit {
		return []TenantLimit{{Tenant: "acme", Model: "tiny", Limit: "daily_cost", Value: 2, Used: 1.5, Left: 0.25}}
	}); err != nil {
		t.Fatal(err)
	}
	m.CountTenantEnd(&TenantEnd{Tenant: "acme", Outcome: AnswerComplete, Model: "tiny", Version: "v1", Arm: "candidate", Prompt: 20, Cached: 16, Output: 11,
		ComputeSeconds: 0.5, Cost: 0.0003})
	m.CountTenantEnd(&TenantEnd{Tenant: "key-1234", Outcome: AnswerComplete, Model: "iris", Version: "1", Rows: 3})
	m.CountTenantEnd(&TenantEnd{Tenant: "acme", Outcome: AnswerRefused, Code: "model_not_found"})
	m.CountTenantRefusal("acme", true, 429, "rate_limit_exceeded")
	m.CountTenantRefusal("", false, 401, "invalid_api_key")
	m.ObserveTenantFirstToken("acme", 0.03)
	m.CountDenied("api", "unknown_key")
	m.CountPanic("handler")
	m.CountAnswer(Answer{Model: "tiny", Outcome: AnswerComplete, Stream: true})
	m.CountAnswer(Answer{Outcome: AnswerRefused})
	return m
}

func TestScrapeMatchesGolden(t *testing.T) {
	got := scrape(t, observed(t))
	golden := filepath.Join("testdata", "scrape.golden")
	if *rewrite {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("scrape differs from %s; run with -rewrite and read the difference\n%s", golden, firstDifference(got, string(want)))
	}
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return "got  " + g[i] + "\nwant " + w[i]
		}
	}
	return "one is longer than the other"
}

// vllmSeries are names and types that dashboards and cluster routers written
// for vLLM look for.
var vllmSeries = map[string]string{
	"vllm:time_to_first_token_seconds":           "histogram",
	"vllm:inter_token_latency_seconds":           "histogram",
	"vllm:request_time_per_output_token_seconds": "histogram",
	"vllm:e2e_request_latency_seconds":           "histogram",
	"vllm:request_queue_time_seconds":            "histogram",
	"vllm:request_inference_time_seconds":        "histogram",
	"vllm:request_prefill_time_seconds":          "histogram",
	"vllm:request_decode_time_seconds":           "histogram",
	"vllm:request_prompt_tokens":                 "histogram",
	"vllm:request_generation_tokens":             "histogram",
	"vllm:request_params_max_tokens":             "histogram",
	"vllm:request_params_n":                      "histogram",
	"vllm:request_num_preemptions":               "histogram",
	"vllm:request_prefill_kv_computed_tokens":    "histogram",
	"vllm:num_requests_waiting_by_reason":        "gauge",
	"vllm:prompt_tokens_by_source_total":         "counter",
	"vllm:iteration_tokens_total":                "histogram",
	"vllm:num_requests_running":                  "gauge",
	"vllm:num_requests_waiting":                  "gauge",
	"vllm:kv_cache_usage_perc":                   "gauge",
	"vllm:cache_config_info":                     "gauge",
	"vllm:prefix_cache_queries_total":            "counter",
	"vllm:prefix_cache_hits_total":               "counter",
	"vllm:external_prefix_cache_queries_total":   "counter",
	"vllm:external_prefix_cache_hits_total":      "counter",
	"vllm:num_preemptions_total":                 "counter",
	"vllm:prompt_tokens_total":                   "counter",
	"vllm:prompt_tokens_cached_total":            "counter",
	"vllm:prompt_tokens_recomputed_total":        "counter",
	"vllm:generation_tokens_total":               "counter",
	"vllm:request_success_total":                 "counter",
	"http_requests_total":                        "counter",
	"http_request_duration_seconds":              "histogram",
}

func TestVLLMNamesAndTypesArePresent(t *testing.T) {
	m, _ := testModel(t)
	m.ObserveHTTP("/health", "GET", 503, 0.001)
	text := scrape(t, m)
	for name, kind := range vllmSeries {
		if !strings.Contains(text, "# TYPE "+name+" "+kind+"\n") {
			t.Errorf("no %s named %s in the scrape", kind, name)
		}
	}
}

// The bounds are written a second time here, as Prometheus prints them, so
// that a slip in buckets.go cannot hide.
func TestBucketBoundsAreThoseOfVLLM(t *testing.T) {
	request := "0.3 0.5 0.8 1 1.5 2 2.5 5 10 15 20 30 40 50 60 120 240 480 960 1920 7680 +Inf"
	token := "0.01 0.025 0.05 0.075 0.1 0.15 0.2 0.3 0.4 0.5 0.75 1 2.5 5 7.5 10 20 40 80 +Inf"
	want := map[string]string{
		"vllm:time_to_first_token_seconds": "0.001 0.005 0.01 0.02 0.04 0.06 0.08 0.1 0.25 0.5 0.75 " +
			"1 2.5 5 7.5 10 20 40 80 160 640 2560 +Inf",
		"vllm:inter_token_latency_seconds":           token,
		"vllm:request_time_per_output_token_seconds": token,
		"vllm:e2e_request_latency_seconds":           request,
		"vllm:request_queue_time_seconds":            request,
		"vllm:request_prefill_time_seconds":          request,
		"vllm:request_inference_time_seconds":        request,
		"vllm:request_decode_time_seconds":           request,
		"vllm:request_prompt_tokens":                 "1 2 5 10 20 50 100 +Inf",
		"vllm:request_params_n":                      "1 2 5 10 20 +Inf",
		"vllm:request_num_preemptions":               "1 2 3 4 5 10 20 +Inf",
		"vllm:request_prefill_kv_computed_tokens":    "1 2 5 10 20 50 100 +Inf",
		"vllm:iteration_tokens_total":                "1 8 16 32 64 128 256 512 1024 2048 4096 8192 16384 +Inf",
	}
	m, _ := testModel(t)
	text := scrape(t, m)
	for name, bounds := range want {
		if got := strings.Join(bucketBounds(text, name), " "); got != bounds {
			t.Errorf("%s: buckets\ngot  %s\nwant %s", name, got, bounds)
		}
	}
}

func bucketBounds(text, name string) []string {
	var bounds []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, name+"_bucket{") {
			continue
		}
		_, after, _ := strings.Cut(line, `le="`)
		bound, _, _ := strings.Cut(after, `"`)
		bounds = append(bounds, bound)
	}
	return bounds
}

func TestSizeBucketsStayWithinTheLimit(t *testing.T) {
	for _, c := range []struct {
		limit int
		want  []float64
	}{
		{0, nil},
		{1, []float64{1}},
		{4, []float64{1, 2}},
		{5, []float64{1, 2, 5}},
		{2048, []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000}},
	} {
		if got := sizeBuckets(c.limit); !slices.Equal(got, c.want) {
			t.Errorf("limit %d: got %v, want %v", c.limit, got, c.want)
		}
	}
	const largest = int(^uint(0) >> 1)
	if got := sizeBuckets(largest); !slices.IsSorted(got) || len(got) > 60 {
		t.Errorf("largest limit: %d bounds, sorted %v", len(got), slices.IsSorted(got))
	}
}

func TestRequestsWithoutATokenHaveNoDecodeTime(t *testing.T) {
	m, model := testModel(t)
	model.ObserveRequest(Request{
		PromptTokens: 4, MaxTokens: 8, Choices: 1,
		EndToEndSeconds: 2, DecodeSeconds: -1,
	})
	model.ObservePhases(Phases{QueueSeconds: 1, PrefillSeconds: -1, InferenceSeconds: -1})
	text := scrape(t, m)
	for series, want := range map[string]string{
		"vllm:e2e_request_latency_seconds_count":           "1",
		"vllm:request_queue_time_seconds_count":            "1",
		"vllm:request_prefill_time_seconds_count":          "0",
		"vllm:request_inference_time_seconds_count":        "0",
		"vllm:request_decode_time_seconds_count":           "0",
		"vllm:request_time_per_output_token_seconds_count": "0",
	} {
		if !strings.Contains(text, series+`{engine="0",model_name="tiny"} `+want+"\n") {
			t.Errorf("%s is not %s", series, want)
		}
	}
}

// A series that appeared with its first count would have no rate of increase then.
func TestFullQueuesAreCountedFromZero(t *testing.T) {
	m, _ := testModel(t)
	text := scrape(t, m)
	for _, reason := range []string{"rate_limit_exceeded", "server_is_overloaded"} {
		if !strings.Contains(text, `vllm:admission_rejections_total{engine="0",model_name="tiny",reason="`+reason+`"} 0`) {
			t.Errorf("no series for %s", reason)
		}
	}
}

func TestUnknownFinishReasonCountsAsError(t *testing.T) {
	m, model := testModel(t)
	model.CountFinish("whatever a client sent")
	if text := scrape(t, m); strings.Contains(text, "whatever") ||
		!strings.Contains(text, `vllm:request_success_total{engine="0",finished_reason="error",model_name="tiny"} 1`) {
		t.Error("the label took an unknown value, or the request was not counted")
	}
}

func TestTwoModelsShareTheRegistry(t *testing.T) {
	m, _ := testModel(t)
	if _, err := m.AddModel(ModelInfo{Name: "tiny"}, func() Snapshot { return Snapshot{} }); err == nil {
		t.Error("a second model of the same name was accepted")
	}
	if _, err := m.AddModel(ModelInfo{Name: "other", MaxModelLen: 4096}, func() Snapshot { return Snapshot{} }); err != nil {
		t.Fatal(err)
	}
	if got := m.Models(); !slices.Equal(got, []string{"other", "tiny"}) {
		t.Errorf("models %v", got)
	}
	if text := scrape(t, m); !strings.Contains(text, `vllm:num_requests_running{engine="0",model_name="other"} 0`) {
		t.Error("the second model has no series")
	}
}

func TestNilModelIgnoresObservations(t *testing.T) {
	m, _ := testModel(t)
	absent := m.Model("absent")
	absent.ObserveFirstToken(1, "")
	absent.ObserveInterToken(1, "")
	absent.ObserveStep(Step{Rows: 1, Seconds: 1})
	absent.ObserveCancel(1)
	absent.CountRejection("queue_full")
	absent.CountFinish("stop")
	absent.CountDisconnect()
	absent.ObserveQueueWait("default", 1)
	absent.CountDeadlineMiss("default", "deadline_exceeded")
	absent.CountShed("default", "server_is_overloaded")
	absent.ObserveUse("default", Use{Tokens: 1})
	absent.ObserveRequest(Request{})
	absent.ObservePhases(Phases{QueueSeconds: 1})
}

func TestTokenObservationsAllocateNothing(t *testing.T) {
	_, model := testModel(t)
	if n := testing.AllocsPerRun(100, func() {
		model.ObserveInterToken(0.01, "")
		model.ObserveStep(Step{Rows: 8, Seconds: 0.01})
	}); n != 0 {
		t.Errorf("%v allocations per token", n)
	}
}

// Labels and values that dashboards and routers written for vLLM add up.
func TestSeriesByLabel(t *testing.T) {
	m, model := testModel(t)
	model.ObservePhases(Phases{QueueSeconds: 1, PrefillSeconds: 1, InferenceSeconds: 2, Preemptions: 2})
	model.ObserveRequest(Request{PromptTokens: 20, CachedTokens: 15, OutputTokens: 1, MaxTokens: 8, Choices: 1, DecodeSeconds: -1})
	text := scrape(t, m)
	for series, want := range map[string]string{
		`vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="capacity"}`:       "3",
		`vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="deferred"}`:       "0",
		`vllm:prompt_tokens_by_source_total{engine="0",model_name="tiny",source="local_compute"}`:   "40",
		`vllm:prompt_tokens_by_source_total{engine="0",model_name="tiny",source="local_cache_hit"}`: "60",
		`vllm:request_num_preemptions_sum{engine="0",model_name="tiny"}`:                            "2",
		`vllm:request_prefill_kv_computed_tokens_sum{engine="0",model_name="tiny"}`:                 "5",
	} {
		if !strings.Contains(text, series+" "+want+"\n") {
			t.Errorf("%s is not %s", series, want)
		}
	}
	for _, label := range []string{`kv_cache_size_tokens="640"`, `kv_cache_max_concurrency="5"`} {
		if !strings.Contains(text, label) {
			t.Errorf("vllm:cache_config_info lacks %s", label)
		}
	}
}

// Names that come and go leave the series of the last ones behind.
func TestModelsThatLeft(t *testing.T) {
	m, _ := testModel(t)
	serve := func(name string) {
		if err := m.AddRelayed(name); err != nil {
			t.Fatal(err)
		}
		m.Model(name).ObserveRequest(Request{PromptTokens: 9, OutputTokens: 5, Choices: 1, EndToEndSeconds: 1, DecodeSeconds: 0.5})
		m.CountAnswer(Answer{Model: name, Stream: true, Outcome: AnswerComplete})
		m.CountTenantEnd(&TenantEnd{Outcome: AnswerComplete, Model: name, Version: "v", Prompt: 9, Output: 5, ComputeSeconds: 1})
	}
	serve("first")
	m.Leave("first")
	serve("first") // it is back
	for i := range 3 * mostLeft {
		name := fmt.Sprintf("step-%d", i)
		serve(name)
		m.Leave(name)
		m.Leave(name)
	}
	m.Leave("tiny") // is computed here
	m.Leave("unknown")
	text := scrape(t, m)
	for name, want := range map[string]bool{
		"first": true, "tiny": true, fmt.Sprintf("step-%d", 3*mostLeft-1): true, fmt.Sprintf("step-%d", 2*mostLeft): true, fmt.Sprintf("step-%d", 2*mostLeft-1): false, "step-0": false,
	} {
		if got := strings.Contains(text, fmt.Sprintf("model_name=%q", name)); got != want {
			t.Errorf("%s has series: %v", name, got)
		}
	}
	serve("step-0")
	if text := scrape(t, m); !strings.Contains(text, `weir_tenant_tokens_total{kind="output",model_name="step-0",tenant="other"} 5`+"\n") {
		t.Error("a name that comes again goes on with counts that were dropped")
	}
}

// A model that other servers compute has the series of requests, and those of an engine once it is computed here.
func TestRelayedModels(t *testing.T) {
	m, _ := testModel(t)
	for range 2 {
		if err := m.AddRelayed("far"); err != nil {
			t.Fatal(err)
		}
	}
	m.Model("far").ObserveRequest(Request{PromptTokens: 9, OutputTokens: 5, Choices: 1, EndToEndSeconds: 1, DecodeSeconds: 0.5})
	m.Model("far").ObserveStep(Step{Rows: 1, Seconds: 1}) // there is no engine, so that no engine is told
	text := scrape(t, m)
	if !strings.Contains(text, `vllm:request_generation_tokens_sum{engine="0",model_name="far"} 5`) || strings.Contains(text, `weir_step_seconds_count{engine="0",model_name="far"}`) {
		t.Error(text)
	}
	if err := m.SetModel(ModelInfo{Name: "far", MaxModelLen: 64}, func() Snapshot { return Snapshot{Running: 3} }); err != nil {
		t.Fatal(err)
	}
	if err := m.SetModel(ModelInfo{Name: "far", MaxModelLen: 64}, func() Snapshot { return Snapshot{} }); err != nil {
		t.Fatal(err)
	}
	text = scrape(t, m)
	for _, want := range []string{`vllm:request_generation_tokens_sum{engine="0",model_name="far"} 5`, `vllm:num_requests_running{engine="0",model_name="far"} 3`,
		`weir_step_seconds_count{engine="0",model_name="far"}`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

// Names that no configuration has, and more names than may be, make no more series.
func TestSeriesOfTenantsAreBounded(t *testing.T) {
	m, err := NewMetrics(Build{})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.AddTenants(func(name string) bool { return !strings.HasPrefix(name, "unlisted") }, func() []TenantLimit { return nil }); err != nil {
		t.Fatal(err)
	}
	for i := range 3 * maxNames {
		m.CountTenantRefusal(fmt.Sprint("t", i), true, 429, "rate_limit_exceeded")
		m.CountTenantEnd(&TenantEnd{Tenant: fmt.Sprint("unlisted", i), Outcome: AnswerComplete, Model: "m", Version: fmt.Sprint(i)})
	}
	text := scrape(t, m)
	if n := strings.Count(text, "weir_tenant_refusals_total{"); n != maxNames+1 {
		t.Errorf("%d series of refusals, want %d", n, maxNames+1)
	}
	if n := strings.Count(text, "weir_version_requests_total{"); n != maxNames+1 {
		t.Errorf("%d series of versions, want %d", n, maxNames+1)
	}
	if want := fmt.Sprintf(`weir_tenant_requests_total{outcome="complete",tenant="other"} %d`, 3*maxNames); !strings.Contains(text, want) {
		t.Errorf("the scrape lacks %s", want)
	}
}
