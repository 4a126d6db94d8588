// Package router holds the two lanes that can serve a model: Backend, what the
// edge needs from an engine in this process, and Upstream, which passes requests and
// answers as bytes to OpenAI-compatible servers.
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
