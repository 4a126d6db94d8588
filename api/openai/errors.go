package openai

import (
	"errors"
	"fmt"

	"weir/api"
	"weir/api/meter"
	"weir/internal/inference"
	"weir/scheduler/quota"
)

// statusHungUp is reported to hooks when the client went away before its
// answer; nobody receives it.
const statusHungUp = 499

// faults maps the backend's sentinel errors to the codes that clients see. The first
// match counts.
var faults = []struct {
	sentinel error
	code     string
}{
	{inference.ErrContextLength, "context_length_exceeded"},
	{inference.ErrNeverFits, "request_never_fits"},
	{inference.ErrInvalid, "invalid_value"},
	{inference.ErrTenantQueueFull, "rate_limit_exceeded"},
	{inference.ErrQueueFull, "server_is_overloaded"},
	{inference.ErrQueueTimeout, "queue_timeout"},
	{inference.ErrShed, "request_shed"},
	{inference.ErrDeadlineUnreachable, "deadline_unreachable"},
	{inference.ErrDeadline, "deadline_exceeded"},
	{inference.ErrUnavailable, "engine_unavailable"},
	{inference.ErrOutOfCache, "kv_cache_exhausted"},
	{inference.ErrSlowConsumer, "client_too_slow"},
	{inference.ErrCancelled, "request_cancelled"},
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
		e := api.Refuse(f.code, err.Error())
		if limit := (*inference.LimitError)(nil); errors.As(err, &limit) {
			e.RetryAfter = limit.RetryAfter
		}
		return e
	}
	return internalError("the engine hit an internal error on this request")
}

func internalError(message string) *api.Error { return api.Refuse("internal_error", message) }

func clientGone() *api.Error {
	return api.Refuse("client_closed_request", "the client closed the connection")
}

func badRequest(code, param, format string, args ...any) *api.Error {
	e := api.Refuse(code, fmt.Sprintf(format, args...))
	e.Param = param
	return e
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
	return badRequest("model_not_found", "model", "no model is called %q here; served: %s", quote([]byte(name)), served)
}

func modelLoading(p LoadProgress) *api.Error {
	return api.Refuse("model_loading", fmt.Sprintf("the model is loading (%.0f %%); GET /health shows its progress", 100*p.fraction()))
}

func shuttingDown() *api.Error {
	return api.Refuse("server_shutting_down", "the server is shutting down; another one behind the same load balancer may take the request")
}

// contextExceeded is worded as the OpenAI API words it: clients that fall back
// to another model or to a shorter prompt look for this text. part is the
// field that holds the prompt.
func contextExceeded(part string, prompt, output, limit int) *api.Error {
	return badRequest("context_length_exceeded", part,
		"This model's maximum context length is %d tokens. However, you requested %d tokens (%d in the %s, %d in the completion). "+
			"Please reduce the length of the %s or completion.", limit, prompt+output, prompt, part, output, part)
}
