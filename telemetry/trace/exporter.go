package trace

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
)

// Config is what an operator sets.
type Config struct {
	Endpoint    string  // URL of a collector's OTLP over HTTP: http://127.0.0.1:4318; empty: no traces
	SampleRatio float64 // of the requests whose caller has not decided
}

// Validate reports what makes no sense.
func (c Config) Validate() error {
	if c.SampleRatio < 0 || c.SampleRatio > 1 {
		return fmt.Errorf("trace_sample_ratio is %g; it must be from 0 to 1", c.SampleRatio)
	}
	if c.Endpoint == "" {
		return nil
	}
	_, err := c.url()
	return err
}

// url is the address that spans are posted to: a collector's standard path
// where the endpoint names none.
func (c Config) url() (string, error) {
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", fmt.Errorf("otlp_endpoint is %q; it must be a URL such as http://127.0.0.1:4318", c.Endpoint)
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/v1/traces"
	}
	return u.String(), nil
}

// Bounds of what waits for the collector. A request has about six spans.
const (
	queueRequests = 2048
	batchRequests = 128
	batchWait     = time.Second
	uploadTimeout = 10 * time.Second
	retryFor      = 20 * time.Second // of one batch, while others wait
)

// Exporter sends requests to a collector. The collector's state touches no
// request: what does not fit the queue is dropped and counted.
type Exporter struct {
	client   otlptrace.Client
	resource *resource.Resource
	failed   func(error)

	queue    chan *Request
	abort    context.CancelFunc // ends uploads
	done     chan struct{}      // closed when the worker has ended
	sending  sync.RWMutex       // held to offer; the queue is closed under it
	closed   bool
	sent     atomic.Uint64
	overflow atomic.Uint64
	lost     atomic.Uint64
}

// Stats are the requests that were offered, by what happened to their spans.
type Stats struct {
	Sent     uint64
	Overflow uint64 // dropped: the queue was full
	Lost     uint64 // dropped: the collector did not take them
}

// Resource describes the process that spans come from.
type Resource struct{ Name, Version, Instance string }

// NewExporter starts a goroutine; Close ends it. failed is told of batches
// that the collector did not take.
func NewExporter(c Config, r Resource, failed func(error)) (*Exporter, error) {
	address, err := c.url()
	if err != nil {
		return nil, err
	}
	e := &Exporter{
		client: otlptracehttp.NewClient(
			otlptracehttp.WithEndpointURL(address), otlptracehttp.WithTimeout(uploadTimeout),
			otlptracehttp.WithCompression(otlptracehttp.GzipCompression),
			otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
				Enabled: true, InitialInterval: 500 * time.Millisecond, MaxInterval: 5 * time.Second, MaxElapsedTime: retryFor,
			}),
		),
		resource: &resource.Resource{Attributes: []*common.KeyValue{
			Text("service.name", r.Name), Text("service.version", r.Version), Text("service.instance.id", r.Instance),
		}},
		failed: failed, queue: make(chan *Request, queueRequests), done: make(chan struct{}),
	}
	ctx, abort := context.WithCancel(context.Background())
	e.abort = abort
	if err := e.client.Start(ctx); err != nil {
		abort()
		return nil, fmt.Errorf("start the export of traces: %w", err)
	}
	go e.run(ctx)
	return e, nil
}

// Offer hands a request over and never waits. The exporter owns r from then on.
func (e *Exporter) Offer(r *Request) {
	e.sending.RLock()
	defer e.sending.RUnlock()
	if e.closed {
		e.overflow.Add(1)
		return
	}
	select {
	case e.queue <- r:
	default:
		e.overflow.Add(1)
	}
}

// Stats counts since the start.
func (e *Exporter) Stats() Stats {
	return Stats{Sent: e.sent.Load(), Overflow: e.overflow.Load(), Lost: e.lost.Load()}
}

// Close sends what waits, for as long as ctx allows.
func (e *Exporter) Close(ctx context.Context) {
	e.sending.Lock()
	if !e.closed {
		e.closed = true
		close(e.queue)
	}
	e.sending.Unlock()
	select {
	case <-e.done:
	case <-ctx.Done():
	}
	e.abort()
	<-e.done
}

// run sends batches until the queue is closed and empty.
func (e *Exporter) run(ctx context.Context) {
	defer close(e.done)
	for {
		batch, more := e.gather()
		if len(batch) > 0 {
			e.upload(ctx, batch)
		}
		if !more {
			return
		}
	}
}

// gather waits for a request, and for others that follow soon.
func (e *Exporter) gather() (batch []*Request, more bool) {
	r, more := <-e.queue
	if !more {
		return nil, false
	}
	batch = append(batch, r)
	timer := time.NewTimer(batchWait)
	defer timer.Stop()
	for len(batch) < batchRequests {
		select {
		case r, more := <-e.queue:
			if !more {
				return batch, false
			}
			batch = append(batch, r)
		case <-timer.C:
			return batch, true
		}
	}
	return batch, true
}

func (e *Exporter) upload(ctx context.Context, batch []*Request) {
	var spans []*otlp.Span
	for _, r := range batch {
		spans = r.appendSpans(spans)
	}
	err := e.client.UploadTraces(ctx, []*otlp.ResourceSpans{{
		Resource:   e.resource,
		ScopeSpans: []*otlp.ScopeSpans{{Scope: &common.InstrumentationScope{Name: "weir"}, Spans: spans}},
	}})
	if err != nil {
		e.lost.Add(uint64(len(batch)))
		e.failed(err)
		return
	}
	e.sent.Add(uint64(len(batch)))
}
