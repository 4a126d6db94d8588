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
