package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"weir/internal/console"
	"weir/internal/server/local"
	"weir/internal/server/state"

	"go.uber.org/zap"

	"weir/api"
	"weir/api/admin"
	"weir/api/batch"
	"weir/api/openai"
	"weir/api/predict"
	"weir/api/usage"
	"weir/configs"
	"weir/engine/kernel/pool"
	"weir/engine/llm"
	"weir/internal/memory"
	"weir/internal/store"
	"weir/router"
	"weir/scheduler/admission"
	"weir/scheduler/quota"
	"weir/telemetry"
	"weir/telemetry/drift"
	"weir/telemetry/transcript"
	"weir/tokenizer"
)

// Server is a serving process: two listeners, the edge, and one model once it
// has loaded.
type Server struct {
	config configs.Config
	about  telemetry.Build // this build
	plan   []*planned      // models that Run loads

	leastFetch time.Duration // Config.LeastFetch
	storeLease time.Duration // Config.StoreLease
	out        io.Writer     // for people
	errs       io.Writer     // logs and progress
	log        *zap.Logger
	level      zap.AtomicLevel // of the log
	metrics    *telemetry.Metrics
	bodies     *memory.Budget // of requests, and of answers of other servers

	store   *store.Store // nil: none
	callers *callers
	tls     *api.TLS     // nil: plain HTTP
	shared  *store.Meter // of quotas, in Redis; nil: each process counts by itself

	quotaFailure atomic.Pointer[string] // configs.Quota.Failure, as it is in force
	ledger       usage.Ledger           // nil: usage is not kept
	edge         *openai.Server
	http         *api.Server
	listener     net.Listener
	admin        *http.Server
	second       net.Listener      // nil: off
	compute      *pool.Pool        // of the process, shared by its engines
	service      admission.Service // likewise: what tenants use over all of them
	refusals     *refusals
	access       *accessLog
	signIns      *signIns // nil: no store, and so no audit log
	prices       atomic.Pointer[map[string]quota.Price]
	brownout     *brownoutControl
	journal      *admin.Journal
	traces       *traces
	reloader     *reloader

	languages   *languages      // language models and text encoders
	fleets      *fleets         // models that other servers compute
	rollouts    *rollouts       // of versions of models
	deployments *deployments    // of all servers on the store; nil: no store
	predictors  *predictors     // classical models
	predict     *predict.Server // their protocols, in front of edge
	batches     *batch.Server   // files and batches, in front of predict
	others      others          // requests that batches make room for

	rpc         *predict.GRPC // the same over gRPC; nil: off
	rpcListener net.Listener  // nil: off
	failed      chan error    // why a listener ended without a shutdown

	transcripts *transcript.Recorder // nil: no store
	moderated   *moderated
}

// Config is what a server is assembled from.
type Config struct {
	Settings configs.Config
	Warnings []string        // of reading the settings, for the log
	Build    telemetry.Build // names this build, in metrics and answers

	Read    func() (c configs.Config, warnings []string, err error) // reads the settings again, for a reload; nil: they stay
	Applied func()                                                  // is called each time that the settings which were read last took effect; nil: nothing is

	LeastFetch time.Duration // what fetching KV blocks may take where computing them would take less; 0 is the engine's
	StoreLease time.Duration // how long what this process holds in the store outlives it; 0 is the store's

	Out  io.Writer // for people: what is served where, once it is; nil: nowhere
	Errs io.Writer // logs and progress; nil: nowhere
}

// New builds everything but the models, and binds the ports. What cannot run fails before a port is bound.
func New(c Config) (*Server, error) {
	if c.Read == nil {
		c.Read = func() (configs.Config, []string, error) { return c.Settings, nil, nil }
	}
	if c.Out == nil {
		c.Out = io.Discard
	}
	if c.Errs == nil {
		c.Errs = io.Discard
	}
	budget := memoryBudget(c.Settings)
	plan, err := planModels(c.Settings, budget)
	if err != nil {
		return nil, err
	}
	if len(plan) == 1 && c.Settings.Model.MemoryBytes == 0 {
		budget = max(budget, plan[0].bytes()) // the only model may have what the machine has
	}
	s, err := assemble(c, budget)
	if err != nil {
		return nil, err
	}
	s.plan = plan
	if s.reloader.applied = c.Applied; c.Applied != nil {
		c.Applied()
	}
	if w := local.PrepareThreads(c.Settings); w != "" {
		c.Warnings = append(c.Warnings, w)
	}
	for _, w := range c.Warnings {
		s.log.Warn(w)
	}
	return s, nil
}

