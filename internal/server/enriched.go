package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"weir/configs"
	"weir/internal/inference"
	"weir/internal/server/rollouts"
	"weir/router"
	"weir/telemetry"
	"weir/telemetry/monitor/drift"
	"weir/telemetry/monitor/feature"
	"weir/telemetry/monitor/feature/online"
	"weir/telemetry/monitor/predictions"
)

// enrichmentOf reads a configuration.
func enrichmentOf(c configs.Config, r *rollouts.Rollouts, reaches func(model, version string, regions []string) bool) enrichment {
	p := c.Predict
	e := enrichment{
		rollouts:     r,
		reaches:      reaches,
		featureRedis: p.FeatureRedis,
		rules:        drift.Rules{Window: p.Drift.Window, MinRows: int64(p.Drift.MinRows), PSI: p.Drift.PSI},
		log: predictions.Config{
			Folder: p.Log.Folder, MaxBytes: p.Log.MaxBytes, MaxAge: p.Log.MaxAge, Keep: p.Log.Keep, KeepBytes: p.Log.KeepBytes,
		},
		inputs: map[string]predictions.Privacy{"hash": predictions.Hashed, "summary": predictions.Summary, "full": predictions.Plain}[p.Log.Inputs],
	}
	e.manifests, e.profiles = enrichmentFiles(c)
	return e
}

func enrichmentFiles(c configs.Config) (manifests, profiles map[modelVersion]string) {
	manifests, profiles = map[modelVersion]string{}, map[modelVersion]string{}
	for _, m := range c.ClassicModels() {
		k := modelVersion{m.Name, m.Version}
		if m.Manifest != "" {
			manifests[k] = m.Manifest
		}
		if m.Profile != "" {
			profiles[k] = m.Profile
		}
	}
	return manifests, profiles
}

// enrichment is what classical models have beside their files: features from elsewhere,
// a watch over drift, a log of predictions.
type enrichment struct {
	rollouts     *rollouts.Rollouts
	reaches      func(model, version string, regions []string) bool // whether a residency lets a request go to a version
	featureRedis string                                             // URL of the online store; "": none
	manifests    map[modelVersion]string                            // files
	profiles     map[modelVersion]string                            // files
	rules        drift.Rules
	log          predictions.Config  // of every model; no Folder: none is kept
	inputs       predictions.Privacy // of what requests bring, in the log
}

// modelVersion names a version of a classical model.
type modelVersion struct{ name, version string }

// enriched are models with what enrichment says of them. They keep their drift and their
// log while the model is evicted and loaded again.
type enriched struct {
	router.Predictors
	config   enrichment
	logger   *zap.Logger
	redis    *online.Store // nil: none
	online   *feature.Online
	over     chan struct{}
	tickDone chan struct{}

	mu    sync.Mutex
	table map[modelVersion]*enrichedModel
}

// newEnriched wraps models; close ends it.
func newEnriched(inner router.Predictors, e enrichment, m *telemetry.Metrics, logger *zap.Logger) (*enriched, error) {
	w := &enriched{
		Predictors: inner, config: e, logger: logger, table: map[modelVersion]*enrichedModel{},
		over: make(chan struct{}), tickDone: make(chan struct{}),
	}
	took, err := telemetry.AddFeatures(m, w.metrics)
	if err != nil {
		return nil, err
	}
	if e.featureRedis != "" {
		if w.redis, err = online.Open(e.featureRedis); err != nil {
			return nil, err
		}
		w.online = feature.NewOnline(w.redis, feature.OnlineOptions{Took: took, Changed: func(state string) {
			logger.Warn("the online feature store answers or does not: its breaker changed", zap.String("breaker", state))
		}})
	}
	go w.tick()
	return w, nil
}

// configured says which files belong to which version from now on. They are read when the
// version is asked for next.
func (w *enriched) configured(manifests, profiles map[modelVersion]string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.config.manifests, w.config.profiles = manifests, profiles
	for _, o := range w.table {
		o.stale = true
	}
}

// check looks at all versions that have a file, for those that do not fit.
func (w *enriched) check() error {
	var errs []error
	for _, files := range []map[modelVersion]string{w.config.manifests, w.config.profiles} {
		for k := range files {
			if _, err := w.Find(k.name, k.version); err != nil {
				errs = append(errs, fmt.Errorf("model %q version %s: %w", k.name, k.version, err))
			}
		}
	}
	return errors.Join(errs...)
}

