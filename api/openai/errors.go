package openai

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"weir/api"
	"weir/api/meter"
	"weir/internal/inference"
	"weir/scheduler/quota"
)

// statusHungUp is reported to hooks when the client went away before its
// answer; nobody receives it.
const statusHungUp = 499

// faults maps the backend's sentinel errors to what a client sees. The first
// match counts. Statuses follow one rule: 400 is for what can never succeed,
// 429 for a client beyond its share, 503 for what the server cannot do now.
var faults = []struct {
	sentinel   error
	status     int
	kind, code string
	retryAfter time.Duration // unless the error knows better; 0: trying again changes nothing
}{
	{inference.ErrContextLength, http.StatusBadRequest, api.TypeInvalidRequest, "context_length_exceeded", 0},
	{inference.ErrNeverFits, http.StatusBadRequest, api.TypeInvalidRequest, "request_never_fits", 0},
	{inference.ErrInvalid, http.StatusBadRequest, api.TypeInvalidRequest, "invalid_value", 0},
	{inference.ErrTenantQueueFull, http.StatusTooManyRequests, api.TypeRateLimit, "rate_limit_exceeded", time.Second},
	{inference.ErrQueueFull, http.StatusServiceUnavailable, api.TypeUnavailable, "server_is_overloaded", time.Second},
	{inference.ErrQueueTimeout, http.StatusServiceUnavailable, api.TypeUnavailable, "queue_timeout", time.Second},
	{inference.ErrShed, http.StatusServiceUnavailable, api.TypeUnavailable, "request_shed", time.Second},
	{inference.ErrDeadlineUnreachable, http.StatusTooManyRequests, api.TypeRateLimit, "deadline_unreachable", time.Second},
	{inference.ErrDeadline, http.StatusRequestTimeout, api.TypeInvalidRequest, "deadline_exceeded", 0},
	{inference.ErrUnavailable, http.StatusServiceUnavailable, api.TypeUnavailable, "engine_unavailable", 2 * time.Second},
	{inference.ErrOutOfCache, http.StatusServiceUnavailable, api.TypeUnavailable, "kv_cache_exhausted", time.Second},
	{inference.ErrSlowConsumer, http.StatusRequestTimeout, api.TypeInvalidRequest, "client_too_slow", 0},
	{inference.ErrCancelled, http.StatusServiceUnavailable, api.TypeUnavailable, "request_cancelled", time.Second},
}

// fromBackend turns an error of SubmitAll or of a stream's end into a response.
// Errors that wrap no sentinel are bugs: their text stays in the process.
func fromBackend(err error) *api.Error {
	if limit := (*quota.Refusal)(nil); errors.As(err, &limit) {
		return meter.Fault(err)
	}
	for _, f := range faults {
		if !errors.Is(err, f.sentinel) {
			continue
		}
		e := &api.Error{Status: f.status, Type: f.kind, Code: f.code, Message: err.Error(), RetryAfter: f.retryAfter}
		if limit := (*inference.LimitError)(nil); errors.As(err, &limit) && limit.RetryAfter > 0 {
			e.RetryAfter = limit.RetryAfter
		}
		// SDKs retry 408, but a deadline that has passed stays passed.
		e.NoRetry = f.sentinel == inference.ErrDeadline
		return e
	}
	return internalError("the engine hit an internal error on this request")
}

func internalError(message string) *api.Error {
	return &api.Error{Status: http.StatusInternalServerError, Type: api.TypeServer, Code: "internal_error", Message: message}
}

func clientGone() *api.Error {
	return &api.Error{Status: statusHungUp, Type: api.TypeInvalidRequest, Code: "client_closed_request", Message: "the client closed the connection"}
}

func badRequest(code, param, format string, args ...any) *api.Error {
	return &api.Error{Status: http.StatusBadRequest, Type: api.TypeInvalidRequest, Code: code, Param: param,
		Message: fmt.Sprintf(format, args...)}
}

func wrongType(param, want string, raw []byte) *api.Error {
	return badRequest("invalid_type", param, "%s must be %s, not %s", orBody(param), want, quote(raw))
}

func outOfRange(param string, raw []byte, want string) *api.Error {
	return badRequest("invalid_value", param, "%s is %s; it must be %s", param, quote(raw), want)
}

func missing(param, what string) *api.Error {
	return badRequest("missing_required_parameter", param, "%s is missing; it must be %s", param, what)
}

func modelNotFound(name, served string) *api.Error {
	return &api.Error{Status: http.StatusNotFound, Type: api.TypeInvalidRequest, Code: "model_not_found", Param: "model",
		Message: fmt.Sprintf("no model is called %q here; served: %s", quote([]byte(name)), served)}
}

func modelLoading(p LoadProgress) *api.Error {
	return &api.Error{Status: http.StatusServiceUnavailable, Type: api.TypeUnavailable, Code: "model_loading",
		Message: fmt.Sprintf("the model is loading (%.0f %%); GET /health shows its progress", 100*p.fraction()), RetryAfter: 2 * time.Second}
}

func shuttingDown() *api.Error {
	return &api.Error{Status: http.StatusServiceUnavailable, Type: api.TypeUnavailable, Code: "server_shutting_down",
		Message: "the server is shutting down; retry, a load balancer will pick another one", RetryAfter: time.Second}
}

// contextExceeded is worded as the OpenAI API words it: clients that fall back
// to another model or to a shorter prompt look for this text. part is the
// field that holds the prompt.
func contextExceeded(part string, prompt, output, limit int) *api.Error {
	return badRequest("context_length_exceeded", part,
		"This model's maximum context length is %d tokens. However, you requested %d tokens (%d in the %s, %d in the completion). "+
			"Please reduce the length of the %s or completion.", limit, prompt+output, prompt, part, output, part)
}
