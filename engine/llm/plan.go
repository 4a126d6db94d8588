package llm

import (
	"weir/engine/kernel/attend"
	"weir/engine/kernel/vector"
)

// plan is what a model computes, layer by layer, in numbers and without names.
// The architecture's file makes it from the hyper-parameters, weights.go lists
// the tensors that it calls for, forward.go computes it. Where a layer differs
// from its neighbours it differs here: another rotation today; a window, shared
// keys and values, or experts would be fields of its parts, never flags of the
// model.
type plan struct {
	layers []layerPlan
	ropes  []rope // the different rotations, which layers name by index
}

// layerPlan is one pre-norm decoder layer.
type layerPlan struct {
	attention attentionPlan
	feed      feedPlan
}

// attentionPlan is grouped-query attention.
type attentionPlan struct {
	heads   int // of queries; each kvHeads-th part of them shares a key-value head
	kvHeads int
	headDim int
	scale   float32 // of scores
	rope    int     // index into plan.ropes, or noRope
	slot    int     // which layer of the KV store holds its keys and values

	qkvBias  presence // attn_{q,k,v}.bias
	oBias    presence // attn_output.bias
	headNorm bool     // RMSNorm of each query and key head before rotation
}

// noRope is the rotation of a layer that knows no positions (NoPE).
const noRope = -1

// feedPlan is a SwiGLU feed-forward network.
type feedPlan struct {
	width int
	bias  presence // ffn_{gate,up,down}.bias
}

// presence says whether a tensor is expected.
type presence uint8

const (
	absent presence = iota
	optional
	required
)

// decoder is the plan that most families share, layers all alike with one
// rotation: an architecture changes what it does otherwise.
func (h *hparams) decoder(style vector.RopeStyle) plan {
	p := plan{layers: make([]layerPlan, h.depth), ropes: []rope{h.rope}}
	p.ropes[0].style = style
	for i := range p.layers {
		p.layers[i] = layerPlan{
			attention: attentionPlan{heads: h.heads, kvHeads: h.kvHeads, headDim: h.headDim, scale: h.scale, slot: i},
			feed:      feedPlan{width: h.ffn},
		}
	}
	return p
}

// kvShape is the KV store that the plan's layers take, without its type and size.
// All slots are alike.
func (p *plan) kvShape() attend.KVShape {
	a := &p.layers[0].attention
	shape := attend.KVShape{KVHeads: a.kvHeads, HeadDim: a.headDim}
	for i := range p.layers {
		shape.Layers = max(shape.Layers, p.layers[i].attention.slot+1)
	}
	return shape
}
