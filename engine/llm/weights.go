package llm

import (
	"errors"

	"weir/engine/kernel/weight"
	"weir/internal/inference"
)

// linear is a weight matrix and its bias, nil where the model has none.
type linear struct {
	w    *weight.Matrix
	bias []float32

	tensor string // of the file, without ".weight"
	first  int    // row of the tensor, which may hold several matrices
}

// into is the product with this matrix, written or added to dst.
func (l *linear) into(dst []float32, add bool) weight.Product {
	return weight.Product{Dst: dst, W: l.w, Bias: l.bias, Add: add}
}

// weights are a model's tensors. All memory lies in one arena outside the
// garbage collector's sight; release frees it.
type weights struct {
	embed      *weight.Matrix // [vocab][width]
	embedding  embeddingPlan
	typeRows   []float32   // [types][width]
	posRows    []float32   // [positions][width]
	embedNorm  weight.Norm // of the sum of the three
	inputs     inputs
	layers     []layer
	ropes      []rope         // of the plan, prepared
	outputNorm weight.Norm    // once loaded times logits
	logits     float32        // of the plan
	logitCap   float32        // of the plan
	output     *weight.Matrix // [vocab][width]; embed where the two are tied, nil in an encoder
	head       head
	pointer    linear     // cls.output of a language model that decides: of a row, a query and a key
	decides    int        // first layer of a decision head; 0: there is none
	questions  []float32  // [QuestionTypes][width], of a decision head
	fine       bool       // products of hidden states lose nothing by rounding, see model.products
	layerBytes int        // of the largest layer
	states     int        // values of the recurrent layers' state of a sequence; 0 without such layers
	branches   bool       // some branch is not added as it is
	divisors   []float32  // of rotary frequencies, or nil
	headInput  *headInput // of an MTP head: its rows begin with it; nil elsewhere
	mtp        *weights   // the MTP head's, in the same memory; nil: there is none

	tensorMemory
}

// layer is one layer: its plan and the tensors that it calls for.
type layer struct {
	attention attention
	recurrent recurrent
	feed      feedForward
	input     layerInput
	scale     []float32 // one value, or nil
}

// norms are those of a branch; a norm without a weight is none.
type norms struct {
	before, out, after weight.Norm
	scale              float32
}

type attention struct {
	attentionPlan
	norms        norms
	q, k, v, o   linear
	values       weight.Norm // with valueNorm, ones
	qNorm, kNorm weight.Norm // with headNorm, [headDim]; with rowNorm, [heads*headDim] and [kvHeads*headDim]
	again        weight.Norm
	sinks        []float32 // [heads], see attend.Query; or nil
}

type feedForward struct {
	feedForwardPlan
	norms    norms
	gate, up linear // gate has no matrix in a plain network
	down     linear
	mixture  moeWeights // instead of the three, where the network has experts
}

// head is what a pooled vector passes through. Parts without a matrix are left out.
type head struct {
	headPlan
	dense   [2]linear // of the plan
	cls     linear
	clsNorm weight.Norm
	scores  linear // cls.output
	marks   bool   // of a decision head: rows at marks, see score
}

func (w *weights) release() error {
	return errors.Join(w.inputs.close(), w.tensorMemory.release())
}

// scaleLogits takes the factor of logits into the last norm: logits are products of what it gives.
func (w *weights) scaleLogits() {
	if w.logits == 0 || w.head.pooling != inference.PoolingNone {
		return
	}
	for _, x := range [][]float32{w.outputNorm.Weight, w.outputNorm.Bias} {
		for i := range x {
			x[i] *= w.logits
		}
	}
}
