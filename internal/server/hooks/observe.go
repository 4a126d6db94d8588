package hooks

import (
	"net/http"
	"time"

	"go.uber.org/zap"

	"weir/api/edge"
	"weir/internal/inference"
	"weir/telemetry"
)

// generationHooks write what the edge reports of generations to metrics, log and traces. The log carries ids,
// counts and durations, never text of a request.
func generationHooks(m *telemetry.Metrics, log *zap.Logger, refused *refusals, traced *traces) edge.Hooks {
	return edge.Hooks{
		StartTrace: traced.start,
		OnFirstToken: func(r *edge.RequestStart, since time.Duration) {
			if isTimed(r) {
				m.Model(r.Model).ObserveFirstToken(since.Seconds(), exemplar(r.Trace))
			}
		},
		OnTokenGap: func(r *edge.RequestStart, gap time.Duration, slowest bool) {
			if !isTimed(r) {
				return
			}
			if slowest {
				m.Model(r.Model).ObserveInterToken(gap.Seconds(), exemplar(r.Trace))
				return
			}
			m.Model(r.Model).ObserveInterToken(gap.Seconds(), "")
		},
		OnRequestFinish: func(f edge.RequestFinish) {
			m.CountAnswer(answerOf(&f))
			observeFinish(m.Model(f.Model), &f)
			logFinish(log, &f)
			traced.finish(&f)
		},
		OnResponse: func(route, method string, status int, took time.Duration) {
			m.ObserveHTTP(route, method, status, took.Seconds())
		},
		OnRefused: func(r edge.Refusal) {
			m.CountRefusal(r.Status, r.Code)
			if r.Early {
				m.CountAnswer(telemetry.Answer{Outcome: refusalOutcome(r.Status)})
			}
			refused.add(r)
			if r.Early {
				traced.refused(&r)
			}
		},
		OnKey: func(how string, err error) {
			m.CountKey(how)
			if err != nil {
				log.Error("the store of idempotency keys failed", zap.Error(err))
			}
		},
		OnClientRetry: m.CountClientRetry,
		OnDisconnect:  func(model string) { m.Model(model).CountDisconnect() },
		OnPanic: func(where string, value any, stack []byte) {
			m.CountPanic(where)
			log.Error("a bug was caught", zap.String("boundary", where), zap.Any("panic", value), zap.ByteString("stack", stack))
		},
	}
}

// predictionHooks are generationHooks for classical models, of which other series tell (telemetry.Predictions).
func predictionHooks(m *telemetry.Metrics, log *zap.Logger, refused *refusals, traced *traces) edge.Hooks {
	all := generationHooks(m, log, refused, traced)
	return edge.Hooks{
		StartTrace: all.StartTrace, OnResponse: all.OnResponse, OnClientRetry: all.OnClientRetry, OnPanic: all.OnPanic,
		OnRequestFinish: func(f edge.RequestFinish) {
			logFinish(log, &f)
			traced.finish(&f)
		},
		OnRefused: func(r edge.Refusal) {
			m.CountRefusal(r.Status, r.Code)
			refused.add(r)
			if r.Early {
				traced.refused(&r)
			}
		},
	}
}

// isTimed reports whether the objectives ask for the times of a request's tokens: lines of batches wait for others, and
// no tenant for them.
func isTimed(r *edge.RequestStart) bool { return r.Class != inference.Batch }

func observeFinish(m *telemetry.Model, f *edge.RequestFinish) {
	m.CountUnreadable(f.Unreadable)
	observeClass(m, f)
	if refused := len(f.Reasons) == 0 && f.Status >= http.StatusBadRequest; refused {
		m.CountRejection(f.Code)
		return
	}
	for _, reason := range f.Reasons {
		m.CountFinish(finishLabel(reason))
	}
	if f.FromCache {
		return // the series are about the engine
	}
	m.ObserveRequest(telemetry.Request{
		PromptTokens: f.PromptTokens, CachedTokens: f.CachedTokens, OutputTokens: f.OutputTokens, MaxTokens: f.MaxTokens,
		Choices:         f.Prompts * f.N,
		EndToEndSeconds: f.Finished.Sub(f.Arrived).Seconds(),
		DecodeSeconds:   between(f.FirstToken, f.LastToken),
	})
}

