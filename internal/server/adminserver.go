package server

import (
	"cmp"
	"context"
	"log"
	"net/http"
	"time"

	"weir/api"
	"weir/api/admin"
	"weir/api/openai"
	"weir/telemetry/monitor/drift"
)

// openAdmin makes the server on the admin listener.
func (s *Server) openAdmin(files files, edge openai.Config) {
	c := s.config
	data := &tenantData{
		callers: s.callers.authenticator, store: s.store, transcripts: s.watchers.Transcripts, batches: s.batches, edge: s.edge,
		engines: s.engines, audit: s.audit, log: s.log,
	}
	access := c.HTTP.Access
	access.Loopback = isLoopback(s.ports.admin)
	places := admin.Limit(s.ports.admin, files.admin)
	s.ports.admin = s.ports.overTLS(places)
	s.admin = newAdmin(c.HTTP, admin.Config{
		Metrics: s.metrics.Handler(), Ready: s.ready, Readiness: s.edge.Readiness, Version: s.build.Version, Access: access, Callers: s.callers.authenticator, Exposed: c.ExposesAdmin(),
		Denied: func(reason, remote string) { s.watchers.Tenants.Denied("admin", reason, remote) },
		Debug:  map[string]func() any{"engine": s.engines.debug}, Reset: s.engines.reset,
		Journal: s.watchers.Journal, Engines: s.engines.now, Audit: s.audit.page(), States: s.states, Reload: s.reloader.reload, Usage: s.quotas.ledger, Tenants: newTenantControl(s, edge.Meter), Forget: data.forget, Models: s.languages, Rollouts: s.rollouts, Outcomes: s.rollouts.Tell, SignIn: s.callers.signIn,
		Deployer: s.deployments.deployer(), Claims: claimsOf(s.store), KeyTTL: c.API.Idempotency.TTL,
		Fleets: s.fleets.views, BlockEvents: s.engines.blockEvents, Blocks: s.engines.transfers.handler(s.languages, s.callers.authenticator.Peers(), s.watchers.Tenants.Denied), Batches: func(ctx context.Context) (any, error) { return s.batches.Unfinished(ctx) },
		Drift: drift.Handler(func() []drift.Report { return s.predictors.enriched.reports() }),
	})
	s.admin.ErrorLog, s.admin.ConnState = log.New(adminTrouble{s.log}, "", 0), places.Follow
}

// closeAdmin cuts the admin listener's connections.
func (s *Server) closeAdmin() error {
	if s.admin == nil {
		return nil // the listener is among the ports
	}
	return s.admin.Close()
}

// states are what the engines and the lane of predictions say of their requests.
func (s *Server) states(ctx context.Context) ([]admin.State, error) {
	list, err := s.engines.states(ctx)
	return append(list, s.predictors.states()...), err
}

func newAdmin(c api.Config, what admin.Config) *http.Server {
	return &http.Server{
		Handler: admin.New(what), ReadHeaderTimeout: min(c.ReadTimeout, adminHeaderTimeout),
		IdleTimeout: c.IdleTimeout, MaxHeaderBytes: c.MaxHeaderBytes,
	}
}

// adminHeaderTimeout is what a client of the admin listener gets to send a header:
// short, because the listener has few connections.
const adminHeaderTimeout = 3 * time.Second

// ready is what the admin listener reports: what the API's own /ready says,
// and in the engine's words where the engine is why.
func (s *Server) ready() (ready bool, why string) {
	ready, why = s.edge.Ready()
	for _, e := range s.languages.engines() {
		if !ready {
			why = cmp.Or(e.NotReady(), why)
		}
	}
	return ready, why
}