// Run answers requests and loads the models until ctx ends, and then lets running requests end; or until loading or a
// listener fails.
func (s *Server) Run(ctx context.Context) error {
	go s.logHeads(ctx)
	s.listen()
	loaded := make(chan error, 1)
	go func() { loaded <- s.load(s.plan) }()
	for {
		select {
		case err := <-loaded:
			if err != nil {
				return errors.Join(err, s.shutdown(0))
			}
			loaded = nil
			s.batches.Start()
		case err := <-s.failed:
			return errors.Join(err, s.shutdown(0))
		case <-ctx.Done():
			return s.drain()
		}
	}
}

// assemble makes the parts of a server.
func assemble(about Config, budget int64) (*Server, error) {
	c, errs := about.Settings, about.Errs
	s := &Server{config: c, about: about.Build, out: about.Out, errs: errs, leastFetch: about.LeastFetch, storeLease: about.StoreLease, failed: make(chan error, 3)}
	var err error
	if s.log, s.level, err = telemetry.NewLogger(errs, console.IsTerminal(errs), c.Log); err != nil {
		return nil, err
	}
	b := s.about
	if s.metrics, err = telemetry.NewMetrics(b); err != nil {
		return nil, err
	}
	s.prices.Store(&c.Prices)
	s.access = newAccessLog(s.log, c.Log.AccessPerSecond)
	s.bodies = memory.New(c.HTTP.BodyMemoryBytes)
	s.fleets = newFleets(s)
	if s.languages, err = newLanguages(s, budget); err != nil {
		return nil, err
	}
	if s.rollouts, err = s.newRollouts(); err != nil {
		return nil, err
	}
	s.reloader = newReloader(s, about.Read, s.logLevel, s.accessRate, s.newTenants, s.tlsFiles, s.newPrices, s.newClassic, s.brownoutSteps, s.objectives, s.quotaTerms, s.newFleets)
	if err := s.newTLS(); err != nil {
		return nil, console.ConfigError(err)
	}
	if err := s.openStore(); err != nil {
		return nil, err
	}
	if err := s.bind(); err != nil {
		return nil, errors.Join(err, s.closeStore())
	}
	err = s.build(b)
	if err == nil {
		err = s.noteStart(b.Version)
	}
	if err != nil {
		if s.callers != nil {
			s.callers.stop()
		}
		if s.compute != nil {
			s.compute.Close()
		}
		return nil, errors.Join(err, s.unbind(), s.closeTranscripts(), s.moderated.close(), s.closeStore())
	}
	return s, nil
}

