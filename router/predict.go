package router

import (
	"context"

	"weir/internal/inference"
)

// Predictor scores rows with one version of a classical model. Implementations are
// safe for concurrent use.
type Predictor interface {
	// Describe says what the model takes and gives. The answer is shared and not
	// to be changed.
	Describe() *Description
	// Predict fills p's outputs, or refuses with one of inference's sentinels. It
	// returns when ctx ends, whatever happened to the rows.
	Predict(ctx context.Context, p *Prediction) error
}

// Description is what a classical model says of itself.
type Description = inference.Description

// Prediction is one predict request and its answer.
type Prediction = inference.Prediction

// Hold keeps a version for a request.
type Hold = inference.Hold

// Note is something that an answer says of itself.
type Note = inference.Note

// Embedder turns texts into vectors, or scores them. Implementations are safe for
// concurrent use.
type Embedder interface {
	// Embed fills the output of every text of the call, or refuses them all with one of
	// inference's sentinels. It returns when ctx ends.
	Embed(ctx context.Context, e *Embedding) error
	// Load reports the lane's state without blocking on a step.
	Load() Load
}

// Embedding is one call of an embedding or reranking endpoint and its answer.
type Embedding = inference.Embedding
