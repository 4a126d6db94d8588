package openai

import (
	"fmt"

	"weir/api"
)

func internalError(message string) *api.Error { return api.Refuse("internal_error", message) }

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

// contextExceeded is worded as the OpenAI API words it: clients that fall back
// to another model or to a shorter prompt look for this text. part is the
// field that holds the prompt.
func contextExceeded(part string, prompt, output, limit int) *api.Error {
	return badRequest("context_length_exceeded", part,
		"This model's maximum context length is %d tokens. However, you requested %d tokens (%d in the %s, %d in the completion). "+
			"Please reduce the length of the %s or completion.", limit, prompt+output, prompt, part, output, part)
}
