package llm

import (
	"math"
	"math/bits"

	"weir/engine/kernel/vector"
	"weir/internal/inference"
)

// bert covers BERT, RoBERTa and XLM-RoBERTa and what was trained on them (MiniLM,
// mxbai, bge): learned positions, layer norms behind each branch, GELU,
// biases everywhere.
var bert = architecture{name: "bert", encoder: true, layerNorm: true, plan: func(h *hparams) plan {
	p := h.layersOf(branchNorms{after: layerNorm})
	p.embedding = embeddingPlan{types: h.types, positions: h.context, norm: layerNorm}
	for i := range p.layers {
		y := &p.layers[i]
		y.attention.rope = noRope
		y.attention.qkvBias, y.attention.oBias, y.feed.bias = required, required, required
		y.feed.plain, y.feed.act = true, vector.GELU
	}
	return p
}}

// nomicBERT covers nomic-embed-text 1 and 1.5: bert with rotary positions, a gated
// network and no biases but those of norms.
var nomicBERT = architecture{name: "nomic-bert", encoder: true, layerNorm: true, plan: func(h *hparams) plan {
	p := h.layersOf(branchNorms{after: layerNorm})
	p.embedding = embeddingPlan{types: h.types, norm: layerNorm}
	p.ropes = []rope{h.rope}
	p.ropes[0].style = vector.RopeNeox
	for i := range p.layers {
		p.layers[i].feed.act = vector.SiLU
	}
	return p
}}

// nomicBERTMoE covers nomic-embed-text 2: bert with rotary positions, whose every second
// network is a mixture of experts without biases.
var nomicBERTMoE = architecture{name: "nomic-bert-moe", encoder: true, layerNorm: true, experts: required, plan: func(h *hparams) plan {
	p := h.layersOf(branchNorms{after: layerNorm})
	p.embedding = embeddingPlan{types: h.types, norm: layerNorm}
	p.ropes = []rope{h.rope}
	p.ropes[0].style = vector.RopeNeox
	for i := range p.layers {
		y := &p.layers[i]
		y.attention.qkvBias, y.attention.oBias = optional, optional
		y.feed.plain, y.feed.act, y.feed.bias = true, vector.GELU, optional
		if i%h.expertsEvery == 1 {
			y.feed.experts = h.experts
			y.feed.experts.gating.by = gateSoftmax
		}
	}
	return p
}}

// jinaBERT2 covers jina-embeddings-v2: bert without positions, whose scores fall with the
// distance instead, and with a gated network. Those for code also norm queries and keys, and
// add a layer's input twice.
var jinaBERT2 = architecture{name: "jina-bert-v2", encoder: true, layerNorm: true, plan: func(h *hparams) plan {
	p := h.layersOf(branchNorms{after: layerNorm})
	p.embedding = embeddingPlan{types: h.types, norm: layerNorm}
	slopes := h.slopes(8)
	for i := range p.layers {
		y := &p.layers[i]
		y.attention.rope, y.attention.slopes = noRope, slopes
		y.attention.qkvBias, y.attention.oBias, y.feed.bias = required, required, optional
		y.attention.rowNorm, y.attention.again = maybeNorm, maybeNorm
		y.feed.act = vector.GELU
	}
	return p
}}

// slopes are what the heads' scores lose for each position of distance: powers of two to
// 2^-most, and for heads beyond the largest power of two those between the first ones (Press, Smith and Lewis 2022).
func (h *hparams) slopes(most float64) []float32 {
	slopes, even := make([]float32, h.heads), 1<<(bits.Len(uint(max(h.heads, 1)))-1)
	for i := range slopes {
		exponent := most * float64(i+1) / float64(even)
		if i >= even {
			exponent = most / 2 * float64(2*(i-even)+1) / float64(even)
		}
		slopes[i] = float32(math.Exp2(-exponent))
	}
	return slopes
}

// modernBERT covers ModernBERT (Warner et al. 2024) and what was trained on it: layer
// norms before each branch, no biases, every third layer sees the whole text and the
// others a window, unless the file says which do.
var modernBERT = architecture{name: "modern-bert", encoder: true, layerNorm: true, modern: true, plan: func(h *hparams) plan {
	p := h.layersOf(branchNorms{before: plainNorm})
	p.embedding = embeddingPlan{norm: plainNorm}
	p.finalNorm = plainNorm
	p.layers[0].attention.norms = branchNorms{} // the embedding's norm is all that it has
	h.windows(&p, h.modern.local)
	for i := range p.layers {
		p.layers[i].feed.act = h.modern.act
	}
	p.head.act = vector.GELU
	h.decide(&p)
	return p
}}

// modernParams are what files of ModernBERT's family tell of layers.
type modernParams struct {
	act    vector.Activation
	every  int    // the first of so many layers sees the whole text
	listed []bool // which layers have a window, where the file lists them
}

// local reports whether a layer has a window.
func (y *modernParams) local(layer int) bool {
	if y.listed != nil {
		return y.listed[layer]
	}
	return layer%y.every != 0
}

// readModern reads the keys of ModernBERT's family: a number as pattern counts from the first layer, which sees all.
func (h *hparams) readModern(m *metadata) {
	const pattern, act = "attention.sliding_window_pattern", "hidden_activation"
	h.modern.every = 3
	switch _, ok, err := m.f.Uint(m.prefix + "." + pattern); {
	case err == nil && ok:
		h.modern.every = m.size(pattern, 0)
	case m.has(pattern):
		h.modern.listed = h.pattern
	}
	switch name := m.text(act); name {
	case "", "gelu", "gelu_pytorch_tanh":
		h.modern.act = vector.GELU
	case "silu":
		h.modern.act = vector.SiLU
	default:
		m.fail(act, "is %.40q; built are gelu and silu", name)
	}
}

// gemmaEmbedding covers EmbeddingGemma: Gemma 3's layers over whole texts, five of
// six with a window, and two matrices behind the pooling.
var gemmaEmbedding = architecture{name: "gemma-embedding", encoder: true, plan: func(h *hparams) plan {
	const period = 6
	p := h.layersOf(branchNorms{before: rmsNorm, out: rmsNorm})
	p.embedding.scale = squareRoot(h.width)
	p.finalNorm = rmsNorm
	p.head.dense = []string{"dense_2", "dense_3"}
	h.windows(&p, func(layer int) bool { return (layer+1)%period != 0 })
	for i := range p.layers {
		p.layers[i].attention.headNorm = true
		p.layers[i].feed.act = vector.GELU
	}
	return p
}}

// asEncoder gives a plan the head that the file asks for.
func (p *plan) asEncoder(h *hparams) {
	if p.head.pooling != inference.PoolingRank {
		return
	}
	p.head.labels = max(len(h.labels), 1)
	switch {
	case h.ranking != inference.PoolingNone:
		p.head.pooling = h.ranking
	case h.causal:
		p.head.pooling = inference.PoolingLast
	case h.arch.modern: // as llama.cpp reads its first files of gte-reranker-modernbert-base
		p.head.pooling = inference.PoolingMean
	default:
		p.head.pooling = inference.PoolingCLS
	}
}

// windows gives the layers that local selects a window and a rotation of their own.
func (h *hparams) windows(p *plan, local func(layer int) bool) {
	p.ropes = []rope{h.rope, h.local}
	for i := range p.ropes {
		p.ropes[i].style = vector.RopeNeox
	}
	for i := range p.layers {
		if a := &p.layers[i].attention; h.window > 0 && local(i) {
			a.rope, a.reach = 1, max(h.window/2, 1)
		}
	}
}
