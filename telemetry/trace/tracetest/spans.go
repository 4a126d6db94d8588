// Package tracetest has a collector of spans for tests.
//
//	endpoint, spans := tracetest.Collect(t)
//	settings.Trace.Endpoint = endpoint
//	… // a server runs, and ends
//	for _, s := range spans() {
//		t.Log(s.Name, tracetest.Attribute(s, "gen_ai.request.model"))
//	}
package tracetest

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Collect starts a collector; the spans are there when the server has ended.
func Collect(t *testing.T) (endpoint string, spans func() []*otlp.Span) {
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

// The trace that a caller of a test is in.
const (
	CallersTrace = "0af7651916cd43dd8448eb211c80319c"
	CallersSpan  = "b7ad6b7169203331"
)

// Attribute is the text of a span's attribute; "" where it has none.
func Attribute(s *otlp.Span, key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.String()
		}
	}
	return ""
}
