package main

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"weir/api/edge"
	"weir/configs"
	"weir/telemetry/slo"
	"weir/telemetry/trace"
)

// collect starts a collector; the spans are there when the server has ended.
func collect(t *testing.T) (endpoint string, spans func() []*otlp.Span) {
	t.Helper()
	var mu sync.Mutex
	var all []*otlp.Span
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var q collector.ExportTraceServiceRequest
		body, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		raw, err := io.ReadAll(body)
		if err != nil || proto.Unmarshal(raw, &q) != nil {
			t.Errorf("%v: %q", err, raw)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, rs := range q.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				all = append(all, ss.Spans...)
			}
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, func() []*otlp.Span {
		mu.Lock()
		defer mu.Unlock()
		return all
	}
}

const (
	callersTrace = "0af7651916cd43dd8448eb211c80319c"
	callersSpan  = "b7ad6b7169203331"
)

// ask sends a request, with a traceparent unless that is empty, and reads all
// of the answer.
func (s *started) ask(path, body, traceparent string) *http.Response {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.api+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if traceparent != "" {
		req.Header.Set("Traceparent", traceparent)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		s.t.Fatal(err)
	}
	return res
}

func attribute(s *otlp.Span, key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.String()
		}
	}
	return ""
}

func TestTraceOfAStream(t *testing.T) {
	endpoint, spans := collect(t)
	s := start(t, func(c *configs.Config) {
		c.Trace.Endpoint, c.Log.Level = endpoint, "debug"
	})
	res := s.ask("/v1/chat/completions", hello+`,"stream":true,"max_tokens":8}`, "00-"+callersTrace+"-"+callersSpan+"-01")
	if header := res.Header.Get("Traceresponse"); !strings.HasPrefix(header, "00-"+callersTrace+"-") || strings.Contains(header, callersSpan) {
		t.Errorf("traceresponse is %q", header)
	}
	if text := openMetrics(t, s.metrics+"/metrics"); !regexp.MustCompile(`vllm:time_to_first_token_seconds_bucket.* # {trace_id="`+callersTrace).MatchString(text) ||
		!regexp.MustCompile(`vllm:inter_token_latency_seconds_bucket.* # {trace_id="`+callersTrace).MatchString(text) {
		t.Error("no exemplar names the trace")
	}
	if err := s.end(); err != nil {
		t.Fatal(err)
	}
	got := spans()
	if len(got) != 6 {
		t.Fatalf("%d spans: %v", len(got), got)
	}
	root := got[0]
	if !strings.HasPrefix(root.Name, "chat ") || string(root.ParentSpanId) != "\xb7\xad\x6b\x71\x69\x20\x33\x31" {
		t.Errorf("%v", root)
	}
	for key, want := range map[string]string{
		"gen_ai.operation.name": "chat", "gen_ai.usage.output_tokens": "8", "http.response.status_code": "200",
		"gen_ai.request.stream": "true", "gen_ai.response.finish_reasons": "length", "weir.class": "default",
	} {
		if value := attribute(root, key); !strings.Contains(value, want) {
			t.Errorf("%s is %q, want %s", key, value, want)
		}
	}
	end := root.StartTimeUnixNano
	for i, name := range []string{"parse", "tokenise", "queue", "prefill", "decode"} {
		stage := got[i+1]
		if stage.Name != name || string(stage.ParentSpanId) != string(root.SpanId) ||
			stage.StartTimeUnixNano < end-uint64(time.Millisecond) || stage.EndTimeUnixNano < stage.StartTimeUnixNano || stage.EndTimeUnixNano > root.EndTimeUnixNano {
			t.Errorf("stage %s, after %d: %v", name, end, stage)
		}
		end = stage.EndTimeUnixNano
	}
	line := s.find(`({[^\n]*"request finished"[^\n]*})`, &s.errs)
	for _, want := range []string{`"trace_id":"` + callersTrace, `"parse":`, `"queue":`, `"prefill":`, `"decode":`, `"class":"default"`, `"output_tokens":8`} {
		if !strings.Contains(line, want) {
			t.Errorf("the log line lacks %s: %s", want, line)
		}
	}
	if strings.Contains(s.errs.String(), "Hello") || strings.Contains(root.String(), "Hello") {
		t.Error("the prompt is in the log or the trace")
	}
}

