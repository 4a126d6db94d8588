package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"weir/api/moderation"
	"weir/api/openai/models"
	"weir/configs"
	"weir/engine/llm"
	"weir/internal/console"
	"weir/internal/inference"
	"weir/internal/server/local"
	"weir/router/versions"
	"weir/telemetry"
)

// languages are the language models and text encoders of a server, as api/openai knows
// them: one or many, each in one or several versions.
type languages struct {
	s        *Server
	versions *versions.Manager
	budget   int64 // of memory, in bytes
	sweep    context.CancelFunc
	ended    sync.WaitGroup

	count    func(change string) // into the metrics
	adapters *adapters

	changing   sync.Mutex            // held while the list of models changes
	config     configs.Config        // in force, of the list
	configured []*planned            // the configuration's
	deployed   map[string][]*planned // those of deployments, by name
	retained   []*planned            // that answer for deployments, and that the configuration has no more
	table      atomic.Pointer[map[string]*served]
}

// served is a name of the configuration: its aliases, and its versions by label.
type served struct {
	planned []*planned // in the file's order
	created int64
}

const (
	// loadWait is how long a request waits for its model to be loaded, unless its own deadline
	// is sooner.
	loadWait = 2 * time.Minute
	// failureHold is how long a failed load refuses requests before the next one tries again.
	failureHold = 10 * time.Second
	// sweepEvery is how often idle models are looked for.
	sweepEvery = time.Second
	// labelBytes is how much of a digest names a version.
	labelBytes = 12
)

func newLanguages(s *Server, budget int64) (*languages, error) {
	l := &languages{s: s, budget: budget, deployed: make(map[string][]*planned)}
	l.adapters = newAdapters(l)
	l.table.Store(&map[string]*served{})
	l.versions = versions.New(versions.Options{
		MaxBytes: budget, MaxWaiting: s.config.Scheduler.MaxWaiting, LoadWait: loadWait,
		CloseWait: max(s.config.Server.ShutdownTimeout, engineTimeout), OnChange: l.changed,
		FailureHold: failureHold, KeepLast: true, Decided: func(name string) bool { return s.deployments.decides(name) },
		Remedy: "raise --model-memory-bytes, lower kv_cache_memory_bytes, unload a model or let one be loaded lazily",
	})
	var err error
	l.count, err = telemetry.AddLanguageModels(s.metrics, l.taken)
	return l, err
}

// taken is what a scrape shows of memory.
func (l *languages) taken() telemetry.LanguageModels {
	t := telemetry.LanguageModels{LimitBytes: l.budget}
	for _, st := range l.versions.List() {
		if st.State == versions.Loaded || st.State == versions.Leaving {
			t.Loaded++
			t.Bytes += st.Bytes
		}
		if st.State == versions.Loaded && st.Kept && !st.Answers {
			t.Warm++
			t.WarmBytes += st.Bytes
		}
	}
	return t
}

// start looks for idle models until stop.
func (l *languages) start() {
	ctx, cancel := context.WithCancel(context.Background())
	l.sweep = cancel
	l.ended.Go(func() {
		tick := time.NewTicker(sweepEvery)
		defer tick.Stop()
		for {
			select {
			case now := <-tick.C:
				l.versions.Sweep(now)
			case <-ctx.Done():
				return
			}
		}
	})
}

// stop closes all models.
func (l *languages) stop() {
	if l.sweep != nil {
		l.sweep()
	}
	l.ended.Wait()
	l.versions.Close()
}

// load reads the models that a process starts with, unless a reload was first.
func (l *languages) load(ctx context.Context, plan []*planned) error {
	l.changing.Lock()
	defer l.changing.Unlock()
	if len(*l.table.Load()) > 0 {
		return nil
	}
	commit, _, err := l.versions.Prepare(ctx, l.specs(plan))
	if err != nil {
		return err
	}
	l.config, l.configured = l.s.config, plan
	return l.commit(plan, commit)
}

func (l *languages) specs(plan []*planned) []versions.Spec {
	specs := make([]versions.Spec, len(plan))
	for i, p := range plan {
		specs[i] = p.spec(l)
	}
	return specs
}

