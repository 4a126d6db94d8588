package openai

import (
	"context"
	"time"

	"weir/api/edge"
	"weir/api/openai/generation"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/api/openai/priority"
	"weir/api/tenant"
	"weir/internal/inference"
)

// A shadow is an answer that no client sees: a copy of a request that a client was answered,
// computed by another version to be compared. It is not billed, hooks do not hear of it,
// and it runs in the lowest class.

// greedyCopy is the request of a copy that is to be answered with the likeliest tokens.
func greedyCopy(o *jsonbody.Object) *jsonbody.Object {
	own := o.Without("temperature", "n", "best_of", "logprobs", "top_logprobs")
	own.Add("temperature", []byte("0"))
	return own
}

// shadows is whom shadows are computed for: no tenant's share of the service pays for them,
// and no tenant's cached blocks are read.
var shadows = tenant.New("weir-shadow")

// Shadow computes a copy with another model. It returns when the answer is whole or ctx
// ends; the error is that of a request.
func (s *Server) Shadow(ctx context.Context, m *models.Model, c *models.Copy) (generation.Shadowed, error) {
	e := endpointOf(c.Request.Endpoint)
	if e == nil {
		return generation.Shadowed{}, internalError("a copy of a request to " + c.Request.Endpoint + " cannot be read")
	}
	o, fault := job.ReadBody(c.Body, false)
	if fault != nil {
		return generation.Shadowed{}, fault
	}
	if c.Greedy {
		o.Object = greedyCopy(o.Object)
	}
	if s.limiter.Needed(len(c.Body)) {
		permit, fault := s.limiter.Acquire(ctx.Done(), shadows.Name)
		if fault != nil {
			return generation.Shadowed{}, fault
		}
		o.Permit = permit
	}
	if m.Upstream != nil {
		o.Permit.Release()
		return s.shadowElsewhere(ctx, e, m, o, c.Residency)
	}
	j, fault := e.read(s.config.reader(), o, m)
	o.Permit.Release()
	if fault != nil {
		return generation.Shadowed{}, fault
	}
	j.Route, j.NewEncoder = e.route, e.encode
	j.ID, j.Tenant = "shadow-"+c.Request.ID, &shadows
	j.Arrived, j.Terms, j.KeepsTexts = time.Now(), priority.Terms{Class: inference.Batch}, true
	if !s.running.Enter() {
		return generation.Shadowed{}, edge.ShuttingDown()
	}
	defer s.running.Leave()
	return s.runner.Shadow(ctx, j)
}

// endpointOf is the endpoint of a route that generates; nil: the route does not.
func endpointOf(route string) *endpoint {
	for _, e := range []*endpoint{&chatEndpoint, &completionEndpoint, &responseEndpoint, &messageEndpoint, &ollamaChatEndpoint, &ollamaGenerateEndpoint} {
		if e.route == route {
			return e
		}
	}
	return nil
}
