package hooks

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"weir/api/edge"
	"weir/configs"
	"weir/telemetry"
	"weir/telemetry/slo"
	"weir/telemetry/trace"
	"weir/telemetry/trace/otlp"
)

// traces gives requests their place in distributed traces and, with an
// exporter, tells a collector of those that are sampled, failed or missed an
// objective.
type traces struct {
	exporter *otlp.Exporter // nil: off
	ratio    float64
	Slo      atomic.Pointer[slo.Objectives]
}

// tracesEvery is how often the log tells of a collector that takes no traces.
const tracesEvery = time.Minute

func newTraces(c configs.Config, b telemetry.Build, instance string, log *zap.Logger) (*traces, error) {
	t := &traces{ratio: c.Trace.SampleRatio}
	t.Slo.Store(&c.SLO)
	if c.Trace.Endpoint == "" {
		t.ratio = 0
		return t, nil
	}
	trouble := &telemetry.LogLimiter{Every: tracesEvery}
	var err error
	t.exporter, err = otlp.NewExporter(c.Trace, otlp.Resource{Name: "weir", Version: b.Version, Instance: instance}, func(err error) {
		trouble.Do(func(held int) {
			log.Warn("traces were dropped: the collector did not take them", zap.Error(err), zap.Int("times_before", held))
		})
	})
	return t, err
}

// Objectives is the live part of the objectives: whose misses are traced.
func (t *traces) Objectives(c configs.Config) (commit func(), err error) {
	return func() { t.Slo.Store(&c.SLO) }, nil
}

// start is the edge's hook. Without an exporter, a caller's trace is still
// answered and logged; none begins here.
func (t *traces) start(traceparent, tracestate string) edge.Trace {
	if t.exporter == nil && traceparent == "" {
		return edge.Trace{}
	}
	c := trace.Begin(traceparent, tracestate, t.ratio)
	return edge.Trace{
		ID: c.ID(), Header: c.Header(), State: c.State, Sampled: t.exporter != nil && c.Sampled, Context: &c,
	}
}

// finish exports a request that was submitted.
func (t *traces) finish(f *edge.RequestFinish) {
	if c := t.wanted(f.Trace, f.Status >= http.StatusInternalServerError || t.missed(f)); c != nil {
		t.exporter.Offer(finishedSpan(c, f))
	}
}

// refused exports a request that was refused before it was submitted.
func (t *traces) refused(r *edge.Refusal) {
	if c := t.wanted(r.Trace, r.Status >= http.StatusInternalServerError); c != nil {
		t.exporter.Offer(refusedSpan(c, r, time.Now()))
	}
}

// wanted is the context of a trace that is to be exported, or nil.
func (t *traces) wanted(own edge.Trace, special bool) *trace.Context {
	c, ok := own.Context.(*trace.Context)
	if t.exporter == nil || !ok || !own.Sampled && !special {
		return nil
	}
	return c
}

// missed reports whether a request was slower than an objective's target. One
// whose first token never came has waited until its end.
func (t *traces) missed(f *edge.RequestFinish) bool {
	if len(f.Reasons) == 0 && f.Status >= http.StatusBadRequest {
		return false // refused, which is quick and the caller's
	}
	first := f.FirstToken
	if first.IsZero() {
		first = f.Finished
	}
	var gap time.Duration
	if perChoice := f.OutputTokens / max(f.Prompts*f.N, 1); perChoice > 1 {
		gap = f.LastToken.Sub(f.FirstToken) / time.Duration(perChoice-1)
	}
	return t.Slo.Load().Missed(first.Sub(f.Arrived), gap)
}

// lastTraces is what the traces of the last requests get to be sent at the end.
const lastTraces = 2 * time.Second

// Close sends the last ones.
func (t *traces) Close() {
	if t.exporter == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastTraces)
	defer cancel()
	t.exporter.Close(ctx)
}

// stats is what the registry publishes.
func (t *traces) stats() telemetry.Traces {
	if t.exporter == nil {
		return telemetry.Traces{}
	}
	st := t.exporter.Stats()
	return telemetry.Traces{Sent: st.Sent, Overflow: st.Overflow, Lost: st.Lost}
}
