package openai

import (
	"weir/api"
	"weir/api/openai/models"
	"weir/api/openai/pooling"
)

// givesVectors: models that give vectors do.
func givesVectors(k models.Kind) bool { return k == models.KindEmbedding }

var embeddingEndpoint = poolingEndpoint{
	service: service{route: routeEmbeddings, upstream: "/embeddings", prefix: "embd-"},
	takes:   givesVectors,
	read:    pooling.Rules.ReadEmbedding,
}

// embedEndpoint is text-embeddings-inference's own: vectors without anything around
// them.
var embedEndpoint = poolingEndpoint{
	service: service{route: routeEmbed, prefix: "embd-"},
	takes:   givesVectors,
	read:    pooling.Rules.ReadEmbed,
}

// nativeEmbeddingEndpoint is that of llama.cpp's server.
var nativeEmbeddingEndpoint = poolingEndpoint{
	service: service{route: routeEmbedding, prefix: "embd-"},
	takes:   givesVectors,
	read:    pooling.Rules.ReadNativeEmbedding,
}

// pooled answers requests to a pooling model, each once under its idempotency key.
func pooled(e *poolingEndpoint) func(*call) *api.Error {
	return func(c *call) *api.Error { return c.key.once(&e.service, (&pool{call: c, endpoint: e}).answer) }
}

// rerankEndpoint takes the request that Jina, Cohere and vLLM have, and under the same path
// text-embeddings-inference's.
var rerankEndpoint = poolingEndpoint{
	service: service{route: routeRerank, upstream: "/rerank", prefix: "rerank-"},
	takes:   scoresPairs, lowers: true,
	read: pooling.Rules.ReadRerank,
}

// scoresPairs: also models without a rank head do, as in vLLM.
func scoresPairs(k models.Kind) bool { return k == models.KindRank || k == models.KindEmbedding }

// scoreEndpoint takes vLLM's request for the scores of pairs of texts, in their order.
var scoreEndpoint = poolingEndpoint{
	service: service{route: routeScore, upstream: "/score", prefix: "score-"},
	takes:   scoresPairs, lowers: true,
	read: pooling.Rules.ReadScore,
}

// cohereEndpoint is Cohere's: the same vectors in one or several types. vLLM has it, too.
var cohereEndpoint = poolingEndpoint{
	service: service{route: routeCohereEmbed, prefix: "embd-"},
	takes:   givesVectors,
	read:    pooling.Rules.ReadCohereEmbed,
}

// classifyEndpoint takes vLLM's request for the probabilities of a classifier's labels.
var classifyEndpoint = poolingEndpoint{
	service: service{route: routeClassify, upstream: "/classify", prefix: "classify-"},
	takes:   func(k models.Kind) bool { return k == models.KindClassify }, lowers: true,
	read: pooling.Rules.ReadClassify,
}