// build makes the edge and the handlers of both listeners.
func (s *Server) build(b telemetry.Build) error {
	c := s.config
	s.refusals, s.journal = newRefusals(s.log), admin.NewJournal()
	var err error
	if s.traces, err = newTraces(c, b, s.listener.Addr().String(), s.log); err != nil {
		return err
	}
	if err := s.metrics.AddTraces(s.traceStats); err != nil {
		return err
	}
	if err := s.metrics.AddRoutes(s.fleets.series); err != nil {
		return err
	}
	if s.store != nil {
		if err := s.metrics.AddUsage(func() uint64 { return s.store.UsageStats().Dropped }); err != nil {
			return err
		}
	}
	if err = s.newCallers(); err != nil {
		return err
	}
	edge := c.API
	edge.Version, edge.Hooks = b.Version, journaled(s.journal, s.seen(hooks(s.metrics, s.log, s.refusals, s.traces)))
	edge.Callers = s.callers.authenticator
	if s.store != nil {
		s.signIns = newSignIns(s.noteDenied)
		edge.Idempotency.Claims, edge.Responses.Store = s.store, s.store
	}
	responses := &quietly{every: troubleEvery}
	edge.Responses.Failed = func(err error) {
		responses.do(func(held int) { s.log.Error("responses are not kept", zap.Error(err), zap.Int("times_before", held)) })
	}
	if edge.Meter, err = s.openMeter(); err != nil {
		return err
	}
	if err := s.addTenants(edge.Meter); err != nil {
		return err
	}
	edge.Usage = s.ledger
	if s.ledger != nil {
		edge.Hooks = accounted(s.ledger, edge.Hooks)
	}
	if s.brownout, err = s.newBrownout(); err != nil {
		return err
	}
	edge.Brownout = s.brownout.effect.Load
	if err := s.openTranscripts(); err != nil {
		return err
	}
	if s.transcripts != nil {
		edge.Hooks = transcribed(s.transcripts, edge.Hooks)
	}
	if s.moderated, err = newModerated(s); err != nil {
		return err
	}
	edge.Hooks = s.moderated.hooks(edge.Hooks)
	edge.Predict, edge.Classical = s.predictVectors, func() []router.ModelState { return s.predictors.answering() }
	s.rollouts.openJournal()
	edge.Outcomes = s.rollouts.tell
	edge.Hooks = s.others.counted(s.rollouts.rolled(edge.Hooks))
	edge.Counter = tokenizer.NewCounter(c.Tiktoken.Dir)
	if c.Server.APIMetrics {
		edge.Metrics, edge.OpenMetrics = s.metrics.Handler(), c.Server.OpenMetrics
	}
	if s.edge, err = openai.New(edge); err != nil {
		return err
	}
	files := descriptors(c.HTTP.MaxConnections)
	if s.rpcListener != nil {
		files = files.withRPC()
	}
	files.log(s.log)
	if err := s.newPredictors(edge); err != nil {
		return err
	}
	if err := s.newBatches(edge); err != nil {
		return err
	}
	if s.store != nil {
		s.callers.begin(s.encryptClear)
	}
	if s.deployments = s.newDeployments(); s.deployments != nil {
		if err := s.metrics.AddDeployments(s.deployments.follower.States); err != nil {
			return err
		}
	}
	s.http = api.New(s.connections(files), s.batches)
	if s.rpcListener != nil {
		s.newRPC(files)
	}
	if s.second != nil {
		access := c.HTTP.Access
		access.Loopback = isLoopback(s.second)
		s.second = s.overTLS(admin.Limit(s.second, files.admin))
		s.admin = newAdmin(c.HTTP, admin.Config{
			Metrics: s.metrics.Handler(), Ready: s.ready, Readiness: s.edge.Readiness, Version: b.Version, Access: access, Callers: s.callers.authenticator, Exposed: s.config.ExposesAdmin(),
			Denied: func(reason, remote string) { s.denied("admin", reason, remote) },
			Debug:  map[string]func() any{"engine": s.debugEngine}, Reset: s.resetPrefixCache,
			Journal: s.journal, States: s.states, Reload: s.reloader.reload, Usage: s.ledger, Tenants: s.tenantControl(edge.Meter), Forget: s.forget, Models: s.languages, Deployments: s.rollouts, Outcomes: s.rollouts.tell,
			Deployer: s.deployer(), Claims: s.claims(), KeyTTL: s.config.API.Idempotency.TTL,
			Fleets: s.fleets.views, BlockEvents: s.blockEvents, Blocks: s.kvBlocks(), Batches: s.unfinishedBatches,
			Drift: drift.Handler(func() []drift.Report { return s.predictors.enriched.reports() }),
		})
		s.admin.ErrorLog = log.New(secondTrouble{s.log}, "", 0)
	}
	if err := errors.Join(s.addResponseCache(), s.metrics.AddUnkept(s.edge.Unkept)); err != nil {
		return err
	}
	return s.metrics.AddConnections(func() telemetry.Connections {
		st := s.http.Stats()
		return telemetry.Connections{Open: st.Connections, BodyBytes: st.BodyBytes}
	})
}

// addResponseCache publishes the response cache, where there is one.
func (s *Server) addResponseCache() error {
	if _, on := s.edge.CacheStats(); !on {
		return nil
	}
	return s.metrics.AddResponseCache(func() telemetry.ResponseCache {
		st, _ := s.edge.CacheStats()
		return telemetry.ResponseCache{Hits: st.Hits, Misses: st.Misses, Evictions: st.Evictions, Bytes: st.Bytes}
	})
}

// connections is the edge's configuration on the listener that was bound.
func (s *Server) connections(f files) api.Config {
	c := s.config.HTTP
	c.MaxConnections, c.SurplusConnections, c.Hooks = f.connections, f.surplus, edgeHooks(s.metrics, s.log)
	c.Bodies = s.bodies
	if s.tls != nil {
		c.TLS, c.ClientCertificates = s.tls.Config(), true // a reload may ask clients for certificates
	}
	c.Access.Loopback = isLoopback(s.listener)
	if !c.Access.Loopback && len(c.Access.Hosts) == 0 && s.callers.authenticator.Open() {
		s.log.Warn("no key is asked and every Host name is answered: a web page can reach this server by DNS rebinding; " +
			"--api-key or --allowed-hosts prevents that")
	}
	return c
}

