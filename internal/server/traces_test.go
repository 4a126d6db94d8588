package server_test

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"weir/configs"
	"weir/internal/server/servertest"
	"weir/telemetry/trace/tracetest"
)

// askTraced sends a request, with a traceparent unless that is empty, and reads all
// of the answer.
func askTraced(s *servertest.Server, path, body, traceparent string) *http.Response {
	s.T.Helper()
	req, err := http.NewRequestWithContext(s.T.Context(), http.MethodPost, s.API+path, strings.NewReader(body))
	if err != nil {
		s.T.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if traceparent != "" {
		req.Header.Set("Traceparent", traceparent)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.T.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		s.T.Fatal(err)
	}
	return res
}

func TestTraceOfAStream(t *testing.T) {
	endpoint, spans := tracetest.Collect(t)
	s := servertest.Start(t, func(c *configs.Config) {
		c.Trace.Endpoint, c.Log.Level = endpoint, "debug"
	})
	res := askTraced(s, "/v1/chat/completions", servertest.Hello+`,"stream":true,"max_tokens":8}`, "00-"+tracetest.CallersTrace+"-"+tracetest.CallersSpan+"-01")
	if header := res.Header.Get("Traceresponse"); !strings.HasPrefix(header, "00-"+tracetest.CallersTrace+"-") || strings.Contains(header, tracetest.CallersSpan) {
		t.Errorf("traceresponse is %q", header)
	}
	if text := openMetrics(t, s.Admin+"/metrics"); !regexp.MustCompile(`vllm:time_to_first_token_seconds_bucket.* # {trace_id="`+tracetest.CallersTrace).MatchString(text) ||
		!regexp.MustCompile(`vllm:inter_token_latency_seconds_bucket.* # {trace_id="`+tracetest.CallersTrace).MatchString(text) {
		t.Error("no exemplar names the trace")
	}
	if err := s.End(); err != nil {
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
		if value := tracetest.Attribute(root, key); !strings.Contains(value, want) {
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
	line := s.Find(`({[^\n]*"request finished"[^\n]*})`, &s.Errs)
	for _, want := range []string{`"trace_id":"` + tracetest.CallersTrace, `"parse":`, `"queue":`, `"prefill":`, `"decode":`, `"class":"default"`, `"output_tokens":8`} {
		if !strings.Contains(line, want) {
			t.Errorf("the log line lacks %s: %s", want, line)
		}
	}
	if strings.Contains(s.Errs.String(), "Hello") || strings.Contains(root.String(), "Hello") {
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
	endpoint, spans := tracetest.Collect(t)
	s := servertest.Start(t, func(c *configs.Config) {
		c.Trace.Endpoint = endpoint
		c.SLO.FirstToken.Target, c.SLO.InterToken.Target = time.Hour, time.Hour
	})
	askTraced(s, "/v1/chat/completions", servertest.Hello+`,"max_tokens":2}`, "")
	askTraced(s, "/v1/chat/completions", `{`, "")
	if err := s.End(); err != nil {
		t.Fatal(err)
	}
	if got := spans(); len(got) != 0 {
		t.Errorf("ordinary requests are traced: %v", got)
	}
	s = servertest.Start(t, func(c *configs.Config) {
		c.Trace.Endpoint = endpoint
		c.SLO.FirstToken.Target = time.Nanosecond
	})
	askTraced(s, "/v1/completions", `{"prompt":"Hello","max_tokens":2}`, "")
	if err := s.End(); err != nil {
		t.Fatal(err)
	}
	if got := spans(); len(got) != 6 || !strings.HasPrefix(got[0].Name, "text_completion ") {
		t.Errorf("a slow request gives %v", got)
	}
}

func TestWithoutACollectorTheCallersTraceIsAnsweredAndLogged(t *testing.T) {
	s := servertest.Start(t, func(c *configs.Config) { c.Log.Level = "debug" })
	if header := askTraced(s, "/v1/chat/completions", servertest.Hello+`,"max_tokens":1}`, "").Header.Get("Traceresponse"); header != "" {
		t.Errorf("a trace that was not asked for: %s", header)
	}
	res := askTraced(s, "/v1/chat/completions", `{`, "00-"+tracetest.CallersTrace+"-"+tracetest.CallersSpan+"-01")
	if header := res.Header.Get("Traceresponse"); res.StatusCode != 400 || !strings.Contains(header, tracetest.CallersTrace) {
		t.Errorf("%d, traceresponse is %q", res.StatusCode, header)
	}
	s.Find(`("request refused"[^\n]*"trace_id":"`+tracetest.CallersTrace+`)`, &s.Errs)
}
