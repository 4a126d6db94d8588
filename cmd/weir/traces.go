package main

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"weir/api/edge"
	"weir/configs"
	"weir/internal/inference"
	"weir/telemetry"
	"weir/telemetry/slo"
	"weir/telemetry/trace"
)

// traces gives requests their place in distributed traces and, with an
// exporter, tells a collector of those that are sampled, failed or missed an
// objective.
type traces struct {
	exporter *trace.Exporter // nil: off
	ratio    float64
	slo      atomic.Pointer[slo.Objectives]
}

// tracesEvery is how often the log tells of a collector that takes no traces.
const tracesEvery = time.Minute

func newTraces(c configs.Config, b telemetry.Build, instance string, log *zap.Logger) (*traces, error) {
	t := &traces{ratio: c.Trace.SampleRatio}
	t.slo.Store(&c.SLO)
	if c.Trace.Endpoint == "" {
		t.ratio = 0
		return t, nil
	}
	trouble := &quietly{every: tracesEvery}
	var err error
	t.exporter, err = trace.NewExporter(c.Trace, trace.Resource{Name: "weir", Version: b.Version, Instance: instance}, func(err error) {
		trouble.do(func(held int) {
			log.Warn("traces were dropped: the collector did not take them", zap.Error(err), zap.Int("times_before", held))
		})
	})
	return t, err
}

// objectives is the live part of the objectives: whose misses are traced.
func (s *server) objectives(c configs.Config) (commit func(), err error) {
	return func() { s.traces.slo.Store(&c.SLO) }, nil
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
	c := t.wanted(f.Trace, f.Status >= http.StatusInternalServerError || t.missed(f))
	if c == nil {
		return
	}
	operation := operations[f.Endpoint]
	r := &trace.Request{
		Context: *c, Name: operation + " " + f.Model, Start: f.Arrived, End: f.Finished,
		Attributes: append(identity(operation, f.Endpoint, f.Status),
			trace.Text("gen_ai.request.model", f.Model), trace.Text("gen_ai.response.model", f.Model),
			trace.Text("gen_ai.response.id", f.ID), trace.Bool("gen_ai.request.stream", f.Stream),
			trace.Int("gen_ai.request.choice.count", f.N), trace.Int("gen_ai.request.max_tokens", f.MaxTokens),
			trace.Int("gen_ai.usage.input_tokens", f.PromptTokens), trace.Int("gen_ai.usage.output_tokens", f.OutputTokens),
			trace.Int("gen_ai.usage.cache_read.input_tokens", f.CachedTokens),
			trace.Text("weir.class", f.Class.String())),
		Stages: stages(f),
	}
	if f.Status >= http.StatusInternalServerError {
		r.Error = f.Code
	}
	if f.Tenant != "" {
		r.Attributes = append(r.Attributes, trace.Text("weir.tenant", f.Tenant))
	}
	if len(f.Reasons) > 0 {
		r.Attributes = append(r.Attributes, trace.Texts("gen_ai.response.finish_reasons", reasons(f.Reasons)))
	}
	if !f.FirstToken.IsZero() {
		r.Attributes = append(r.Attributes, trace.Seconds("gen_ai.response.time_to_first_chunk", f.FirstToken.Sub(f.Arrived)))
	}
	t.exporter.Offer(r)
}

// refused exports a request that was refused before it was submitted.
func (t *traces) refused(r *edge.Refusal) {
	failed := r.Status >= http.StatusInternalServerError
	c := t.wanted(r.Trace, failed)
	if c == nil {
		return
	}
	operation := operations[r.Route]
	q := &trace.Request{
		Context: *c, Name: operation, Start: r.Arrived, End: time.Now(), Attributes: identity(operation, r.Route, r.Status),
	}
	if failed {
		q.Error = r.Code
	}
	t.exporter.Offer(q)
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
	return t.slo.Load().Missed(first.Sub(f.Arrived), gap)
}

// lastTraces is what the traces of the last requests get to be sent at the end.
const lastTraces = 2 * time.Second

func (s *server) closeTraces() {
	if s.traces.exporter == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastTraces)
	defer cancel()
	s.traces.exporter.Close(ctx)
}

// traceStats is what the registry publishes.
func (s *server) traceStats() telemetry.Traces {
	if s.traces.exporter == nil {
		return telemetry.Traces{}
	}
	st := s.traces.exporter.Stats()
	return telemetry.Traces{Sent: st.Sent, Overflow: st.Overflow, Lost: st.Lost}
}

// operations are the names that OpenTelemetry's GenAI conventions give to
// what the endpoints do.
var operations = map[string]string{
	"/v1/chat/completions": "chat", "/v1/completions": "text_completion",
	"/v1/embeddings": "embeddings", "/embeddings": "embeddings", "/embed": "embeddings", // refusals name the path that was asked
	"/v1/rerank": "rerank", "/v2/rerank": "rerank", "/rerank": "rerank", "/v1/score": "score", "/score": "score",
}

// identity are the attributes of every span of a request.
func identity(operation, route string, status int) []trace.Attribute {
	return []trace.Attribute{
		trace.Text("gen_ai.operation.name", operation), trace.Text("gen_ai.provider.name", "weir"),
		trace.Text("http.route", route), trace.Int("http.response.status_code", status),
	}
}

// stages divide a request's time, as far as it came. A stage that the request
// ended in ends with it.
func stages(f *edge.RequestFinish) []trace.Stage {
	if f.Relayed {
		return []trace.Stage{
			{Name: "parse", Start: f.Arrived, End: f.Parsed},
			{Name: "upstream", Start: f.Submitted, End: f.Finished},
			{Name: "decode", Start: f.FirstToken, End: f.LastToken},
		}
	}
	return []trace.Stage{
		{Name: "parse", Start: f.Arrived, End: f.Parsed},
		{Name: "tokenise", Start: f.Parsed, End: f.Submitted, Attributes: []trace.Attribute{
			trace.Int("gen_ai.usage.input_tokens", f.PromptTokens),
		}},
		{Name: "queue", Start: f.Submitted, End: orEnd(f.Admitted, f)},
		{Name: "prefill", Start: f.Admitted, End: orEnd(f.FirstToken, f), Attributes: []trace.Attribute{
			trace.Int("gen_ai.usage.cache_read.input_tokens", f.CachedTokens),
		}},
		{Name: "decode", Start: f.FirstToken, End: f.LastToken, Attributes: []trace.Attribute{
			trace.Int("gen_ai.usage.output_tokens", f.OutputTokens),
		}},
	}
}

func orEnd(t time.Time, f *edge.RequestFinish) time.Time {
	if t.IsZero() {
		return f.Finished
	}
	return t
}

func reasons(list []inference.FinishReason) []string {
	texts := make([]string, len(list))
	for i, r := range list {
		texts[i] = r.String()
	}
	return texts
}