func newAdmin(c api.Config, what admin.Config) *http.Server {
	return &http.Server{
		Handler: admin.New(what), ReadHeaderTimeout: min(c.ReadTimeout, adminHeaderTimeout),
		IdleTimeout: c.IdleTimeout, MaxHeaderBytes: c.MaxHeaderBytes,
	}
}

// adminHeaderTimeout is what a client of the second listener gets to send a header:
// short, because the listener has few connections and keeps no places for others.
const adminHeaderTimeout = 3 * time.Second

// bind takes all ports, or none.
func (s *Server) bind() error {
	var err error
	if s.listener, err = listen(s.config.Server.Address(), "choose another with --port, or --port 0 for a free one"); err != nil {
		return err
	}
	if a := s.config.Server.AdminAddress; a != "off" {
		if s.second, err = listen(a, "choose another with --admin-address, or --admin-address off for none"); err != nil {
			return errors.Join(err, s.unbind())
		}
	}
	if a := s.config.Server.GRPCAddress; a != "off" {
		if s.rpcListener, err = listen(a, "choose another with --grpc-address, or --grpc-address off for none"); err != nil {
			return errors.Join(err, s.unbind())
		}
	}
	return nil
}

func (s *Server) unbind() error {
	err := s.listener.Close()
	if s.second != nil {
		err = errors.Join(err, s.second.Close())
	}
	if s.rpcListener != nil {
		err = errors.Join(err, s.rpcListener.Close())
	}
	return err
}

// listen starts answering on both ports, before there is a model.
func (s *Server) listen() {
	go func() {
		if err := s.http.Serve(s.listener); err != nil {
			s.failed <- err
		}
	}()
	if s.tls != nil {
		s.callers.begin(func(ctx context.Context) { s.refreshTLS(ctx, tlsFilesEvery) })
	}
	fields := []zap.Field{zap.String("api", s.apiURL())}
	if s.second != nil {
		fields = append(fields, zap.String("metrics", s.secondURL()+"/metrics"))
		go func() {
			if err := s.admin.Serve(s.second); !errors.Is(err, http.ErrServerClosed) {
				s.failed <- fmt.Errorf("serve metrics: %w", err)
			}
		}()
	}
	if s.rpc != nil {
		fields = append(fields, zap.String("grpc", s.rpcListener.Addr().String()))
		go func() {
			if err := s.rpc.Serve(s.rpcListener); err != nil {
				s.failed <- err
			}
		}()
	}
	s.log.Info("listening", fields...)
}

// load reads the models and opens the API for requests, the classical ones first: they
// take milliseconds.
func (s *Server) load(plan []*planned) error {
	if err := s.predictors.load(s.config); err != nil {
		return err
	}
	commit, err := s.fleets.prepare(s.config)
	if err != nil {
		return err
	}
	commit()
	s.languages.start()
	s.brownout.start(s.languages.engines)
	if len(plan) == 0 {
		s.rollouts.start()
		s.deployments.start()
		return s.openClassic()
	}
	if err := s.languages.load(plan); err != nil {
		return err
	}
	s.rollouts.start()
	s.deployments.start()
	return s.announce(plan)
}

// observe feeds the model's metrics, which exist once the model has loaded, from
// hooks of the step loop.
func (s *Server) observe(name string, o *llm.Options) {
	o.OnStep = func(t llm.StepStats) {
		s.metrics.Model(name).ObserveStep(telemetry.Step{
			Rows:    t.PrefillTokens + t.DecodeTokens + t.DraftTokens,
			Seconds: t.StepTime.Seconds(), PlanSeconds: t.PlanTime.Seconds(), EstimateSeconds: t.Estimate.Seconds(),
		})
	}
	o.OnFault = func(text string) {
		s.log.Error("a bug was caught in the engine", zap.String("model", name), zap.String("fault", text))
	}
	o.OnFinish = func(p llm.Phases) {
		s.metrics.Model(name).ObservePhases(telemetry.Phases{
			QueueSeconds: p.Queue.Seconds(), PrefillSeconds: p.Prefill.Seconds(), InferenceSeconds: p.Inference.Seconds(),
			Preemptions: p.Preemptions,
		})
	}
	s.transferBlocks(name, o)
	o.OnCancel = func(took time.Duration) { s.metrics.Model(name).ObserveCancel(took.Seconds()) }
}

