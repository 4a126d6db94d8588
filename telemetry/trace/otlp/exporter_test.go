package otlp

import (
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"weir/telemetry/trace"
)

const traceID = "0af7651916cd43dd8448eb211c80319c" // of the caller

// fakeCollector keeps what is posted to it.
type fakeCollector struct {
	*httptest.Server
	mu    sync.Mutex
	spans []*spans.Span
	names map[string]string // of the resource
	posts int
}

func newCollector(t *testing.T, answer func(post int) int) *fakeCollector {
	t.Helper()
	c := &fakeCollector{names: make(map[string]string)}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.posts++
		if status := answer(c.posts); status != http.StatusOK {
			w.WriteHeader(status)
			return
		}
		if r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("posted to %s as %s", r.URL.Path, r.Header.Get("Content-Type"))
		}
		c.take(t, r)
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *fakeCollector) take(t *testing.T, r *http.Request) {
	unzipped, err := gzip.NewReader(r.Body)
	if err != nil {
		t.Error(err)
		return
	}
	body, err := io.ReadAll(unzipped)
	if err != nil {
		t.Error(err)
	}
	var q collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &q); err != nil {
		t.Error(err)
	}
	for _, rs := range q.ResourceSpans {
		for _, a := range rs.Resource.Attributes {
			c.names[a.Key] = a.Value.GetStringValue()
		}
		for _, ss := range rs.ScopeSpans {
			c.spans = append(c.spans, ss.Spans...)
		}
	}
}

func always(int) int { return http.StatusOK }

func newExporter(t *testing.T, endpoint string) *Exporter {
	t.Helper()
	e, err := NewExporter(trace.Config{Endpoint: endpoint}, Resource{Name: "weir", Version: "v1", Instance: "here"}, func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func closeWithin(t *testing.T, e *Exporter, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	began := time.Now()
	e.Close(ctx)
	if took := time.Since(began); took > d+2*time.Second {
		t.Errorf("closing took %v", took)
	}
}

func TestCollectorGetsARequestsSpans(t *testing.T) {
	c := newCollector(t, always)
	e := newExporter(t, c.URL)
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	e.Offer(&Request{
		Context: trace.Begin("00-"+traceID+"-b7ad6b7169203331-01", "a=1", 0), Name: "chat tiny", Error: "internal_error", Start: start, End: at(100),
		Attributes: []Attribute{Text("gen_ai.operation.name", "chat"), Int("n", 3), Bool("b", true), Texts("r", []string{"stop"}), Seconds("s", time.Second)},
		Stages: []Stage{
			{Name: "parse", Start: start, End: at(1)},
			{Name: "queue", Start: at(1), End: at(20)},
			{Name: "prefill", Start: at(20)}, // never ended
			{Name: "decode"},                 // never began
			{Name: "stepped back", Start: at(20), End: at(10)},
		},
	})
	closeWithin(t, e, 5*time.Second)
	if len(c.spans) != 4 || e.Stats() != (Stats{Sent: 1}) {
		t.Fatalf("%d spans, %+v: %v", len(c.spans), e.Stats(), c.spans)
	}
	root, parse, back := c.spans[0], c.spans[1], c.spans[3]
	hexed := func(b []byte) string { return (&trace.Context{Trace: [16]byte(b)}).ID() }
	if hexed(root.TraceId) != traceID || root.Name != "chat tiny" || root.TraceState != "a=1" || len(root.ParentSpanId) != 8 ||
		root.Kind != spans.Span_SPAN_KIND_SERVER || root.Status.Code != spans.Status_STATUS_CODE_ERROR ||
		root.EndTimeUnixNano-root.StartTimeUnixNano != 100e6 {
		t.Errorf("%v", root)
	}
	if got := root.Attributes[len(root.Attributes)-1]; got.Key != "error.type" || got.Value.GetStringValue() != "internal_error" {
		t.Errorf("the last attribute is %v", got)
	}
	if string(parse.ParentSpanId) != string(root.SpanId) || string(parse.TraceId) != string(root.TraceId) || string(parse.SpanId) == string(root.SpanId) {
		t.Errorf("%v below %v", parse, root)
	}
	if back.EndTimeUnixNano < back.StartTimeUnixNano {
		t.Errorf("%v ends before it starts", back)
	}
	if c.names["service.name"] != "weir" || c.names["service.version"] != "v1" || c.names["service.instance.id"] != "here" {
		t.Errorf("the resource is %v", c.names)
	}
}

func TestTraceWithoutACallerIsARoot(t *testing.T) {
	c := newCollector(t, always)
	e := newExporter(t, c.URL+"/v1/traces")
	e.Offer(&Request{Context: trace.Begin("", "", 1), Name: "chat", Start: time.Now(), End: time.Now()})
	closeWithin(t, e, 5*time.Second)
	if len(c.spans) != 1 || len(c.spans[0].ParentSpanId) != 0 || c.spans[0].Status.Code != spans.Status_STATUS_CODE_UNSET {
		t.Errorf("%v", c.spans)
	}
}

func TestBatchIsSentAgainToABusyCollector(t *testing.T) {
	c := newCollector(t, func(post int) int {
		if post == 1 {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	e := newExporter(t, c.URL)
	e.Offer(&Request{Context: trace.Begin("", "", 1), Name: "chat", Start: time.Now(), End: time.Now()})
	closeWithin(t, e, 10*time.Second)
	if c.posts != 2 || e.Stats() != (Stats{Sent: 1}) {
		t.Errorf("%d posts, %+v", c.posts, e.Stats())
	}
}

// A collector that hangs, is gone or refuses costs requests nothing but their
// traces, which are counted.
func TestBrokenCollectorsSlowNoOne(t *testing.T) {
	hang := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	defer hanging.Close()
	defer close(hang)
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	absent := "http://" + gone.Addr().String()
	_ = gone.Close()
	refusing := newCollector(t, func(int) int { return http.StatusBadRequest })
	for name, endpoint := range map[string]string{"hangs": hanging.URL, "is gone": absent, "refuses": refusing.URL} {
		t.Run(name, func(t *testing.T) {
			e := newExporter(t, endpoint)
			const offered = queueRequests + 2000
			began := time.Now()
			for range offered {
				e.Offer(&Request{Name: "chat", Start: began, End: began})
			}
			closeWithin(t, e, 200*time.Millisecond) // offering waited for none: the collector that hangs still does
			st := e.Stats()
			if st.Sent != 0 || st.Overflow+st.Lost != offered {
				t.Errorf("of %d offered: %+v", offered, st)
			}
			if name == "hangs" && st.Overflow == 0 {
				t.Error("the queue has no bound")
			}
			e.Offer(&Request{}) // too late, and no panic
			if e.Stats().Overflow != st.Overflow+1 {
				t.Error("a request after the end is not counted")
			}
		})
	}
}
