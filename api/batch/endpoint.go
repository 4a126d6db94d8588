package batch

import (
	"slices"
	"strings"

	"github.com/valyala/fasthttp"
)

// endpoints are the paths that lines may be for, as far as the edge serves them. Those of predictions name their model.
var endpoints = []string{
	"/v1/chat/completions", "/v1/completions", "/v1/decisions", "/v1/embeddings", "/v1/responses", "/v1/systemone", pathMessages, predictV1, inferV2,
}

const (
	predictV1 = "/v1/models/{model}:predict"
	inferV2   = "/v2/models/{model}/infer"

	// pathMessages is Anthropic's, whose batches may name several models.
	pathMessages = "/v1/messages"

	// maxEndpointBytes bounds a path with a model in it.
	maxEndpointBytes = 512
)

// served are the endpoints that the edge has.
func (s *Server) served() []string {
	var list []string
	for _, e := range endpoints {
		if s.config.Edge.Serves(fasthttp.MethodPost, e) {
			list = append(list, e)
		}
	}
	return list
}

// serves reports whether lines may be for an endpoint.
func (s *Server) serves(endpoint string) bool {
	_, predicts := predictedModel(endpoint)
	known := predicts && len(endpoint) <= maxEndpointBytes || slices.Contains(endpoints, endpoint)
	return known && s.config.Edge.Serves(fasthttp.MethodPost, endpoint)
}

// predictedModel is the model that an endpoint of predictions names; false for other endpoints.
func predictedModel(endpoint string) (model string, ok bool) {
	for _, pattern := range []string{predictV1, inferV2} {
		before, after, _ := strings.Cut(pattern, "{model}")
		rest, ok := strings.CutPrefix(endpoint, before)
		if !ok {
			continue
		}
		if rest, ok = strings.CutSuffix(rest, after); ok && rest != "" {
			model, _, _ = strings.Cut(rest, "/versions/")
			return model, true
		}
	}
	return "", false
}
