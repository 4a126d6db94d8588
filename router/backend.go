// Package router decides which engine serves a request. It declares Backend,
// the one thing it needs from an engine; the local engine and (later) remote
// OpenAI-compatible servers implement it.
package router

import "weir/internal/inference"

// Backend runs requests. Implementations are safe for concurrent use.
type Backend interface {
	// SubmitAll queues the requests of one call, or refuses them all at once;
	// a refusal is one of inference's sentinels, wrapped with the counts, in
	// which every choice counts. A stream ends by itself, or after its
	// Cancel(-1); the caller must do one or the other with each.
	SubmitAll(rs []*inference.Request) ([]*inference.Stream, error)
	// Load reports the backend's state without blocking on a step.
	Load() Load
}

// Load is a backend's state at one moment.
type Load = inference.Load