// Find implements router.Predictors. A model that does not fit its manifest is not
// served.
func (w *enriched) Find(name, version string) (router.Predictor, error) {
	p, err := w.Predictors.Find(name, version)
	if err != nil {
		return nil, err
	}
	return w.wrap(p)
}

// Acquire implements router.Predictors, as Find does.
func (w *enriched) Acquire(name, version string) (router.Predictor, router.Hold, error) {
	p, hold, err := w.Predictors.Acquire(name, version)
	if err != nil {
		return nil, nil, err
	}
	if p, err = w.wrap(p); err != nil && hold != nil {
		hold.Release()
	}
	return p, hold, err
}

// wrap is a version with what enrichment says of it.
func (w *enriched) wrap(p router.Predictor) (router.Predictor, error) {
	about := p.Describe()
	if about == nil { // not in memory, and not known yet
		return p, nil
	}
	k := modelVersion{about.Name, about.Version}
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.table[k]
	if o != nil && !o.stale && o.inner.is(p) && o.about == about {
		return o.outer, nil
	}
	o, err := w.observe(k, p, about, o)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", inference.ErrUnavailable, err)
	}
	w.table[k] = o
	return o.outer, nil
}

// Choose implements router.Chooser.
func (w *enriched) Choose(model string, by router.StickyKey) (version string, arm router.Arm) {
	return w.config.rollouts.ChooseClassic(model, by, func(version string) bool { return w.config.reaches(model, version, by.Residency) })
}

// Spare implements router.Chooser.
func (w *enriched) Spare(model string, arm router.Arm) (version string, may bool) {
	return w.config.rollouts.SpareClassic(model, arm)
}

// Lost implements router.Chooser.
func (w *enriched) Lost(model string, why error) { w.config.rollouts.Lost(model, why) }

// close writes what the logs hold and ends the connections.
func (w *enriched) close(ctx context.Context) error {
	close(w.over)
	<-w.tickDone
	w.mu.Lock()
	defer w.mu.Unlock()
	var errs []error
	for _, o := range w.table {
		if o.log != nil {
			errs = append(errs, o.log.Close(ctx))
		}
	}
	if w.redis != nil {
		errs = append(errs, w.redis.Close())
	}
	return errors.Join(errs...)
}

// tick ends the windows of drift whose time is over.
func (w *enriched) tick() {
	defer close(w.tickDone)
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-w.over:
			return
		case now := <-t.C:
			for _, o := range w.all() {
				if o.monitor != nil && o.monitor.Tick(now) {
					w.say(o)
				}
			}
		}
	}
}

// say logs which columns began to drift and which ended.
func (w *enriched) say(o *enrichedModel) {
	r := o.monitor.Report()
	var drifting []string
	for _, c := range r.Columns {
		if c.State == "drifting" {
			drifting = append(drifting, c.Name)
		}
	}
	if len(drifting) > 0 { // also where it has drifted before: a rollout may have begun since
		w.config.rollouts.Drift(o.key.name, o.key.version, drifting)
	}
	if slices.Equal(drifting, o.drifting) {
		return
	}
	o.drifting = drifting
	w.logger.Warn("drift of features or scores changed", zap.String("model", o.key.name), zap.String("version", o.key.version),
		zap.Int("columns", len(r.Columns)), zap.Strings("drifting", drifting[:min(len(drifting), 20)]))
}

// all are the models that were asked for, in the order of their names.
func (w *enriched) all() []*enrichedModel {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := make([]*enrichedModel, 0, len(w.table))
	for _, o := range w.table {
		list = append(list, o)
	}
	slices.SortFunc(list, func(a, b *enrichedModel) int {
		return strings.Compare(a.key.name+"\x00"+a.key.version, b.key.name+"\x00"+b.key.version)
	})
	return list
}

// reports are for the page of drift.
func (w *enriched) reports() []drift.Report {
	var list []drift.Report
	for _, o := range w.all() {
		if o.monitor != nil {
			r := o.monitor.Report()
			r.Model, r.Version = o.key.name, o.key.version
			list = append(list, r)
		}
	}
	return list
}

// metrics are for a scrape.
func (w *enriched) metrics() telemetry.Features {
	var all telemetry.Features
	if w.online != nil {
		s := w.online.Stats()
		all.Stores = append(all.Stores, telemetry.FeatureStore{
			Breaker: s.State, Reads: s.Reads, Failures: s.Failures, Timeouts: s.Timeouts, Refused: s.Refused,
		})
	}
	for _, o := range w.all() {
		all.Models = append(all.Models, o.metrics())
	}
	return all
}
