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

func (c *call) embeddings() *api.Error { return c.pooled(&embeddingEndpoint) }

func (c *call) embedTexts() *api.Error { return c.pooled(&embedEndpoint) }

// pooled answers a request to a pooling model once under its idempotency key.
func (c *call) pooled(e *poolingEndpoint) *api.Error {
	return c.once(&e.service, func() *api.Error { return c.pool(e) })
}

var rerankEndpoint = poolingEndpoint{
	service: service{route: routeRerank, upstream: "/rerank", prefix: "rerank-"},
	takes:   scoresPairs, lowers: true,
	read: pooling.Rules.ReadRerank,
}

// rerank answers the request that Jina, Cohere and vLLM have, and under the same path
// text-embeddings-inference's.
func (c *call) rerank() *api.Error { return c.pooled(&rerankEndpoint) }

// scoresPairs: also models without a rank head do, as in vLLM.
func scoresPairs(k models.Kind) bool { return k == models.KindRank || k == models.KindEmbedding }

var scoreEndpoint = poolingEndpoint{
	service: service{route: routeScore, upstream: "/score", prefix: "score-"},
	takes:   scoresPairs, lowers: true,
	read: pooling.Rules.ReadScore,
}

// score answers vLLM's request for the scores of pairs of texts, in their order.
func (c *call) score() *api.Error { return c.pooled(&scoreEndpoint) }

// cohereEndpoint is Cohere's: the same vectors in one or several types. vLLM has it, too.
var cohereEndpoint = poolingEndpoint{
	service: service{route: routeCohereEmbed, prefix: "embd-"},
	takes:   givesVectors,
	read:    pooling.Rules.ReadCohereEmbed,
}

func (c *call) cohereEmbed() *api.Error { return c.pooled(&cohereEndpoint) }
