package meter

import (
	"errors"
	"net/http"
	"time"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/scheduler/quota"
)

// longestWait is what a client should wait for: Go's official client waits no
// longer, and comes back too early otherwise.
const longestWait = 8 * time.Second

// Fault is what a client is told of an error of a Meter. Refusals are 429: limits
// per minute with the code rate_limit_exceeded, budgets as OpenAI tells an empty
// account, which clients do not try again. A request too large for a limit of its
// own size is 400.
func Fault(err error) *api.Error {
	var r *quota.Refusal
	switch {
	case !errors.As(err, &r):
		return &api.Error{Status: http.StatusServiceUnavailable, Type: api.TypeUnavailable, Code: "quota_unavailable",
			Message: err.Error() + "; try again", RetryAfter: time.Second}
	case r.Kind == quota.ContextTokens, r.Kind == quota.AnswerTokens:
		return &api.Error{Status: http.StatusBadRequest, Type: api.TypeInvalidRequest, Code: "context_length_exceeded", Message: r.Error()}
	}
	e := &api.Error{
		Status: http.StatusTooManyRequests, Type: api.TypeRateLimit, Code: "rate_limit_exceeded", Message: r.Error(),
		RetryAfter: r.RetryAfter, NoRetry: r.RetryAfter == 0 || r.RetryAfter > longestWait,
	}
	if r.Kind.Budget() {
		e.Type, e.Code, e.NoRetry = "insufficient_quota", "insufficient_quota", true
	}
	return e
}

// WriteRemaining sets the headers x-ratelimit-{limit,remaining,reset}-{requests,tokens}
// as OpenAI's clients and gateways read them, for limits that there are.
func WriteRemaining(h *fasthttp.ResponseHeader, r quota.Remaining) {
	writeWindow(h, "Requests", r.Requests)
	writeWindow(h, "Tokens", r.Tokens)
}

func writeWindow(h *fasthttp.ResponseHeader, what string, w quota.Window) {
	if w.Limit == 0 {
		return
	}
	var buf [32]byte
	h.SetBytesV("X-Ratelimit-Limit-"+what, fasthttp.AppendUint(buf[:0], int(w.Limit)))
	h.SetBytesV("X-Ratelimit-Remaining-"+what, fasthttp.AppendUint(buf[:0], int(w.Left)))
	h.Set("X-Ratelimit-Reset-"+what, w.Reset.Round(time.Millisecond).String())
}