func openMetrics(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Without sampling, what fails or misses an objective is traced all the same.
func TestSpecialRequestsAreTracedWithoutSampling(t *testing.T) {
	endpoint, spans := collect(t)
	s := start(t, func(c *configs.Config) {
		c.Trace.Endpoint = endpoint
		c.SLO.FirstToken.Target, c.SLO.InterToken.Target = time.Hour, time.Hour
	})
	s.ask("/v1/chat/completions", hello+`,"max_tokens":2}`, "")
	s.ask("/v1/chat/completions", `{`, "")
	if err := s.end(); err != nil {
		t.Fatal(err)
	}
	if got := spans(); len(got) != 0 {
		t.Errorf("ordinary requests are traced: %v", got)
	}
	s = start(t, func(c *configs.Config) {
		c.Trace.Endpoint = endpoint
		c.SLO.FirstToken.Target = time.Nanosecond
	})
	s.ask("/v1/completions", `{"prompt":"Hello","max_tokens":2}`, "")
	if err := s.end(); err != nil {
		t.Fatal(err)
	}
	if got := spans(); len(got) != 6 || !strings.HasPrefix(got[0].Name, "text_completion ") {
		t.Errorf("a slow request gives %v", got)
	}
}

func TestWithoutACollectorTheCallersTraceIsAnsweredAndLogged(t *testing.T) {
	s := start(t, func(c *configs.Config) { c.Log.Level = "debug" })
	if header := s.ask("/v1/chat/completions", hello+`,"max_tokens":1}`, "").Header.Get("Traceresponse"); header != "" {
		t.Errorf("a trace that nobody asked for: %s", header)
	}
	res := s.ask("/v1/chat/completions", `{`, "00-"+callersTrace+"-"+callersSpan+"-01")
	if header := res.Header.Get("Traceresponse"); res.StatusCode != 400 || !strings.Contains(header, callersTrace) {
		t.Errorf("%d, traceresponse is %q", res.StatusCode, header)
	}
	s.find(`("request refused"[^\n]*"trace_id":"`+callersTrace+`)`, &s.errs)
}

func TestTracesCostNothingWhenOff(t *testing.T) {
	objectives := slo.Default()
	off := &traces{}
	off.slo.Store(&objectives)
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
	endpoint, spans := collect(t)
	exporter, err := trace.NewExporter(trace.Config{Endpoint: endpoint}, trace.Resource{}, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	own := &traces{exporter: exporter}
	targets := slo.Default()
	own.slo.Store(&targets)
	for status, code := range map[int]string{503: "model_loading", 400: "invalid_json", 401: "invalid_api_key"} {
		own.refused(&edge.Refusal{
			Status: status, Code: code, Route: "/v1/chat/completions", Arrived: time.Now(), Trace: own.start("", ""),
		})
	}
	sampled := own.start("00-"+callersTrace+"-"+callersSpan+"-01", "")
	own.refused(&edge.Refusal{Status: 400, Code: "invalid_json", Route: "/v1/completions", Arrived: time.Now(), Trace: sampled})
	exporter.Close(t.Context())
	got := make(map[string]string)
	for _, s := range spans() {
		got[s.Name] = attribute(s, "error.type") + attribute(s, "http.response.status_code")
	}
	if len(spans()) != 2 || !strings.Contains(got["chat"], "model_loading") || !strings.Contains(got["text_completion"], "400") ||
		strings.Contains(got["text_completion"], "invalid_json") {
		t.Errorf("%v", got)
	}
}
