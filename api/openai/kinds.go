package openai

import (
	"weir/api"
	"weir/api/openai/models"
)

// takesOf says which requests the model answers.
func takesOf(m *models.Model) string {
	switch m.Kind() {
	case models.KindEmbedding:
		return "it gives vectors: ask " + routeEmbeddings + ", " + routeRerank + " or " + routeScore
	case models.KindRank:
		return "it scores pairs of texts: ask " + routeRerank + ", " + routeScore + " or " + routeDecisions
	case models.KindClassify:
		return "it knows the probabilities of its own labels: ask " + routeClassify + " or " + routeDecisions
	case models.KindDecide:
		return "it answers questions about texts: ask " + routeDecisions + " or " + routeSystemOne
	case models.KindGenerate, models.KindUnknown:
	}
	return "it generates text: ask " + routeChat + ", " + routeCompletions + " or " + routeDecisions
}

// wrongKind refuses a request for what another kind of model gives.
func wrongKind(m *models.Model) *api.Error {
	return api.RefuseParam("wrong_model_kind", "model", "the model %s does not answer this request; %s", m.ID, takesOf(m))
}
