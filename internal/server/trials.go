package server

import (
	"context"

	"weir/api/edge"
	"weir/api/openai/generation"
	"weir/api/openai/models"
	"weir/internal/server/rollouts"
	"weir/telemetry/slo"
)

// newRollouts joins rollouts to the rest of the server.
func newRollouts(s *Server) (*rollouts.Rollouts, error) {
	o := rollouts.Options{
		Log: s.log, Metrics: s.metrics, Models: s.names, Client: ownClient{s}, Audit: s.audit, Deployments: s.deployments, Instance: s.ports.instance,
		Objectives: func() *slo.Objectives { return s.watchers.Traces.Slo.Load() },
	}
	if s.store != nil {
		o.Records = s.store.Rollouts
	}
	return rollouts.New(o)
}

// ownClient has versions answer what no user has asked, through the protocols, which are made after the rollouts.
type ownClient struct{ s *Server }

// Shadow implements rollouts.Client.
func (a ownClient) Shadow(ctx context.Context, version *models.Model, c *models.Copy) (generation.Shadowed, error) {
	return a.s.edge.Shadow(ctx, version, c)
}

// Post implements rollouts.Client.
func (a ownClient) Post(r *edge.InternalRequest, path string, body []byte) (status int, answer []byte) {
	return r.Post(a.s.mux, path, body)
}

// Engaged implements rollouts.Client.
func (a ownClient) Engaged() int { return a.s.engines.engaged() }
