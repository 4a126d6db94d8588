package llm

import (
	"math"

	"weir/engine/kernel/vector"
	"weir/internal/inference"
)

// plan is what a model computes, layer by layer, in numbers and without names.
// The architecture's file makes it from the hyper-parameters, tensors.go lists
// the tensors that it calls for, forward.go computes it. Where a layer differs
// from its neighbours it differs here: another rotation, a window, experts; shared
// keys and values would be fields of its parts, too, never flags of the model.
type plan struct {
	embedding embeddingPlan
	inputs    inputsPlan
	layers    []layerPlan
	ropes     []rope // the different rotations, which layers name by index
	finalNorm normPlan
	finalName string  // of its tensors; "": output_norm
	logits    float32 // factor of all logits; 0 is 1
	logitCap  float32 // logits are kept within it; 0 is none
	head      headPlan
	decides   int         // first layer of a decision head; 0: there is none
	tables    []tablePlan // what the block tables of a sequence name

	stateValues int // of the recurrent layers' state of a sequence

	mtp *plan // of the MTP head, a model of one layer; nil: there is none, or it is left out
}

// embeddingPlan is what a row begins with: the token's embedding times scale, plus
// those of its type and its position, normed.
type embeddingPlan struct {
	scale     float32 // 0 is 1
	types     int     // rows of token_types.weight; 0 is none
	positions int     // rows of position_embd.weight; 0 is none
	norm      normPlan
}

// normPlan is a norm: with a bias a layer norm.
type normPlan struct {
	norm presence
	bias presence // of layer norms; where it is optional and missing it is zero
}

// The norms that layers have.
var (
	rmsNorm   = normPlan{norm: required}
	layerNorm = normPlan{norm: required, bias: required}
	plainNorm = normPlan{norm: required, bias: optional} // a layer norm that may have no bias
	maybeNorm = normPlan{norm: optional, bias: optional} // a layer norm that the file may have
)

// branchNorms are the norms of a branch B of a layer, and by how much it counts: x = after(x + scale*out(B(before(x)))).
type branchNorms struct {
	before, out, after normPlan
	scale              float32 // 0 is 1
}

// headPlan is what happens to a pooled vector.
type headPlan struct {
	pooling inference.Pooling // of the rows; never PoolingRank or, for encoders, PoolingNone
	dense   []string          // matrices that follow, two at most
	whole   bool              // a file without them is refused
	labels  int               // scores of a classifier, cls.output; 0 is none
	act     vector.Activation // after the classifier's first matrix, if it has one; Identity stands for tanh
}

// layerPlan is one layer.
type layerPlan struct {
	attention  attentionPlan  // without heads: none
	recurrence recurrencePlan // instead of the attention
	feed       feedForwardPlan
	scaled     presence // layer_output_scale: a factor of all that the layer gives
}

// exists reports whether the layer has attention.
func (a *attentionPlan) exists() bool { return a.kvHeads > 0 }

// storesKeys reports whether the layer has keys and values of its own.
func (a *attentionPlan) storesKeys() bool { return a.exists() && a.readsFrom == ownKeys }

// queryValues is how many values a row's queries have in the layer, and their gates.
func (a *attentionPlan) queryValues() int {
	n := a.heads * a.headDim
	if a.gated {
		n *= 2
	}
	return n
}

// attentionPlan is grouped-query attention.
type attentionPlan struct {
	norms   branchNorms
	heads   int // of queries; each kvHeads-th part of them shares a key-value head
	kvHeads int
	headDim int
	scale   float32   // of scores
	rope    int       // index into plan.ropes, or noRope
	reach   int       // how far a row sees in both directions; 0 is any distance
	cap     float32   // of scores, see attend.Query; 0 is none
	slopes  []float32 // of heads: what a score loses for each position of distance; nil is nothing
	temper  temper    // of rotated queries

	readsFrom      int  // the layer whose keys and values it reads; ownKeys: it has its own
	valuesFromKeys bool // it may have no attn_v: values are then what attn_k gives, before keys are normed and rotated
	table, slot    int  // which block table names its keys and values, and its place in the pages of that, see plan.deal

	sinks         presence // attn_sinks.weight
	qkvBias       presence // attn_{q,k,v}.bias
	oBias         presence // attn_output.bias
	headNorm      bool     // RMSNorm of each query and key head before rotation
	headNormMaybe bool     // the file may lack these
	rowNorm       normPlan // of all query heads of a row together, and of its key heads
	normLate      bool     // queries and keys are normed after rotation
	beside        bool     // the network stands beside the attention, and gets what that gets
	again         normPlan // of x and the branch's input, once the branch is closed: x = again(x + input)
	valueNorm     bool     // each value head is normed, without a weight
	gated         bool     // attn_q has a gate behind each head's queries: what the head gives counts by its sigmoid
}

// headNorms is the norm of heads.
func (a *attentionPlan) headNorms() normPlan {
	if a.headNormMaybe {
		return normPlan{norm: optional}
	}
	return rmsNorm
}

