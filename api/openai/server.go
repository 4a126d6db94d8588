// Package openai serves the OpenAI API and weir's own small extensions of it
// over api.Server: it parses a request once, renders and tokenises, offers it
// to a backend, and turns the backend's token events into JSON or a stream of
// server-sent events.
package openai

import (
	"context"
	"sync/atomic"

	"github.com/valyala/fasthttp"
)

// Server is an api.Handler. It listens and answers before models are loaded.
type Server struct {
	config  Config
	models  atomic.Pointer[modelSet] // nil until SetModels
	loading atomic.Pointer[LoadProgress]
}

const minKeyBytes = 8

// New returns a server without models.
func New(c Config) (*Server, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Server{config: c}, nil
}

// Handle answers one request.
func (s *Server) Handle(ctx *fasthttp.RequestCtx) {}

// Drain stops admission, waits for running requests until ctx ends and then
// ends the rest with an error event.
func (s *Server) Drain(ctx context.Context) error { return nil }

// Panicked is told of a panic that Handle raised.
func (s *Server) Panicked(value any, stack []byte) {}
