package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"weir/api/admin"
	"weir/api/openai"
	"weir/api/predict"
	"weir/configs"
	"weir/engine/classic"
	"weir/engine/onnx"
	"weir/internal/console"
	"weir/internal/cpu"
	"weir/internal/defaultmodel"
	"weir/internal/inference"
	"weir/internal/server/classical"
	"weir/internal/server/state"
	"weir/router"
	"weir/router/versions"
	"weir/telemetry"
)

// predictors are the classical models of a server, as api/predict knows them.
type predictors struct {
	s      *Server
	lane   *classic.Lane
	local  *classical.Models // nil until the lane is made
	series *telemetry.Predictions

	awaited atomic.Pointer[map[string]bool] // while the process starts: names that deployments and rollouts are to give to their versions

	changing sync.Mutex // held while the list of models changes
	loaded   bool       // there is a list; guarded by changing

	known   sync.Map // *classical.Version to router.Predictor
	remotes *remotePredictors

	enriched *enriched // the same models with their features, drift and log
}

// openPredictors makes the lane of predictions without models, and the handler of their
// protocols in front of the edge.
func openPredictors(s *Server, about openai.Config) error {
	if library := s.config.Predict.ONNXRuntime; library != "" {
		if err := onnx.SetRuntime(library); err != nil {
			return console.ConfigError(err)
		}
	}
	onnx.Runs.Limit(cmp.Or(s.config.Predict.RunBytes, cpu.TotalMemoryBytes()/2))
	p := s.predictors
	var err error
	if p.lane, err = classic.NewLane(classic.LaneOptions{
		Pool: s.compute, Service: &s.service, Cores: s.compute.Workers(),
		MaxWaiting: s.config.Predict.MaxWaiting, SharePercent: s.config.Scheduler.SharePercent, OnFault: p.fault,
	}); err != nil {
		return err
	}
	s.closing.push("predictions", func(context.Context) error { return p.close() })
	p.local = classical.New(classical.Options{
		Lane: p.lane, MaxBytes: s.config.Predict.MemoryBytes, MaxWaiting: s.config.Predict.MaxWaiting, LoadWait: loadWait,
		CloseWait: engineTimeout, Decided: func(name string) bool { return s.deployments.decides(name) }, OnChange: p.changed, OnNote: p.note,
	})
	if p.series, err = telemetry.AddPredictions(s.metrics, p.state); err != nil {
		return err
	}
	if p.enriched, err = newEnriched(p, enrichmentOf(s.config, s.rollouts, p.remotes.reaches), s.metrics, s.log); err != nil {
		return err
	}
	s.predict, err = predict.New(predict.Config{
		Callers: s.callers.authenticator, Models: p.enriched, Meter: about.Meter, Ready: s.ready, Version: about.Version, Language: s.edge.ModelReady,
		Keys: s.edge.Keys(), Price: s.prices.ofVersion, Hooks: s.watchers.Predictions(), Insecure: s.config.Server.Insecure,
		Strict: about.Strict, ClientTimeouts: about.ClientTimeouts, DrainRetries: about.DrainRetries,
		MaxRequestBytes: s.config.HTTP.MaxRequestBytes, AbortTimeout: about.AbortTimeout,
	})
	return err
}

// close lets predictions that run end, and then writes what is known of them.
func (p *predictors) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), engineTimeout)
	defer cancel()
	err := p.lane.Close(ctx)
	if p.local != nil {
		p.local.Close()
	}
	if p.enriched != nil {
		err = errors.Join(err, p.enriched.close(ctx))
	}
	return err
}

