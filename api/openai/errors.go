package openai

import (
	"fmt"

	"weir/api"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
)

func internalError(message string) *api.Error { return api.Refuse("internal_error", message) }

func modelNotFound(name, served string) *api.Error {
	return api.RefuseParam("model_not_found", "model", "no model is called %q here; served: %s", jsonbody.Quote([]byte(name)), served)
}

func modelLoading(p models.LoadProgress) *api.Error {
	return api.Refuse("model_loading", fmt.Sprintf("the model is loading (%.0f %%); GET /health shows its progress", 100*p.Fraction()))
}

// contextExceeded is worded as the OpenAI API words it: clients that fall back
// to another model or to a shorter prompt look for this text. part is the
// field that holds the prompt.
func contextExceeded(part string, prompt, output, limit int) *api.Error {
	return api.RefuseParam("context_length_exceeded", part,
		"This model's maximum context length is %d tokens. However, you requested %d tokens (%d in the %s, %d in the completion). "+
			"Please reduce the length of the %s or completion.", limit, prompt+output, prompt, part, output, part)
}
