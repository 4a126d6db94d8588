package server

import (
	"cmp"
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"weir/api"
	"weir/api/messagebatch"
	"weir/api/openai"
	"weir/api/openapi"
	"weir/api/tenant"
	"weir/engine/kernel/pool"
	"weir/internal/console"
	"weir/internal/cpu"
	"weir/internal/memory"
	"weir/internal/server/hooks"
	"weir/internal/server/state"
	"weir/router"
	"weir/telemetry"
	"weir/tokenizer"
)

// assemble makes the parts of a server. What has to be given back goes onto s.closing as it is taken; so parts close in the
// reverse of their order here: first the listeners stop taking requests, then what computes, last the store.
func (s *Server) assemble(about *Config, budget int64) error {
	c := s.config
	var err error
	if s.log, s.level, err = telemetry.NewLogger(s.errs, console.IsTerminal(s.errs), c.Log); err != nil {
		return err
	}
	if s.metrics, err = telemetry.NewMetrics(s.build); err != nil {
		return err
	}
	s.prices.Store(&c.Prices)
	s.bodies = memory.New(c.HTTP.BodyMemoryBytes)
	s.ports.adminTLS = c.Server.TLSAdmin
	if s.ports.tls, err = newCertificates(c.Server, s.log); err != nil {
		return console.ConfigError(err)
	}
	if err := state.CheckExposure(context.Background(), c); err != nil {
		return console.ConfigError(err)
	}
	if err := s.openStore(about); err != nil {
		return err
	}
	s.quotas.log = s.log
	if err := s.ports.bind(c.Server); err != nil {
		return err
	}
	s.closing.push("ports", func(context.Context) error { return s.ports.close() })
	s.audit = &auditor{log: s.log, place: s.ports.api.Addr().String()}
	if s.store != nil {
		s.audit.kept = s.store.Audit
	}
	if err := s.watch(); err != nil {
		return err
	}
	edge, err := s.identify(about)
	if err != nil {
		return err
	}
	if err := s.manageModels(budget, about.LeastFetch); err != nil {
		return err
	}
	if err := s.speak(edge, about); err != nil {
		return err
	}
	if err := s.audit.start(s.build.Version, c.Digest()); err != nil {
		return err
	}
	return nil
}

// identify knows who calls, and what they may use: the edge's configuration so far.
func (s *Server) identify(about *Config) (edge openai.Config, err error) {
	c := s.config
	var keys tenant.Keys
	var tenants storedTenants
	if s.store != nil {
		keys, tenants = s.store.Keys, s.store.Tenants
	}
	s.callers, err = newCallers(c, keys, tenants, s.log)
	s.closing.pushed("callers", s.callers.stop)
	if err != nil {
		return edge, err
	}
	s.closing.pushed("traces", s.watchers.Traces.Close)
	edge = c.API
	edge.Slots = c.Scheduler.MaxSeqs
	edge.Version, edge.Callers, edge.Usage = s.build.Version, s.callers.authenticator, s.quotas.ledger
	if s.store != nil {
		edge.Idempotency.Claims, edge.Responses.Store = s.store.Claims, s.store.Responses
	}
	responses := &telemetry.LogLimiter{Every: telemetry.TroubleEvery}
	edge.Responses.Failed = func(err error) {
		responses.Do(func(held int) { s.log.Error("responses are not kept", zap.Error(err), zap.Int("times_before", held)) })
	}
	if edge.Meter, err = s.quotas.open(c.Quota, s.metrics); err != nil {
		return edge, err
	}
	s.closing.push("quotas", func(context.Context) error { return s.quotas.close() })
	if s.ports.admin != nil {
		s.closing.push("admin listener", func(context.Context) error { return s.closeAdmin() })
	}
	return edge, addTenantLimits(s.metrics, s.callers.authenticator, edge.Meter, s.log)
}

// manageModels makes what has the names of models, without any model in memory. Nothing of it runs before load.
func (s *Server) manageModels(budget int64, leastFetch time.Duration) (err error) {
	c := s.config
	s.fleets = newFleets(s)
	if err := telemetry.AddRoutes(s.metrics, s.fleets.series); err != nil {
		return err
	}
	s.predictors = &predictors{s: s}
	s.predictors.remotes = newRemotePredictors(s.predictors)
	s.closing.pushed("predictors of other servers", s.predictors.remotes.close)
	s.closing.pushed("fleets", s.fleets.close)
	s.compute = pool.New(cmp.Or(c.Engine.Threads, cpu.Threads()))
	s.closing.pushed("compute threads", s.compute.Close)
	shared := &transfers{build: s.build, least: leastFetch, log: s.log}
	if c.Engine.PrefixCacheKey != "" {
		shared.client = s.callers.blocks
	}
	if s.languages, err = newLanguages(s, budget); err != nil {
		return err
	}
	s.engines = &engines{languages: s.languages, transfers: shared, audit: s.audit, log: s.log, metrics: s.metrics}
	s.closing.pushed("language models", s.languages.stop)
	s.names = &names{all: []rolled{s.languages, s.fleets, s.predictors}, predictors: s.predictors}
	s.deployments = newDeployments(s)
	if s.rollouts, err = newRollouts(s); err != nil {
		return err
	}
	s.closing.pushed("rollouts", s.rollouts.Stop)
	s.watchers.Rollouts = s.rollouts.Hooks()
	if s.deployments != nil {
		if err := telemetry.AddDeployments(s.metrics, s.deployments.follower.States); err != nil {
			return err
		}
	}
	s.closing.pushed("deployments", s.deployments.stop)
	return nil
}