// sources are the classical models of a configuration: without any model in it, the
// built-in one.
func sources(c configs.Config) []classical.Source {
	var list []classical.Source
	for _, m := range c.ClassicModels() {
		if len(m.Replicas) > 0 {
			continue // they compute it
		}
		list = append(list, classical.Source{Pinned: m.Pinned, Candidate: m.Candidate, Source: classic.Source{
			Name: m.Name, Path: m.Path, Golden: m.Golden,
			Options: classic.Options{
				Version: m.Version, MaxBatch: m.MaxBatch, MaxRows: m.MaxRows, MaxDelay: m.MaxQueueDelay, Labels: m.Labels,
				Transform: m.Transform, BestIteration: m.BestIteration,
			},
		}})
	}
	if c.NamesNone() {
		model, golden := defaultmodel.Iris()
		list = append(list, classical.Source{Source: classic.Source{
			Name: defaultmodel.IrisName, Data: model, GoldenData: golden, Options: classic.Options{Version: "1", Labels: defaultmodel.IrisClasses()},
		}})
	}
	return list
}

// load reads the models of the configuration that the process was started with.
func (p *predictors) load(ctx context.Context, c configs.Config) error {
	p.changing.Lock()
	defer p.changing.Unlock()
	if p.loaded {
		return nil // a reload was first, with a newer list
	}
	remotes, err := p.remotes.prepare(c)
	if err != nil {
		return err
	}
	commit, _, err := p.local.Prepare(ctx, sources(c))
	if err != nil {
		return err
	}
	moved := namesInStore(ctx, p.s)
	p.awaited.Store(&moved)
	p.commit(commit)
	remotes()
	return p.enriched.check()
}

// started lets requests have names that deployments and rollouts were awaited for.
func (p *predictors) started() { p.awaited.Store(nil) }

// isAwaited reports whether a request that names no version has to come again: what answered before the process started is not known yet.
func (p *predictors) isAwaited(name, version string) bool {
	names := p.awaited.Load()
	return version == "" && names != nil && (*names)[name]
}

// commit puts a list of models into force. The caller holds changing.
func (p *predictors) commit(local func()) {
	local()
	p.loaded = true
	p.known.Clear()
}

// prepare loads what a new configuration has of classical models, beside what is served. One of commit and abandon is called, once.
func (p *predictors) prepare(ctx context.Context, c configs.Config) (commit, abandon func(), err error) {
	remotes, err := p.remotes.prepare(c)
	if err != nil {
		return nil, nil, err
	}
	for _, m := range c.ClassicModels() {
		if _, err := readFiles(m.Manifest, m.Profile); err != nil {
			return nil, nil, console.ConfigError(err)
		}
	}
	prepared, abandon, err := p.local.Prepare(ctx, sources(c))
	if err != nil {
		return nil, nil, console.ConfigError(err)
	}
	manifests, profiles := enrichmentFiles(c)
	return func() {
		p.changing.Lock()
		defer p.changing.Unlock()
		p.commit(prepared)
		remotes()
		p.enriched.configured(manifests, profiles)
	}, abandon, nil
}

// Find implements router.Predictors.
func (p *predictors) Find(name, version string) (router.Predictor, error) {
	if remote := p.remotes.find(name, version); remote != nil {
		return remote, nil
	}
	served, err := p.local.Find(name, version)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", router.ErrNoPredictor, err)
	}
	if err := served.Ready(); err != nil {
		return nil, err
	}
	return p.counted(served), nil
}

// Acquire implements router.Predictors.
func (p *predictors) Acquire(name, version string) (router.Predictor, router.Hold, error) {
	if p.isAwaited(name, version) {
		return nil, nil, fmt.Errorf("%w: the server starts, and model %q waits for the version of its deployment or rollout", inference.ErrUnavailable, name)
	}
	if remote := p.remotes.find(name, version); remote != nil {
		return remote, nil, nil
	}
	served, lease, err := p.local.Acquire(name, version)
	if errors.Is(err, versions.ErrUnknown) {
		err = fmt.Errorf("%w: %w", router.ErrNoPredictor, err)
	}
	if err != nil {
		return nil, nil, err
	}
	return p.counted(served), lease, nil
}