// announce says what is served.
func (s *Server) announce(plan []*planned) error {
	first := plan[0].record.Name
	block := readiness{model: first, info: s.languages.current(first), url: s.apiURL(), chats: true,
		keyed: !s.callers.authenticator.Open(), classical: s.predictors.names()}
	if r := s.languages.answering(first); r != nil {
		block.chats = r.Template.Template != nil
	}
	for _, p := range plan[1:] {
		if name := p.record.Name; name != first && !slices.Contains(block.others, name) {
			block.others = append(block.others, name)
		}
	}
	if s.second != nil {
		block.metrics = s.secondURL()
	}
	return block.print(s.out)
}

// ready is what the second listener reports: what the API's own /ready says,
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

// debugEngine describes the model, or all where there are several.
func (s *Server) debugEngine() any {
	var list []any
	for _, r := range s.languages.residents() {
		about := map[string]any{"model": r.Name, "info": r.Info()}
		switch {
		case r.Encoder != nil:
			about["stats"] = r.Encoder.Stats()
		case r.Llama != nil:
			about["stats"] = r.Llama.Load()
		default:
			about["stats"] = r.Engine.Stats()
		}
		list = append(list, about)
	}
	if len(list) == 1 {
		return list[0]
	}
	return list
}

// resetPrefixCache returns how many blocks it freed. by says who asked.
func (s *Server) resetPrefixCache(ctx context.Context, by string) (freedBlocks int, err error) {
	engines := s.languages.engines()
	switch {
	case len(engines) > 0:
	case len(s.languages.residents()) > 0:
		return 0, errors.New("a text encoder has no prefix cache; there is nothing to reset")
	default:
		return 0, errors.New("no language model is in memory; while one is loading, wait until GET /ready answers 200")
	}
	if err := s.audit(ctx, by, state.ActionCacheReset, "", nil); err != nil {
		return 0, err
	}
	freedBlocks, err = s.emptyCaches(ctx)
	if err == nil {
		s.log.Info("the prefix cache was reset", zap.String("by", by), zap.Int("freed_blocks", freedBlocks))
	}
	return freedBlocks, err
}

// emptyCaches evicts what no request uses from the prefix caches of all models.
func (s *Server) emptyCaches(ctx context.Context) (freedBlocks int, err error) {
	var errs []error
	for _, e := range s.languages.engines() {
		freed, err := e.ResetPrefixCache(ctx)
		freedBlocks += freed
		errs = append(errs, err)
	}
	return freedBlocks, errors.Join(errs...)
}

// drain lets running requests finish, for as long as the configuration allows.
func (s *Server) drain() error {
	s.log.Info("stopping; a second signal ends the process at once",
		zap.Duration("timeout", s.config.Server.ShutdownTimeout))
	s.deployments.drain()
	if err := s.shutdown(s.config.Server.ShutdownTimeout); err != nil {
		s.log.Warn("some requests were cut off", zap.Error(err))
		return nil
	}
	s.log.Info("stopped")
	return nil
}

// engineTimeout is what the engine gets to end its step after the edge has
// let go of every request.
const engineTimeout = 5 * time.Second

// shutdown closes the edge first, so that no request finds a closed engine.
func (s *Server) shutdown(timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	errs := []error{s.http.Shutdown(ctx)}
	if s.rpc != nil {
		s.rpc.Shutdown(ctx)
	}
	s.brownout.stop()
	closing, cancel := context.WithTimeout(context.Background(), engineTimeout)
	defer cancel()
	errs = append(errs, s.predictors.lane.Close(closing), s.predictors.enriched.close(closing))
	s.deployments.stop()
	s.rollouts.stop()
	s.languages.stop()
	s.compute.Close()
	s.fleets.close()
	s.predictors.remotes.close()
	if s.second != nil {
		errs = append(errs, s.admin.Close())
	}
	if s.shared != nil {
		errs = append(errs, s.shared.Close())
	}
	s.closeTraces()
	s.callers.stop()
	if s.signIns != nil {
		s.signIns.flush()
	}
	s.noteStop()
	errs = append(errs, s.closeTranscripts(), s.moderated.close(), s.closeStore())
	s.refusals.flush()
	return errors.Join(errs...)
}
