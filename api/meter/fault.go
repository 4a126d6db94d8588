package meter

import (
	"errors"

	"weir/api"
	"weir/scheduler/quota"
)

// Fault is what a client is told of an error of a Meter. Refusals are 429: limits
// per minute with the code rate_limit_exceeded, budgets as OpenAI tells an empty
// account, which clients do not try again, unless running answers only hold what is
// left. A request too large for a limit of its
// own size is 400.
func Fault(err error) *api.Error {
	var r *quota.Refusal
	switch {
	case !errors.As(err, &r):
		return api.Refuse("quota_unavailable", err.Error()+"; try again")
	case r.Kind == quota.ContextTokens, r.Kind == quota.AnswerTokens:
		return api.Refuse("context_length_exceeded", r.Error())
	}
	e := api.Refuse("rate_limit_exceeded", r.Error())
	if r.Kind.Budget() && !r.Held {
		e = api.Refuse("insufficient_quota", r.Error())
	}
	e.RetryAfter, e.NoRetry = r.RetryAfter, r.RetryAfter == 0
	return e
}