// observeClass records what befell a request by its class.
func observeClass(m *telemetry.Model, f *edge.RequestFinish) {
	class := f.Class.String()
	if !f.FirstToken.IsZero() && !f.FromCache {
		m.ObserveUse(class, telemetry.Use{
			Tokens: f.PromptTokens + f.OutputTokens, ComputeSeconds: f.Compute.Seconds(), Cost: f.Cost.Units(),
		})
	}
	if !f.Admitted.IsZero() {
		m.ObserveQueueWait(class, max(0, f.Admitted.Sub(f.Submitted).Seconds()))
	}
	switch {
	case f.Code == "deadline_exceeded", f.Code == "deadline_unreachable":
		m.CountDeadlineMiss(class, f.Code)
	case f.Status == http.StatusServiceUnavailable && f.FirstToken.IsZero():
		m.CountShed(class, f.Code)
	}
}

// exemplar is the trace that a collector will have, or "". Only
// the slowest gaps of a request so far carry one, since each costs memory.
func exemplar(t edge.Trace) string {
	if !t.Sampled {
		return ""
	}
	return t.ID
}

// answerOf says how a request that was submitted ended. Choices exist once its
// backend has taken it, and then a stream's header is out.
func answerOf(f *edge.RequestFinish) telemetry.Answer {
	a := telemetry.Answer{Model: f.Model, Outcome: telemetry.AnswerComplete, Stream: f.Stream && len(f.Reasons) > 0}
	switch {
	case f.Class == inference.Batch:
		a.Outcome = telemetry.AnswerBatch
	case f.Code == edge.CodeCancelled:
		a.Outcome = telemetry.AnswerCancelled
	case f.Status == statusHungUp:
		a.Outcome = telemetry.AnswerAbandoned
	case f.Status < http.StatusBadRequest:
	case len(f.Reasons) == 0 || f.Status >= http.StatusInternalServerError && !f.Stream:
		a.Outcome = refusalOutcome(f.Status)
	case f.Status >= http.StatusInternalServerError:
		a.Outcome = telemetry.AnswerBroken
	default:
		a.Outcome = telemetry.AnswerAbandoned // a reader that was too slow
	}
	return a
}

// statusHungUp is the status of requests whose client went away.
const statusHungUp = 499

func refusalOutcome(status int) string {
	if status >= http.StatusInternalServerError {
		return telemetry.AnswerFailed
	}
	return telemetry.AnswerRefused
}

// between is the seconds from one moment to another, or -1 where one is not set.
func between(from, to time.Time) float64 {
	if from.IsZero() || to.IsZero() {
		return -1
	}
	return to.Sub(from).Seconds()
}

// finishLabel is vLLM's word for a finish reason.
func finishLabel(r inference.FinishReason) string {
	switch r {
	case inference.FinishStop, inference.FinishLength, inference.FinishError, inference.FinishFiltered:
		return r.String()
	case inference.FinishNone, inference.FinishCancelled:
	}
	return "abort"
}

// logFinish logs finished requests at level debug, requests that an upstream failed
// at level warn, and requests that a bug ended at level error.
func logFinish(log *zap.Logger, f *edge.RequestFinish) {
	if f.Cause == nil && f.Code != "internal_error" && !log.Core().Enabled(zap.DebugLevel) {
		return // its fields need not be made
	}
	fields := accessFields(f)
	if f.Cause != nil {
		log.Warn("an upstream failed a request", append(fields, zap.Error(f.Cause))...)
		return
	}
	if f.Code == "internal_error" {
		log.Error("a bug ended a request", fields...)
		return
	}
	log.Debug("request finished", fields...)
}

// accessFields are what the log says of a request: ids, counts and the times
// of its stages, of those that it came to.
func accessFields(f *edge.RequestFinish) []zap.Field {
	fields := []zap.Field{
		zap.String("id", f.ID), zap.String("endpoint", f.Endpoint), zap.String("model", f.Model), zap.String("version", f.Version),
		zap.String("class", f.Class.String()), zap.Bool("stream", f.Stream),
		zap.Int("status", f.Status), zap.String("code", f.Code),
		zap.Int("prompt_tokens", f.PromptTokens), zap.Int("cached_tokens", f.CachedTokens),
		zap.Int("output_tokens", f.OutputTokens), zap.Duration("took", f.Finished.Sub(f.Arrived)),
	}
	if f.Sampled {
		fields = append(fields, zap.Int64("seed", f.Seed))
	}
	if f.Estimated {
		fields = append(fields, zap.Bool("tokens_estimated", true))
	}
	if f.Trace.ID != "" {
		fields = append(fields, zap.String("trace_id", f.Trace.ID))
	}
	if f.Tenant != "" {
		fields = append(fields, zap.String("tenant", f.Tenant))
	}
	if f.Limit != "" {
		fields = append(fields, zap.String("limit", f.Limit))
	}
	for _, s := range stages(f) {
		if !s.Start.IsZero() && !s.End.IsZero() {
			fields = append(fields, zap.Duration(s.Name, s.End.Sub(s.Start)))
		}
	}
	return fields
}