// counted is a version whose requests are counted.
func (p *predictors) counted(v *classical.Version) router.Predictor {
	if found, ok := p.known.Load(v); ok {
		return found.(router.Predictor)
	}
	d := v.Describe()
	found, _ := p.known.LoadOrStore(v, &observed{v, p.series.Of(d.Name, d.Version)})
	return found.(router.Predictor)
}

// version is the label of a version; of "" that which answers by default.
func (p *predictors) version(name, version string) (string, error) {
	if label, ok := p.remotes.version(name, version); ok {
		return label, nil
	}
	served, err := p.local.Find(name, version)
	if err != nil {
		return "", err
	}
	return served.Label(), nil
}

// answers implements rolled.
func (p *predictors) answers(model string) (string, bool) {
	label, err := p.version(model, "")
	return label, err == nil
}

// keep implements rolled: nothing of a model that other servers compute is in memory here.
func (p *predictors) keep(ctx context.Context, model, label string) (func(), error) {
	if _, ok := p.remotes.version(model, label); ok {
		return func() {}, nil
	}
	release, err := p.local.Keep(ctx, model, label)
	if errors.Is(err, versions.ErrUnknown) {
		err = fmt.Errorf("%w: %w", admin.ErrNoModel, err)
	}
	return release, err
}

// give implements rolled.
func (p *predictors) give(model, label, by string) error {
	before, _ := p.answers(model)
	if !p.remotes.move(model, label) {
		if err := p.local.Move(context.Background(), model, label); err != nil {
			return err
		}
	}
	p.s.log.Info("another version answers", zap.String("model", model), zap.String("version", label), zap.String("before", before), zap.String("by", by))
	return nil
}

// withdraw implements rolled.
func (p *predictors) withdraw(model, by string) error {
	choice, ok := p.remotes.choice(model)
	if !ok {
		choice, ok = p.local.Choice(model)
	}
	if answers, _ := p.answers(model); !ok || answers == choice {
		return nil
	}
	return p.give(model, choice, by)
}

// answering lists the versions that requests get which name none.
func (p *predictors) answering() []router.ModelState {
	list := p.remotes.answering()
	for _, m := range p.local.Index() {
		served, err := p.local.Find(m.Name, "")
		if err != nil || served.Label() != m.Version {
			continue
		}
		state := router.ModelState{Name: m.Name, Version: m.Version, Ready: m.Ready, Unloaded: served.Ready() != nil}
		if !m.Ready {
			state.Reason = m.Why
		}
		list = append(list, state)
	}
	return list
}

