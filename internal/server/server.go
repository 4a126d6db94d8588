package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"go.uber.org/zap"

	"weir/api"
	"weir/api/batch"
	"weir/api/edge"
	"weir/api/openai"
	"weir/api/predict"
	"weir/configs"
	"weir/engine/kernel/pool"
	"weir/internal/memory"
	"weir/internal/server/hooks"
	"weir/internal/server/local"
	"weir/internal/server/rollouts"
	"weir/internal/server/state"
	"weir/scheduler/admission"
	"weir/telemetry"
)

// Server is a serving process: its listeners, the protocols on them, the models behind these, and what watches them.
type Server struct {
	config  configs.Config
	build   telemetry.Build
	plan    []*planned // models that Run loads
	out     io.Writer  // for people
	errs    io.Writer  // logs and progress
	log     *zap.Logger
	level   zap.AtomicLevel // of the log
	metrics *telemetry.Metrics
	bodies  *memory.Budget // of requests, and of answers of other servers
	closing closers
	life    lifetime

	ports  listeners
	http   *api.Server   // on ports.api
	admin  *http.Server  // on ports.admin; nil: off
	rpc    *predict.GRPC // on ports.rpc; nil: off
	failed chan error    // why a listener ended without a shutdown
	loaded chan struct{} // closed once the models that Run loads answer

	mux     *edge.Mux       // of the protocols below, in their order
	batches *batch.Server   // files and batches
	predict *predict.Server // protocols of classical models
	edge    *openai.Server

	store    *state.Store // nil: none
	noStore  error        // why none could be made; nil: it could, or none was to be
	audit    *auditor
	callers  *callers
	quotas   quotas
	prices   prices
	brownout *brownoutControl
	reloader *reloader

	compute     *pool.Pool         // of the process, shared by its engines
	service     admission.Service  // as above: what tenants use over all of them
	languages   *languages         // language models and text encoders
	engines     *engines           // of those in memory
	fleets      *fleets            // models that other servers compute
	predictors  *predictors        // classical models
	names       *names             // of all of these
	rollouts    *rollouts.Rollouts // of versions of models
	deployments *deployments       // of all servers on the store; nil: no store

	watchers *hooks.Watchers // of requests
}

// New builds everything but the models, and binds the ports. What cannot run fails before a port is bound.
func New(c Config) (*Server, error) {
	c.complete()
	budget := memoryBudget(c.Settings)
	plan, err := planModels(c.Settings, budget)
	if err != nil {
		return nil, err
	}
	if len(plan) == 1 && c.Settings.Model.MemoryBytes == 0 {
		budget = max(budget, plan[0].bytes()) // the only model may have what the machine has
	}
	s := &Server{
		config: c.Settings, build: c.Build, plan: plan, out: c.Out, errs: c.Errs, failed: make(chan error, 3), loaded: make(chan struct{}),
	}
	if err := s.assemble(&c, budget); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.reloader.applied()
	if w := local.PrepareThreads(c.Settings); w != "" {
		c.Warnings = append(c.Warnings, w)
	}
	for _, w := range c.Warnings {
		s.log.Warn(w)
	}
	return s, nil
}

// URL is where clients on this machine reach the API.
func (s *Server) URL() string { return s.ports.apiURL() }

// AdminURL is where clients on this machine reach the admin listener; empty: it is off.
func (s *Server) AdminURL() string { return s.ports.adminURL() }

// Loaded is closed once the models that Run loads answer.
func (s *Server) Loaded() <-chan struct{} { return s.loaded }

// Run answers requests and loads the models until ctx ends, and then lets running requests end; or until loading or a
// listener fails. It closes the server, which runs once.
func (s *Server) Run(ctx context.Context) error {
	ctx, end, err := s.life.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	go s.audit.logHeads(ctx)
	s.listen()
	loaded := make(chan error, 1)
	go func() { loaded <- s.load(ctx) }()
	select {
	case err := <-loaded:
		switch {
		case err == nil:
		case ctx.Err() != nil: // that is why
			s.stopTasks()
			return s.drain(ctx)
		default:
			return errors.Join(err, s.cut())
		}
	case err := <-s.failed:
		s.endLoading(loaded)
		return errors.Join(err, s.cut())
	case <-ctx.Done():
		s.endLoading(loaded)
		return s.drain(ctx)
	}
	s.batches.Start()
	close(s.loaded)
	select {
	case err := <-s.failed:
		return errors.Join(err, s.cut())
	case <-ctx.Done():
		return s.drain(ctx)
	}
}

// endLoading ends the loading of models early: what is closed next must not be begun meanwhile.
func (s *Server) endLoading(loaded <-chan error) {
	s.life.cancel(nil)
	s.stopTasks()
	<-loaded //nolint:errcheck // the run ends, whatever it loaded
}

// stopTasks ends what would begin further loads.
func (s *Server) stopTasks() {
	s.rollouts.Halt()
	s.deployments.halt()
}

// Reload reads the settings again and puts those into force that can change at run time. by says who asked. What is not valid
// changes nothing.
func (s *Server) Reload(ctx context.Context, by string) error {
	_, err := s.reloader.reload(ctx, by, false)
	return err
}

// Close gives back what a server has taken that was not run. One that runs ends, and Close waits for it; its requests are cut off.
func (s *Server) Close() error { return s.life.end(s.cut) }

// cut closes all without waiting for requests.
func (s *Server) cut() error {
	ctx, cancel := context.WithTimeout(context.Background(), 0)
	defer cancel()
	return s.closing.close(ctx)
}

// drain lets running requests finish, for as long as the configuration allows, unless Close ends the server.
func (s *Server) drain(ended context.Context) error {
	if errors.Is(context.Cause(ended), errClosed) {
		s.log.Info("closed")
		return s.cut()
	}
	s.log.Info("stopping; a second signal ends the process at once",
		zap.Duration("timeout", s.config.Server.ShutdownTimeout))
	s.deployments.drain()
	ctx, cancel := context.WithTimeout(context.Background(), s.config.Server.ShutdownTimeout)
	defer cancel()
	if err := s.closing.close(ctx); err != nil {
		s.log.Warn("some requests were cut off", zap.Error(err))
		return nil
	}
	s.log.Info("stopped")
	return nil
}

// engineTimeout is what the engine gets to end its step after the edge has
// let go of every request.
const engineTimeout = 5 * time.Second
