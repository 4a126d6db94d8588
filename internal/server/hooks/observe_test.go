package hooks

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"weir/api/edge"
	"weir/internal/inference"
	"weir/telemetry"
)

func TestHowRequestsEnd(t *testing.T) {
	ran := []inference.FinishReason{inference.FinishStop}
	for _, c := range []struct {
		name    string
		status  int
		stream  bool
		reasons []inference.FinishReason
		want    telemetry.Answer
	}{
		{"a whole answer", 200, false, ran, telemetry.Answer{Outcome: telemetry.AnswerComplete}},
		{"a stream", 200, true, ran, telemetry.Answer{Outcome: telemetry.AnswerComplete, Stream: true}},
		{"too long", 400, true, nil, telemetry.Answer{Outcome: telemetry.AnswerRefused}},
		{"over its quota", 429, false, nil, telemetry.Answer{Outcome: telemetry.AnswerRefused}},
		{"shed", 503, true, nil, telemetry.Answer{Outcome: telemetry.AnswerFailed}},
		{"a bug, no stream", 500, false, ran, telemetry.Answer{Outcome: telemetry.AnswerFailed}},
		{"a bug in a stream", 500, true, ran, telemetry.Answer{Outcome: telemetry.AnswerBroken, Stream: true}},
		{"cut off by a shutdown", 503, true, ran, telemetry.Answer{Outcome: telemetry.AnswerBroken, Stream: true}},
		{"hung up while it waited", 499, false, nil, telemetry.Answer{Outcome: telemetry.AnswerAbandoned}},
		{"hung up on a stream", 499, true, ran, telemetry.Answer{Outcome: telemetry.AnswerAbandoned, Stream: true}},
		{"a slow reader", 408, true, ran, telemetry.Answer{Outcome: telemetry.AnswerAbandoned, Stream: true}},
	} {
		f := edge.RequestFinish{RequestStart: edge.RequestStart{Stream: c.stream}, Status: c.status, Reasons: c.reasons}
		if got := answerOf(&f); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// What befalls a request is counted by its class, and what says so in the
// dashboard has a source.
func TestClassesAreCounted(t *testing.T) {
	m, err := telemetry.NewMetrics(telemetry.Build{})
	if err != nil {
		t.Fatal(err)
	}
	model, err := m.AddModel(telemetry.ModelInfo{Name: "tiny", MaxModelLen: 16}, func() telemetry.Snapshot {
		return telemetry.Snapshot{Classes: []telemetry.Class{{Name: "batch", Running: 1, Waiting: 2, KVBlocks: 3, LagSeconds: 0.5}}}
	})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Unix(1000, 0)
	for _, f := range []edge.RequestFinish{
		{Status: 200, Admitted: began.Add(time.Second), FirstToken: began.Add(2 * time.Second), Reasons: []inference.FinishReason{inference.FinishStop}},
		{Status: 408, Code: "deadline_exceeded"},
		{Status: 429, Code: "deadline_unreachable"},
		{Status: 503, Code: "server_is_overloaded"},
		{Status: 503, Code: "queue_timeout"},
		{Status: 429, Code: "rate_limit_exceeded"},
	} {
		f.RequestStart = edge.RequestStart{Class: inference.Batch, Submitted: began}
		observeFinish(model, &f)
	}
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	for series, want := range map[string]string{
		`weir_queue_wait_seconds_sum{class="batch",engine="0",model_name="tiny"}`:                              "1",
		`weir_queue_wait_seconds_count{class="batch",engine="0",model_name="tiny"}`:                            "1",
		`weir_deadline_misses_total{class="batch",engine="0",model_name="tiny",reason="deadline_exceeded"}`:    "1",
		`weir_deadline_misses_total{class="batch",engine="0",model_name="tiny",reason="deadline_unreachable"}`: "1",
		`weir_shed_total{class="batch",engine="0",model_name="tiny",reason="server_is_overloaded"}`:            "1",
		`weir_shed_total{class="batch",engine="0",model_name="tiny",reason="queue_timeout"}`:                   "1",
		`weir_class_requests_running{class="batch",engine="0",model_name="tiny"}`:                              "1",
		`weir_class_requests_waiting{class="batch",engine="0",model_name="tiny"}`:                              "2",
		`weir_class_kv_blocks{class="batch",engine="0",model_name="tiny"}`:                                     "3",
		`weir_class_fairness_lag_seconds{class="batch",engine="0",model_name="tiny"}`:                          "0.5",
	} {
		if !strings.Contains(w.Body.String(), series+" "+want+"\n") {
			t.Errorf("%s is not %s", series, want)
		}
	}
	if strings.Contains(w.Body.String(), `weir_shed_total{class="batch",engine="0",model_name="tiny",reason="rate_limit`) {
		t.Error("a quota's refusal counts as shed")
	}
}
