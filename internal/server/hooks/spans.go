package hooks

import (
	"cmp"
	"net/http"
	"strings"
	"time"

	"weir/api/edge"
	"weir/internal/inference"
	"weir/telemetry/trace"
	"weir/telemetry/trace/otlp"
)

// operations are the names that OpenTelemetry's GenAI conventions give to
// what the endpoints do.
var operations = map[string]string{
	"/v1/chat/completions": "chat", "/v1/responses": "chat", "/v1/messages": "chat", "/v1/completions": "text_completion",
	"/v1/embeddings": "embeddings", "/embeddings": "embeddings", "/embed": "embeddings", "/v2/embed": "embeddings", // refusals name the path that was asked
	"/v1/rerank": "rerank", "/v2/rerank": "rerank", "/rerank": "rerank", "/v1/score": "score", "/v1/classify": "classify", "/classify": "classify", "/v1/decisions": "decisions", "/v1/systemone": "decisions", "/score": "score",
	"/v1/moderations": "moderation",
}

// told is what the spans of a request say of it, however it ended.
type told struct {
	endpoint              string
	prediction            bool
	status                int
	code                  string
	tenant, model, limit  string // the model as the server calls it
	version, arm, replica string
}

// span is the span of the request. Only what is the server's fault is an error of a server's span; its code is told of all.
func (s *told) span(c *trace.Context, start, end time.Time) *otlp.Request {
	system, name, model := "gen_ai.provider.name", "gen_ai.operation.name", "gen_ai.request.model"
	operation := cmp.Or(operations[s.endpoint], "request")
	if s.prediction { // the conventions for generative models are not for trees
		system, name, model = "weir.system", "weir.operation.name", "weir.model.name"
		operation = "predict"
	}
	r := &otlp.Request{Context: *c, Name: strings.TrimSpace(operation + " " + s.model), Start: start, End: end}
	if s.status >= http.StatusInternalServerError {
		r.Error = s.code
	}
	r.Attributes = []otlp.Attribute{otlp.Text("http.route", s.endpoint), otlp.Int("http.response.status_code", s.status)}
	for _, a := range []struct{ key, value string }{
		{system, "weir"}, {name, operation}, {model, s.model}, {"weir.model.version", s.version}, {"weir.rollout.arm", s.arm},
		{"weir.replica", s.replica}, {"weir.tenant", s.tenant}, {"weir.error.code", s.code}, {"weir.limit", s.limit},
	} {
		if a.value != "" {
			r.Attributes = append(r.Attributes, otlp.Text(a.key, a.value))
		}
	}
	return r
}

// refusedSpan is the span of a request that was refused before it was submitted.
func refusedSpan(c *trace.Context, r *edge.Refusal, end time.Time) *otlp.Request {
	s := told{
		endpoint: r.Route, prediction: r.Prediction, status: r.Status, code: r.Code,
		tenant: r.Tenant, model: r.Model, version: r.Version, arm: r.Arm.Name,
	}
	return s.span(c, r.Arrived, end)
}

// finishedSpan is the span of a request that was submitted.
func finishedSpan(c *trace.Context, f *edge.RequestFinish) *otlp.Request {
	s := told{
		endpoint: f.Endpoint, prediction: f.Prediction, status: f.Status, code: f.Code,
		tenant: f.Tenant, model: f.Model, limit: f.Limit, version: f.Version, arm: f.Arm.Name, replica: f.Replica,
	}
	r := s.span(c, f.Arrived, f.Finished)
	r.Stages = stages(f)
	r.Attributes = append(r.Attributes, otlp.Text("weir.class", f.Class.String()))
	if f.Prediction {
		r.Attributes = append(r.Attributes, otlp.Text("weir.request.id", f.ID), otlp.Int("weir.predict.rows", f.PromptTokens))
		return r
	}
	r.Attributes = append(r.Attributes,
		otlp.Text("gen_ai.response.model", f.Model),
		otlp.Text("gen_ai.response.id", f.ID), otlp.Bool("gen_ai.request.stream", f.Stream),
		otlp.Int("gen_ai.request.choice.count", f.N), otlp.Int("gen_ai.request.max_tokens", f.MaxTokens),
		otlp.Int("gen_ai.usage.input_tokens", f.PromptTokens), otlp.Int("gen_ai.usage.output_tokens", f.OutputTokens),
		otlp.Int("gen_ai.usage.cache_read.input_tokens", f.CachedTokens))
	if len(f.Reasons) > 0 {
		r.Attributes = append(r.Attributes, otlp.Texts("gen_ai.response.finish_reasons", reasons(f.Reasons)))
	}
	if !f.FirstToken.IsZero() {
		r.Attributes = append(r.Attributes, otlp.Seconds("gen_ai.response.time_to_first_chunk", f.FirstToken.Sub(f.Arrived)))
	}
	return r
}

// stages divide a request's time, as far as it came. A stage that the request
// ended in ends with it.
func stages(f *edge.RequestFinish) []otlp.Stage {
	switch {
	case f.Relayed:
		return []otlp.Stage{
			{Name: "parse", Start: f.Arrived, End: f.Parsed},
			{Name: "upstream", Start: f.Submitted, End: f.Finished},
			{Name: "decode", Start: f.FirstToken, End: f.LastToken},
		}
	case f.Prediction:
		return []otlp.Stage{
			{Name: "parse", Start: f.Arrived, End: f.Parsed},
			{Name: "queue", Start: f.Submitted, End: orEnd(f.Admitted, f)},
			{Name: "compute", Start: f.Admitted, End: f.Finished},
		}
	}
	return []otlp.Stage{
		{Name: "parse", Start: f.Arrived, End: f.Parsed},
		{Name: "tokenise", Start: f.Parsed, End: f.Submitted, Attributes: []otlp.Attribute{
			otlp.Int("gen_ai.usage.input_tokens", f.PromptTokens),
		}},
		{Name: "queue", Start: f.Submitted, End: orEnd(f.Admitted, f)},
		{Name: "prefill", Start: f.Admitted, End: orEnd(f.FirstToken, f), Attributes: []otlp.Attribute{
			otlp.Int("gen_ai.usage.cache_read.input_tokens", f.CachedTokens),
		}},
		{Name: "decode", Start: f.FirstToken, End: f.LastToken, Attributes: []otlp.Attribute{
			otlp.Int("gen_ai.usage.output_tokens", f.OutputTokens),
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