// speak makes the protocols on the listeners. edge is the edge's configuration.
func (s *Server) speak(edge openai.Config, about *Config) (err error) {
	c := s.config
	edge.Hooks = s.watchers.Generations()
	if s.brownout, err = newBrownout(c, s.metrics, s.log, s.audit.rule); err != nil {
		return err
	}
	edge.Brownout = s.brownout.effect.Load
	edge.Predict, edge.Classical = s.predictors.vectors, func() []router.ModelState { return s.predictors.answering() }
	edge.Outcomes, edge.Ollama = s.rollouts.Tell, newFileCatalog(s.languages)
	edge.Pulls = c.Registry.AllowPull
	if c.Model.EnableLora {
		edge.Adapters = s.languages.adapters
	}
	edge.Counter = tokenizer.NewCounter(c.Tiktoken.Dir)
	if c.Server.APIMetrics {
		edge.Metrics, edge.OpenMetrics = s.metrics.Handler(), c.Server.OpenMetrics
	}
	if s.edge, err = openai.New(edge); err != nil {
		return err
	}
	files := descriptors(c.HTTP.MaxConnections)
	if s.ports.rpc != nil {
		files = files.withRPC()
	}
	files.log(s.log)
	if err := openPredictors(s, edge); err != nil {
		return err
	}
	s.closing.pushed("brown-out", s.brownout.stop)
	s.mux = newMux(s, edge)
	if s.batches, err = newBatches(s); err != nil {
		return err
	}
	orders := messagebatch.New(messagebatch.Config{Batches: s.batches, Keys: s.edge.Keys(), Hooks: s.watchers.Batches()})
	described := openapi.New(openapi.Config{Routes: s.mux.Routes, Version: s.build.Version, Hooks: s.watchers.Pages()})
	s.mux.Register(newPages(s), described, s.batches, orders, s.predict, s.edge)
	if s.store != nil {
		s.callers.begin(s.encryptClear)
	}
	s.reloader = newReloader(s, about)
	if s.ports.rpc != nil {
		s.rpc = newRPC(s, files)
		s.closing.push("gRPC", func(ctx context.Context) error { s.rpc.Shutdown(ctx); return nil })
	}
	s.http = api.New(s.connections(files), s.mux)
	s.closing.push("API", s.http.Shutdown)
	if s.ports.admin != nil {
		s.openAdmin(files, edge)
	}
	return errors.Join(s.addResponseCache(), telemetry.AddUnkept(s.metrics, s.edge.Unkept, s.edge.Late), telemetry.AddConnections(s.metrics, func() telemetry.Connections {
		st := s.http.Stats()
		return telemetry.Connections{Open: st.Connections, BodyBytes: st.BodyBytes}
	}))
}

// addResponseCache publishes the response cache, where there is one.
func (s *Server) addResponseCache() error {
	if _, on := s.edge.CacheStats(); !on {
		return nil
	}
	return telemetry.AddResponseCache(s.metrics, func() telemetry.ResponseCache {
		st, _ := s.edge.CacheStats()
		return telemetry.ResponseCache{Hits: st.Hits, Misses: st.Misses, Evictions: st.Evictions, Bytes: st.Bytes}
	})
}

// connections is the edge's configuration on the listener that was bound.
func (s *Server) connections(f files) api.Config {
	c := s.config.HTTP
	c.MaxConnections, c.SurplusConnections, c.Hooks = f.connections, f.surplus, hooks.OfConnections(s.metrics, s.log)
	c.Bodies = s.bodies
	if s.ports.tls != nil {
		c.TLS, c.ClientCertificates = s.ports.tls.Config(), true // a reload may ask clients for certificates
	}
	c.Access.Loopback = isLoopback(s.ports.api)
	// Browsers send certificates of clients by themselves: pages of other programs must not call with them.
	c.Access.LocalPages = c.Access.Loopback && len(c.Access.Origins) == 0 && s.config.Server.TLS.ClientCA == ""
	if !c.Access.Loopback && len(c.Access.Hosts) == 0 && s.callers.authenticator.Open() {
		s.log.Warn("no key is asked and every Host name is answered: a web page can reach this server by DNS rebinding; " +
			"--api-key or --allowed-hosts prevents that")
	}
	return c
}
