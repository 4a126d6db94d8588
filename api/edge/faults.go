package edge

import (
	"errors"

	"weir/api"
	"weir/api/meter"
	"weir/internal/inference"
	"weir/router"
	"weir/scheduler/quota"
)

// StatusHungUp is reported to hooks when the client went away before its
// answer; the client has gone.
const StatusHungUp = 499

// faults maps the backend's sentinel errors to the codes that clients see. The first
// match counts.
var faults = []struct {
	sentinel error
	code     string
}{
	{router.ErrResidency, "no_replica_in_region"},
	{inference.ErrContextLength, "context_length_exceeded"},
	{inference.ErrNeverFits, "request_never_fits"},
	{inference.ErrInvalid, "invalid_value"},
	{inference.ErrNoAdapter, "model_not_found"},
	{inference.ErrSchema, "schema_mismatch"},
	{inference.ErrTenantQueueFull, "rate_limit_exceeded"},
	{inference.ErrQueueFull, "server_is_overloaded"},
	{inference.ErrQueueTimeout, "queue_timeout"},
	{inference.ErrShed, "request_shed"},
	{inference.ErrDeadlineUnreachable, "deadline_unreachable"},
	{inference.ErrDeadline, "deadline_exceeded"},
	{inference.ErrUnavailable, "engine_unavailable"},
	{inference.ErrOutOfCache, "kv_cache_exhausted"},
	{inference.ErrFormatTooComplex, "format_too_complex"},
	{inference.ErrConstraint, "constraint_failed"},
	{inference.ErrSlowConsumer, "client_too_slow"},
	{inference.ErrCancelled, "request_cancelled"},
}

// Fault turns an error of a backend, a stream or a predictor into what the client is told.
// Errors that wrap no sentinel are bugs: their text stays in the process.
func Fault(err error) *api.Error {
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
		if said := (*router.RetryAdviceError)(nil); errors.As(err, &said) {
			e.RetryAfter, e.NoRetry = said.Advice.After, said.Advice.Never
		}
		return e
	}
	return api.Refuse("internal_error", "the engine hit an internal error on this request")
}

// ClientGone is told to no client: hooks hear of it.
func ClientGone() *api.Error {
	return api.Refuse("client_closed_request", "the client closed the connection")
}

// Cancelled ends a response in the background that its client has cancelled: hooks hear of it.
func Cancelled() *api.Error {
	return api.Refuse(CodeCancelled, "the response was cancelled")
}

// CodeCancelled is the code of Cancelled.
const CodeCancelled = "response_cancelled"

// ShuttingDown refuses a request because the server drains.
func ShuttingDown() *api.Error {
	return api.Refuse("server_shutting_down", "the server is shutting down; another one behind the same load balancer may take the request")
}