// Index implements router.Predictors.
func (p *predictors) Index() []router.ModelState {
	index := p.local.Index()
	list := make([]router.ModelState, len(index))
	for i, m := range index {
		list[i] = router.ModelState{Name: m.Name, Version: m.Version, Ready: m.Ready}
		if !m.Ready {
			list[i].Reason = m.Why
		}
	}
	list = slices.Concat(list, p.remotes.index())
	slices.SortStableFunc(list, func(a, b router.ModelState) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Load implements router.Predictors.
func (p *predictors) Load(ctx context.Context, name, by string) error {
	return p.change(ctx, by, state.ActionModelLoad, name, func(name string) error { return p.local.Load(ctx, name) })
}

// Unload implements router.Predictors.
func (p *predictors) Unload(ctx context.Context, name, by string) error {
	return p.change(ctx, by, state.ActionModelUnload, name, p.local.Unload)
}

func (p *predictors) change(ctx context.Context, by, action, name string, do func(string) error) error {
	if p.remotes.find(name, "") != nil {
		return fmt.Errorf("%w: model %q is computed by other servers, which load and unload it", inference.ErrInvalid, name)
	}
	if _, err := p.local.Find(name, ""); err != nil {
		return fmt.Errorf("%w: %w", router.ErrNoPredictor, err)
	}
	if err := p.s.audit.Add(ctx, by, action, name, nil); err != nil {
		return err
	}
	err := do(name)
	if err != nil {
		p.s.audit.Failed(ctx, by, action, name, nil, err)
	}
	return err
}

// changed logs and counts what happened to a version.
func (p *predictors) changed(c versions.Change) {
	if c.What == "move" {
		return // nothing was loaded
	}
	p.series.CountChange(c.What)
	fields := []zap.Field{zap.String("change", c.What), zap.String("model", c.Name), zap.String("version", c.Label)}
	if c.Why != nil {
		p.s.log.Error("a classical model was not loaded", append(fields, zap.Error(c.Why))...)
		return
	}
	p.s.log.Info("classical model", fields...)
}

// note logs what a user should know of a file that was loaded.
func (p *predictors) note(name, version, note string) {
	p.s.log.Warn("about a classical model", zap.String("model", name), zap.String("version", version), zap.String("note", note))
}

func (p *predictors) fault(f *classic.Fault) {
	p.s.metrics.CountPanic("predict")
	p.s.log.Error("a bug was caught in a classical model", zap.String("model", f.Model), zap.String("version", f.Version),
		zap.Any("panic", f.Value), zap.ByteString("stack", f.Stack))
}

// state is what a scrape shows of the lane.
func (p *predictors) state() telemetry.PredictLane {
	l := telemetry.PredictLane{Waiting: len(p.lane.Requests())}
	for _, m := range p.local.Index() {
		l.Bytes += m.Bytes
		if m.Loaded {
			l.Loaded++
		}
	}
	return l
}

// states is what the lane's requests do.
func (p *predictors) states() []admin.State {
	requests := p.lane.Requests()
	states := make([]admin.State, len(requests))
	for i, r := range requests {
		states[i] = admin.State{ID: r.ID, State: r.State, Queue: r.Queue, Decode: r.Compute, Model: r.Model, Version: r.Version}
	}
	return states
}

// names are those of the models.
func (p *predictors) names() []string {
	var list []string
	for _, m := range p.Index() {
		if n := len(list); n == 0 || list[n-1] != m.Name {
			list = append(list, m.Name)
		}
	}
	return list
}

// observed is a version whose requests are counted.
type observed struct {
	router.Predictor
	series *telemetry.Predictor
}

// Predict implements router.Predictor.
func (o *observed) Predict(ctx context.Context, p *router.Prediction) error {
	err := o.Predictor.Predict(ctx, p)
	if err != nil {
		o.series.CountRefused(refusedPrediction(err))
		return err
	}
	rows := 0
	if len(p.Inputs) > 0 {
		rows = int(p.Inputs[0].Rows())
	}
	o.series.ObserveScored(telemetry.Scored{
		Rows: rows, BatchRows: p.Batch, QueueSeconds: p.Waited.Seconds(), ComputeSeconds: p.Computed.Seconds(),
	})
	return nil
}

// refusedPrediction is the outcome and the reason of a request without an answer.
func refusedPrediction(err error) (outcome, reason string) {
	for _, why := range []struct {
		err             error
		outcome, reason string
	}{
		{inference.ErrCancelled, telemetry.AnswerAbandoned, ""},
		{inference.ErrInvalid, telemetry.AnswerRefused, "invalid"},
		{inference.ErrTenantQueueFull, telemetry.AnswerRefused, "tenant_queue_full"},
		{inference.ErrDeadline, telemetry.AnswerRefused, "deadline"},
		{inference.ErrDeadlineUnreachable, telemetry.AnswerRefused, "deadline_unreachable"},
		{inference.ErrQueueFull, telemetry.AnswerFailed, "queue_full"},
		{inference.ErrQueueTimeout, telemetry.AnswerFailed, "queue_timeout"},
		{inference.ErrShed, telemetry.AnswerFailed, "shed"},
		{inference.ErrUnavailable, telemetry.AnswerFailed, "unavailable"},
		{inference.ErrInternal, telemetry.AnswerFailed, "internal"},
	} {
		if errors.Is(err, why.err) {
			return why.outcome, why.reason
		}
	}
	return telemetry.AnswerFailed, "other"
}
