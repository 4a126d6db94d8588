package openai

import (
	"context"
	"net/http"
	"sync/atomic"

	"weir/api/conversation"
	"weir/api/edge"
	"weir/api/meter"
	"weir/api/openai/constraint"
	"weir/api/openai/generation"
	"weir/api/openai/limiter"
	"weir/api/openai/models"
	"weir/api/openai/relay"
	"weir/api/openai/stored"
	"weir/api/replay"
	"weir/api/tenant"
)

const (
	statusOK       = http.StatusOK
	statusInternal = http.StatusInternalServerError
)

// Server is an api.Handler. It listens and answers before models are loaded.
type Server struct {
	config    Config
	callers   *tenant.Authenticator
	routes    []*route
	unknown   *route // that of all other paths
	running   *edge.Running
	models    atomic.Pointer[models.Set] // nil until SetModels
	loading   atomic.Pointer[models.LoadProgress]
	limiter   *limiter.Limiter
	grammars  *constraint.Compiler
	runner    *generation.Runner
	relay     *relay.Relay
	reports   chan struct{}     // of usage, as many as may be read at once
	pulls     chan struct{}     // of models, as above
	estimates *meter.Estimates  // of the lengths of answers, for quotas
	cache     *generation.Cache // nil: off
	keys      *edge.Keys

	responses *stored.Responses
}

// New returns a server without models.
func New(c Config) (*Server, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Idempotency.Claims == nil {
		c.Idempotency.Claims = replay.NewMemory(c.Idempotency.TenantBytes)
	}
	if c.Responses.Store == nil {
		c.Responses.Store = conversation.NewMemory(c.Responses.TenantBytes)
	}
	s := &Server{config: c, callers: c.Callers, running: edge.NewRunning(), estimates: meter.NewEstimates(),
		cache: generation.NewCache(c.ResponseCache)}
	s.keys = &edge.Keys{Claims: c.Idempotency.Claims, TTL: c.Idempotency.TTL, MaxAnswerBytes: c.Idempotency.MaxAnswerBytes, Ended: c.Hooks.OnKey}
	if s.callers == nil {
		var err error
		if s.callers, err = tenant.NewAuthenticator(context.Background(), tenant.Config{StaticKeys: c.APIKeys}); err != nil {
			return nil, err
		}
	}
	s.responses = stored.New(c.Responses, s.running, c.HeartbeatEvery)
	s.routes, s.unknown = s.routeTable(), s.other()
	s.limiter = limiter.New("long prompts wait to be tokenised", s.running.Aborted(), s.busy)
	s.reports, s.pulls = make(chan struct{}, reportsAtOnce), make(chan struct{}, 1)
	s.runner = &generation.Runner{Hooks: &s.config.Hooks, Running: s.running, Estimates: s.estimates,
		Heartbeat: c.Heartbeat, HeartbeatEvery: c.HeartbeatEvery, ProgressEvery: c.ProgressEvery}
	s.relay = &relay.Relay{Hooks: &s.config.Hooks, Running: s.running, Estimates: s.estimates, Counter: c.Counter}
	s.grammars = constraint.NewCompiler(c.GrammarBytes, s.running.Aborted(), s.busy)
	s.loading.Store(&models.LoadProgress{})
	return s, nil
}

// Keys are the idempotency keys of this server, which other endpoints of the process share.
func (s *Server) Keys() *edge.Keys { return s.keys }

// Hooks implements edge.Protocol.
func (s *Server) Hooks() *edge.Hooks { return &s.config.Hooks }

// IsDraining implements edge.Protocol.
func (s *Server) IsDraining() bool { return s.running.IsDraining() }

// Drain refuses new requests, waits for running generations until ctx ends and
// then ends those that still run with an error event.
func (s *Server) Drain(ctx context.Context) error {
	return s.running.Drain(ctx, s.config.AbortTimeout)
}

// busy reports whether any model's backend is running sequences.
func (s *Server) busy() bool {
	set := s.models.Load()
	if set == nil {
		return false
	}
	for _, m := range set.List {
		if m.Upstream == nil && m.Load().Running > 0 {
			return true
		}
	}
	return false
}

var _ edge.Protocol = (*Server)(nil)