// temper makes attention sharper far into a text, as training on longer and longer texts does: a query at a position is
// multiplied by 1 + scale*ln(floor(position/length) + 1).
type temper struct {
	scale  float64 // 0 is none
	length int     // positions that pass until the factor grows
}

// of is the factor at a position.
func (t temper) of(position int) float32 {
	if t.scale == 0 || position < t.length {
		return 1
	}
	return float32(1 + t.scale*math.Log(float64(position/t.length+1)))
}

// ownKeys is the layer that a layer reads which has keys and values of its own.
const ownKeys = -1

// noRope is the rotation of a layer that knows no positions (NoPE).
const noRope = -1

// feedForwardPlan is a feed-forward network: down(act(gate x) * up x), or without a gate
// down(act(up x)).
type feedForwardPlan struct {
	norms   branchNorms
	width   int
	act     vector.Activation
	plain   bool  // without a gate
	beside  bool  // as of the attention, with whose norm it begins
	curve   xielu // instead of act, in a network without a gate
	experts expertsPlan
	bias    presence // ffn_{gate,up,down}.bias
}

// exists reports whether the layer has a network.
func (f *feedForwardPlan) exists() bool { return f.width > 0 || f.experts.count > 0 }

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
	p := h.layersOf(branchNorms{before: rmsNorm})
	p.finalNorm = rmsNorm
	p.ropes = []rope{h.rope}
	p.ropes[0].style = style
	for i := range p.layers {
		p.layers[i].feed.act = vector.SiLU
	}
	return p
}

// normedBehind is decoder with norms of what branches give, and none of what they get.
func (h *hparams) normedBehind() plan {
	p := h.decoder(vector.RopeNeox)
	for i := range p.layers {
		y := &p.layers[i]
		y.attention.norms, y.feed.norms = branchNorms{out: rmsNorm}, branchNorms{out: rmsNorm}
	}
	return p
}

// normedByMean is decoder with layer norms.
func (h *hparams) normedByMean() plan {
	p := h.decoder(vector.RopeNeox)
	p.finalNorm = layerNorm
	for i := range p.layers {
		y := &p.layers[i]
		y.attention.norms, y.feed.norms = branchNorms{before: layerNorm}, branchNorms{before: layerNorm}
	}
	return p
}

// sideBySide is decoder with attention and network side by side behind one layer norm, and a factor of logits.
func (h *hparams) sideBySide() plan {
	p := h.decoder(vector.RopeNorm)
	p.finalNorm, p.logits = plainNorm, h.factors.logits
	for i := range p.layers {
		y := &p.layers[i]
		y.attention.norms, y.feed.norms = branchNorms{before: plainNorm}, branchNorms{before: plainNorm}
		y.attention.beside, y.feed.beside = true, true
	}
	return p
}

// within gives the window, if there is one, to the layers that local selects.
func (h *hparams) within(p *plan, local func(layer int) bool) {
	for i := range p.layers {
		if h.window > 0 && local(i) {
			p.layers[i].attention.reach = h.window - 1
		}
	}
	if len(p.ropes) == 1 {
		h.turnWithin(p)
	}
}

// turnWithin turns layers with a window by the base that the file has for them, scaled as the others.
func (h *hparams) turnWithin(p *plan) {
	if h.baseWithin == 0 || h.baseWithin == h.rope.base {
		return
	}
	local := p.ropes[0]
	local.base = h.baseWithin
	p.ropes = append(p.ropes[:1:1], local)
	for i := range p.layers {
		if a := &p.layers[i].attention; h.windowed(i) && a.rope == 0 {
			a.rope = 1
		}
	}
}

// windowed reports whether a layer has a window: as the file says, or else all have one except every period-th of the architecture.
func (h *hparams) windowed(layer int) bool {
	switch {
	case h.window == 0:
		return false
	case h.pattern != nil:
		return h.pattern[layer]
	}
	return (layer+1)%h.arch.period != 0
}

// layersOf is a plan of layers that are alike, whose attention uses the first
// rotation.
func (h *hparams) layersOf(norms branchNorms) plan {
	p := plan{layers: make([]layerPlan, h.depth), head: headPlan{pooling: h.pooling}}
	for i := range p.layers {
		p.layers[i] = layerPlan{
			attention: attentionPlan{norms: norms, heads: h.heads, kvHeads: h.kvHeads, headDim: h.headDim, scale: h.scale, readsFrom: ownKeys},
			feed:      feedForwardPlan{norms: norms, width: h.ffn},
		}
	}
	return p
}

// branches reports whether a branch of the layer is not added as it is.
func (y *layerPlan) branches() bool {
	own := func(n branchNorms) bool { return n.out.norm != absent || n.scale != 0 }
	return own(y.attention.norms) || own(y.recurrence.norms) || own(y.feed.norms) || y.attention.again.norm != absent
}
