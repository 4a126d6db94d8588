package router

import (
	"context"
	"time"

	"weir/internal/inference"
	"weir/internal/tensor"
)

// Predictor scores rows with one version of a classical model. Implementations are
// safe for concurrent use.
type Predictor interface {
	// Describe says what the model takes and gives. The answer is shared and not
	// to be changed.
	Describe() *Description
	// Predict fills p's outputs, or refuses with one of inference's sentinels. It
	// returns when ctx ends, whatever became of the rows.
	Predict(ctx context.Context, p *Prediction) error
}

// Description is what a classical model says of itself.
type Description struct {
	Name     string
	Version  string
	Platform string // as V2 metadata have it: "weir_gbdt", "onnx"
	Inputs   []tensor.Spec
	Outputs  []tensor.Spec
	Labels   map[string][]string // of an output's classes, by its name; nil: none
	MaxRows  int                 // the most rows of one request

	Optional []tensor.Spec // inputs that a request may leave out, because features have other sources
	Schema   string        // hash of the features' names, types and order; "": the model has no manifest
}

// Prediction is one predict request and its answer.
type Prediction struct {
	Tenant    string
	Weight    int
	Class     inference.Class
	DoneBy    time.Time // zero: no deadline
	OverQuota bool

	ID     string // of the request, as logs and the client know it
	Schema string // Description.Schema that the client built its rows for; "": it does not say

	Inputs  []tensor.Tensor
	Wanted  []string // names of outputs; none: all of them
	Outputs []tensor.Tensor

	Waited   time.Duration // in the lane's queue
	Computed time.Duration // this request's share of its batch
	Batch    int           // rows of the batch that it ran in
	Notes    []Note        // for the client: features that were defaulted, values that were clipped
}

// Note is something that the answer says of itself: a parameter of a V2 answer, and a
// header x-weir-NAME of any. Both are short ASCII texts.
type Note struct{ Name, Value string }

// Embedder turns texts into vectors, or scores them. Implementations are safe for
// concurrent use.
type Embedder interface {
	// Embed fills the output of every text of the call, or refuses them all with one of
	// inference's sentinels.
	Embed(ctx context.Context, e *Embedding) error
}

// Embedding is one call of an embedding or reranking endpoint and its answer.
type Embedding struct {
	Tenant    string
	Weight    int
	Class     inference.Class
	DoneBy    time.Time // zero: no deadline
	OverQuota bool

	Texts [][]int32 // token ids with the model's special tokens, each within its context
	Types [][]uint8 // token types, for pairs of texts; nil: all 0

	Vectors [][]float32 // by text: the pooled vector, or the scores of a model with a rank head

	Waited   time.Duration
	Computed time.Duration
}