// prepare loads and checks what a new configuration has, beside what is served. One of
// commit and abandon is called, once.
func (l *languages) prepare(ctx context.Context, c configs.Config) (commit, abandon func(), err error) {
	plan, err := planModels(c, l.budget)
	if err != nil {
		return nil, nil, console.ConfigError(err)
	}
	l.changing.Lock()
	retained := l.retains(plan)
	all := l.with(slices.Concat(plan, retained))
	if err := l.adapters.clash(c); err != nil {
		l.changing.Unlock()
		return nil, nil, console.ConfigError(err)
	}
	ready, drop, err := l.versions.Prepare(ctx, l.specs(all))
	if err != nil {
		l.changing.Unlock()
		return nil, nil, console.ConfigError(err)
	}
	commit = func() {
		defer l.changing.Unlock()
		l.config, l.configured, l.retained = c, plan, retained
		if err := l.commit(all, ready); err != nil {
			l.s.log.Error("the models were not joined to metrics and API", zap.Error(err))
		}
	}
	return commit, func() { drop(); l.changing.Unlock() }, nil
}

// commit puts a list of models into force. The caller holds changing.
func (l *languages) commit(plan []*planned, ready func()) error {
	before := *l.table.Load()
	table := make(map[string]*served)
	for _, p := range plan {
		n := table[p.record.Name]
		if n == nil {
			n = &served{created: time.Now().Unix()}
			if old := before[p.record.Name]; old != nil {
				n.created = old.created
			}
			table[p.record.Name] = n
		}
		n.planned = append(n.planned, p)
	}
	ready()
	l.table.Store(&table)
	return l.publish()
}

// publish gives the edge and the metrics the names as they are now.
func (l *languages) publish() error {
	table := *l.table.Load()
	var entries []*models.Model
	for _, name := range slices.Sorted(maps.Keys(table)) {
		n := table[name]
		var aliases []string
		for _, p := range n.planned {
			for _, a := range p.record.Aliases {
				if a != name && !slices.Contains(aliases, a) {
					aliases = append(aliases, a)
				}
			}
		}
		info := l.current(name)
		entries = append(entries, &models.Model{ID: name, Aliases: aliases, Created: n.created, Version: info.Digest, Price: l.s.prices.of(name), Versions: l})
		if err := l.s.metrics.SetModel(modelInfo(name, info), func() telemetry.Snapshot { return l.snapshot(name) }); err != nil {
			return err
		}
	}
	list, gone := l.adapters.list(table)
	for _, name := range gone {
		l.s.metrics.Leave(name)
	}
	for _, e := range list {
		if err := l.s.metrics.AddRelayed(e.ID); err != nil {
			return err
		}
	}
	return l.s.fleets.publish(append(entries, list...))
}

// current is what is known of the version that answers for a name.
func (l *languages) current(name string) llm.Info {
	st, content, _ := l.versions.Answer(name)
	if r, ok := content.(*resident); ok {
		return r.Info()
	}
	n := (*l.table.Load())[name]
	if n == nil {
		return llm.Info{}
	}
	i := slices.IndexFunc(n.planned, func(p *planned) bool { return p.label == st.Label })
	return n.planned[max(i, 0)].info
}

// answering is the model in memory that answers for a name; nil: it is not there.
func (l *languages) answering(name string) *resident {
	_, content, _ := l.versions.Answer(name)
	r, _ := content.(*resident)
	return r
}

func (l *languages) snapshot(name string) telemetry.Snapshot {
	switch r := l.answering(name); {
	case r == nil:
		return telemetry.Snapshot{}
	case r.Encoder != nil:
		return encoderSnapshot(r.Encoder)
	case r.Llama != nil:
		return llamaCppSnapshot(r.Llama)
	default:
		return snapshot(r.Engine)
	}
}

// residents are the models in memory.
func (l *languages) residents() []*resident {
	var list []*resident
	for _, c := range l.versions.Loaded() {
		list = append(list, c.(*resident))
	}
	slices.SortFunc(list, func(a, b *resident) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.entry.Version, b.entry.Version))
	})
	return list
}

// engines are those in memory that generate text.
func (l *languages) engines() []*llm.Engine {
	var list []*llm.Engine
	for _, r := range l.residents() {
		if r.Engine != nil {
			list = append(list, r.Engine)
		}
	}
	return list
}

