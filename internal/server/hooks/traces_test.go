package hooks

import (
	"strings"
	"testing"
	"time"

	"weir/telemetry/trace/tracetest"

	"weir/api/edge"
	"weir/telemetry/slo"
	"weir/telemetry/trace"
	"weir/telemetry/trace/otlp"
)

func TestTracesCostNothingWhenOff(t *testing.T) {
	objectives := slo.Default()
	off := &traces{}
	off.Slo.Store(&objectives)
	f := edge.RequestFinish{Status: 503, Code: "server_is_overloaded"}
	if n := testing.AllocsPerRun(100, func() {
		f.Trace = off.start("", "")
		off.finish(&f)
	}); n != 0 {
		t.Errorf("%v allocations per request", n)
	}
}

// A refusal that is ours is traced although nothing was submitted; one that is
// the caller's only if it was sampled.
func TestRefusalsAreTraced(t *testing.T) {
	endpoint, spans := tracetest.Collect(t)
	exporter, err := otlp.NewExporter(trace.Config{Endpoint: endpoint}, otlp.Resource{}, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	own := &traces{exporter: exporter}
	targets := slo.Default()
	own.Slo.Store(&targets)
	for status, code := range map[int]string{503: "model_loading", 400: "invalid_json", 401: "invalid_api_key"} {
		own.refused(&edge.Refusal{
			Status: status, Code: code, Route: "/v1/chat/completions", Arrived: time.Now(), Trace: own.start("", ""),
		})
	}
	sampled := own.start("00-"+tracetest.CallersTrace+"-"+tracetest.CallersSpan+"-01", "")
	own.refused(&edge.Refusal{Status: 400, Code: "invalid_json", Route: "/v1/completions", Arrived: time.Now(), Trace: sampled})
	exporter.Close(t.Context())
	got := make(map[string]string)
	for _, s := range spans() {
		got[s.Name] = tracetest.Attribute(s, "error.type") + tracetest.Attribute(s, "http.response.status_code")
	}
	if len(spans()) != 2 || !strings.Contains(got["chat"], "model_loading") || !strings.Contains(got["text_completion"], "400") ||
		strings.Contains(got["text_completion"], "invalid_json") {
		t.Errorf("%v", got)
	}
}
