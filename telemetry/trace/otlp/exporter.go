// Package otlp sends the spans of requests to an OpenTelemetry collector, over OTLP. They are made of the timestamps that are there when
// a request has ended.
//
//	exporter, err := otlp.NewExporter(settings.Trace, otlp.Resource{Name: "weir"}, func(err error) { log.Print(err) })
//	…
//	exporter.Offer(&otlp.Request{Context: c, Name: "chat tiny", Start: start, End: end})
//	…
//	exporter.Close(ctx) // and sends what waits
//
// It is apart from package trace because OpenTelemetry's client brings gRPC with it.
package otlp

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"

	"weir/telemetry/trace"
)

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
func NewExporter(c trace.Config, r Resource, failed func(error)) (*Exporter, error) {
	address, err := c.URL()
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
	var made []*spans.Span
	for _, r := range batch {
		made = r.appendSpans(made)
	}
	err := e.client.UploadTraces(ctx, []*spans.ResourceSpans{{
		Resource:   e.resource,
		ScopeSpans: []*spans.ScopeSpans{{Scope: &common.InstrumentationScope{Name: "weir"}, Spans: made}},
	}})
	if err != nil {
		e.lost.Add(uint64(len(batch)))
		e.failed(err)
		return
	}
	e.sent.Add(uint64(len(batch)))
}