// open reads a version into memory, and checks it, unless ctx ends.
func (l *languages) open(ctx context.Context, p *planned) (*resident, error) {
	s, name := l.s, p.record.Name
	f, err := local.OpenRunnable(p.config)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	shown := console.NewProgress(s.errs, console.IsTerminal(s.errs), console.Printable(name))
	defer shown.End()
	progress := func(done, total int64) {
		shown.Update(done, total)
		s.edge.SetLoadProgress(models.LoadProgress{Model: name, DoneBytes: done, TotalBytes: total})
	}
	steps := new(timeline)
	progress(0, f.FileBytes()) // the tokenizer comes first, and large ones take a moment
	m, err := local.Load(p.config, f, local.Hooks{
		Progress: progress, Stopped: func() error { return context.Cause(ctx) },
		Options: func(o *llm.Options) {
			o.Pool, o.Service, o.PoolWeight = s.compute, &s.service, p.record.ComputeWeight
			s.engines.observe(name, steps, o)
		},
	})
	if err != nil {
		return nil, err
	}
	if info := m.Info(); info.Digest != p.info.Digest {
		return nil, errors.Join(fmt.Errorf("load %s: the file has changed since the configuration was read; reload the configuration", p.config.Model.Path), m.Close())
	}
	r := &resident{Model: m, log: s.log, steps: steps, maxSeqs: p.config.Scheduler.MaxSeqs, itlTarget: p.config.Scheduler.ITLTarget}
	r.entry = r.newEntry(p)
	if err := l.adapters.read(r, p.config); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	if err := r.check(ctx, p.record.Check); err != nil {
		return nil, errors.Join(fmt.Errorf("check %s: %w", cmp.Or(p.config.Model.Path, "the built-in model"), err), m.Close())
	}
	r.advise(p)
	return r, nil
}

// changed logs and counts what happened to a version, and lets edge and metrics follow a
// name that moved.
func (l *languages) changed(c versions.Change) {
	l.count(c.What)
	fields := []zap.Field{zap.String("change", c.What), zap.String("model", c.Name), zap.String("version", c.Label)}
	if c.Why != nil {
		l.s.log.Error("a model was not loaded or unloaded as it should", append(fields, zap.Error(c.Why))...)
		return
	}
	l.s.log.Info("model", fields...)
}

// Outline implements models.Versions.
func (l *languages) Outline(name string) models.Outline {
	st, _, _ := l.versions.Answer(name)
	info := l.current(name)
	o := models.Outline{
		Version: info.Digest, Label: st.Label, State: st.State, MaxModelLen: info.MaxModelLen, Dimensions: info.Dimensions, Decides: info.Decides,
		Load: inference.Load{Ready: true}, // the next request loads what is not in memory
	}
	if info.Ranks() {
		o.Scores = info.Scores
	} else {
		o.Classes = info.Scores
	}
	o.Policy = l.policy(name, st.Label)
	switch r := l.answering(name); {
	case r == nil:
	case r.Encoder != nil:
		o.Load = r.Encoder.Load()
	default:
		o.Load = r.Generator().Load()
	}
	return o
}

// policy is that of a version of a name, as the configuration has it now.
func (l *languages) policy(name, label string) *moderation.Policy {
	n := (*l.table.Load())[name]
	if n == nil {
		return nil
	}
	for _, p := range n.planned {
		if p.label == label {
			return p.policy
		}
	}
	return nil
}

// Acquire implements models.Versions.
func (l *languages) Acquire(a *models.VersionRequest) (models.VersionLease, error) {
	return l.acquire(a, nil)
}

// acquire is Acquire for a request that only some versions can answer; nil: all can.
func (l *languages) acquire(a *models.VersionRequest, can func(label string) bool) (models.VersionLease, error) {
	label := a.Version
	d, rolling := l.s.rollouts.Choose(a, can)
	if rolling {
		label = d.Version
	}
	lease, err := l.versions.Acquire(a.Model, label)
	if err != nil && rolling { // a reload or an operator has taken the version away
		l.s.rollouts.Lost(a.Model, err)
		rolling = false
		lease, err = l.versions.Acquire(a.Model, "")
	}
	if err != nil {
		if errors.Is(err, versions.ErrUnknown) {
			err = fmt.Errorf("%w: %w", models.ErrNoVersion, err)
		}
		return models.VersionLease{}, err
	}
	held := models.VersionLease{Release: lease.Release, Label: lease.Version.Spec().Label}
	held.Policy, held.Price = l.policy(a.Model, held.Label), l.s.prices.ofVersion(a.Model, held.Label)
	if rolling {
		l.s.rollouts.Mark(&held, a, d)
	}
	if r, ok := lease.Content.(*resident); ok {
		held.Model = r.entry
		return held, nil
	}
	held.Load = func(ctx context.Context) (*models.Model, error) {
		if err := lease.Load(ctx); err != nil {
			return nil, err
		}
		return lease.Content.(*resident).entry, nil
	}
	return held, nil
}
