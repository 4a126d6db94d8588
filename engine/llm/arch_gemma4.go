package llm

// gemma4 covers Gemma 4: Gemma 3 with layers of two kinds, whose heads differ in size and number. Values are normed, and scores are not
// scaled. The small models (E2B, E4B) give each layer an input of its own, and their last layers read the keys and values of earlier ones;
// the large ones (12B, 31B, 26B-A4B) have no matrix of values in layers without a window, and 26B-A4B has experts beside each network.
var gemma4 = architecture{name: "gemma4", layered: true, experts: optional, plan: func(h *hparams) plan {
	p := h.gemma4Layers()
	p.inputs.table = true
	p.logitCap = h.finalCap
	h.within(&p, h.windowed)
	for i := range p.layers {
		y := &p.layers[i]
		y.attention.valuesFromKeys = true
		if h.experts.count > 0 {
			y.feed.experts = h.experts
			y.feed.experts.apart, y.feed.experts.gating.norm = true, true
		}
	}
	return p
}}

// gemmaEmbedding2 covers EmbeddingGemma 2: Gemma 4's layers over whole texts, five of six with a window, inputs of layers that are made
// of the embeddings alone, and a matrix behind the pooling.
var gemmaEmbedding2 = architecture{name: "gemma-embedding2", encoder: true, layered: true, period: 6, plan: func(h *hparams) plan {
	p := h.gemma4Layers()
	p.head.dense, p.head.whole = []string{"output"}, true
	for i := range p.layers {
		if h.windowed(i) {
			p.layers[i].attention.reach = max(h.window/2, 1)
		}
	}
	return p
}}
