package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"weir/api/moderation"
	"weir/api/openai/models"
	"weir/configs"
	"weir/internal/console"
	"weir/internal/server/local"
	"weir/router/fleet"
	"weir/telemetry"
	"weir/tokenizer"
)

// fleets are the models of a server that other servers compute.
type fleets struct {
	s     *Server
	begin func(func(context.Context)) context.CancelFunc
	end   context.CancelFunc // of all that watch replicas

	mu     sync.Mutex
	list   []*routed       // in the file's order
	locals []*models.Model // those that are computed here, as they were published last
	open   bool            // there were some
	starts bool            // the process starts: deployments and rollouts are to give names to their versions before requests see any
	moved  map[string]move // names that a rollout or an operator has given to another version

	table atomic.Pointer[map[string]*routedName] // as published last
}

// routed is a version of a model, and its fleet.
type routed struct {
	record  configs.ServedModel
	label   string // of the version
	fleet   *fleet.Fleet
	stop    context.CancelFunc
	created int64
	reads   *promptReader      // nil: the model's tokenizer is not known here
	policy  *moderation.Policy // nil: it has none
}

func newFleets(s *Server) *fleets {
	f := &fleets{s: s, moved: make(map[string]move), starts: true}
	f.table.Store(&map[string]*routedName{})
	f.begin, f.end = background()
	return f
}

// prepare makes the fleets of a configuration; those that are there stay, with other replicas
// where these have changed. commit cannot fail.
func (f *fleets) prepare(c configs.Config) (commit func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var next []*routed
	var errs []error
	var changes []func() error
	for _, m := range c.RoutedModels() {
		policy, err := c.SafetyOf(m, digestKey())
		errs = append(errs, err)
		i := slices.IndexFunc(f.list, func(r *routed) bool {
			return r.record.Name == m.Name && r.record.Version == m.Version && r.record.Policy == m.Policy && r.record.Routing == m.Routing && r.record.Tokenizer == m.Tokenizer
		})
		if i >= 0 {
			old := f.list[i]
			reads, err := newPromptReader(c, m)
			errs = append(errs, err)
			next = append(next, &routed{record: m, fleet: old.fleet, stop: old.stop, created: old.created, reads: reads, policy: policy})
			changes = append(changes, func() error { return old.fleet.Reconfigure(m.Replicas) })
			continue
		}
		made, err := f.make(c, m)
		errs = append(errs, err)
		if made != nil {
			made.policy = policy
		}
		next = append(next, made)
	}
	label(next)
	for _, m := range c.RoutedModels() {
		errs = append(errs, f.s.metrics.AddRelayed(m.Name))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, console.ConfigError(err)
	}
	return func() { f.commit(next, changes) }, nil
}

func (f *fleets) make(c configs.Config, m configs.ServedModel) (*routed, error) {
	of, err := c.FleetOf(m)
	if err != nil {
		return nil, err
	}
	reads, err := newPromptReader(c, m)
	if err != nil {
		return nil, err
	}
	of.Bodies, of.Discover = f.s.bodies, discovery(f.s.deployments)
	of.Balance.Seed = uint64(time.Now().UnixNano()) //nolint:gosec // a seed
	of.Changed = func(c fleet.Change) { f.changed(m, c) }
	made, err := fleet.New(of)
	return &routed{record: m, fleet: made, created: time.Now().Unix(), reads: reads}, err
}

// promptReader is what turns the prompts of a model that is computed elsewhere into tokens.
type promptReader struct {
	tokenizer *tokenizer.Tokenizer
	template  local.Template
}

// newPromptReader reads the tokenizer and the chat template of a record's GGUF file; nil where the record names none.
func newPromptReader(c configs.Config, m configs.ServedModel) (*promptReader, error) {
	if m.Tokenizer == "" {
		return nil, nil //nolint:nilnil // there is none, and that is no error
	}
	path := m.Tokenizer
	if path == configs.BuiltinPath {
		path = ""
	}
	wrong := func(err error) error { return fmt.Errorf("the tokenizer of the model %q: %w", m.Name, err) }
	f, err := local.Open(path)
	if err != nil {
		return nil, wrong(err)
	}
	defer f.Close()
	r := &promptReader{}
	if r.tokenizer, err = tokenizer.New(f.Value); err != nil {
		return nil, wrong(err)
	}
	if r.template, err = local.ChooseTemplate(c.ForModel(m).Model, f, r.tokenizer); err != nil {
		return nil, wrong(err)
	}
	return r, nil
}

func (f *fleets) commit(next []*routed, changes []func() error) {
	f.mu.Lock()
	for _, change := range changes {
		if err := change(); err != nil { // the sources were checked with the file
			f.s.log.Error("replicas were not changed", zap.Error(err))
		}
	}
	for _, r := range next {
		if r.stop == nil {
			r.stop = f.begin(r.fleet.Run)
		}
	}
	for _, old := range f.list {
		if !slices.ContainsFunc(next, func(r *routed) bool { return r.fleet == old.fleet }) {
			old.stop()
			old.fleet.Close()
		}
	}
	open := (f.open || f.starts) && len(f.list)+len(next) > 0 // at the start names are moved before requests see them
	f.list = next
	locals := f.locals
	f.mu.Unlock()
	if open {
		if err := f.publish(locals); err != nil {
			f.s.log.Error("the list of models was not changed", zap.Error(err))
		}
	}
}

// publish gives the edge the models that are computed here, and those of the fleets.
func (f *fleets) publish(locals []*models.Model) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.locals, f.open = locals, true
	table := f.names()
	all := make([]*models.Model, 0, len(locals)+len(table))
	for _, m := range locals {
		priced := *m // a reload may have brought other prices
		if priced.Price = f.s.prices.of(m.ID); m.Adapter != nil {
			priced.Price = f.s.languages.adapters.price(m.ID, m.Adapter.Parent)
		}
		all = append(all, &priced)
	}
	for _, name := range f.order() {
		all = append(all, table[name].model(f))
	}
	f.table.Store(&table)
	if f.starts {
		return nil
	}
	return f.s.edge.SetModels(all...)
}

// started gives requests the models: deployments and rollouts have given names to the versions that answered before the process.
func (f *fleets) started() error {
	f.mu.Lock()
	f.starts = false
	locals := f.locals
	f.mu.Unlock()
	return f.publish(locals)
}

// changed logs what happened to a replica.
func (f *fleets) changed(m configs.ServedModel, c fleet.Change) {
	level := zap.InfoLevel
	if c.Why != "" && c.What != string(fleet.Draining) {
		level = zap.WarnLevel
	}
	f.s.log.Log(level, "replica", zap.String("model", m.Name), zap.String("version", m.Version), zap.String("replica", c.Replica), zap.String("change", c.What), zap.String("why", c.Why))
}

// close stops watching. Requests have ended by then.
func (f *fleets) close() {
	f.end()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.list {
		r.fleet.Close()
	}
}

// lines say for people where each model is computed.
func (f *fleets) lines() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	lines := make([]string, len(f.list))
	for i, r := range f.list {
		lines[i] = fmt.Sprintf("%s: %s by %s", console.Printable(f.shown(r)), countOf(len(r.fleet.Status()), "replica"), r.record.Policy)
	}
	return lines
}

func countOf(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// series are what a scrape shows of the fleets.
func (f *fleets) series() []telemetry.Route {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]telemetry.Route, len(f.list))
	for i, r := range f.list {
		c := r.fleet.Counts()
		list[i] = telemetry.Route{Model: f.shown(r), Picks: c.Picks, Retries: c.Retries, Spills: c.Spills, Resumed: c.Resumed, None: c.None, Displaced: c.Displaced, Prefills: c.Prefills}
		for _, s := range r.fleet.Status() {
			list[i].Replicas = append(list[i].Replicas, telemetry.RouteReplica{
				Replica: s.ID, Ready: s.State == fleet.Ready, Breaker: breakerStates[s.Breaker], InFlight: s.Running,
				Requests: s.Requests, Faults: s.Faults, Untold: s.Untold, PrefillSeconds: s.PrefillSeconds,
			})
		}
	}
	return list
}

var breakerStates = map[string]float64{
	"closed": telemetry.BreakerClosed, "half-open": telemetry.BreakerHalfOpen, "open": telemetry.BreakerOpen,
}

// replicasView is a model and its replicas, as the admin listener shows them.
type replicasView struct {
	Model    string        `json:"model"`
	Version  string        `json:"version,omitempty"`
	Answers  bool          `json:"answers"` // requests that name no version
	Policy   string        `json:"policy"`
	Replicas []replicaView `json:"replicas"`
}

type replicaView struct {
	Replica      string              `json:"replica"`
	Kind         fleet.Kind          `json:"kind"`
	Role         fleet.Role          `json:"role"`
	Zone         string              `json:"zone,omitempty"`
	Region       string              `json:"region,omitempty"`
	Model        string              `json:"model"`
	State        string              `json:"state"`
	Why          string              `json:"why,omitempty"`
	Since        time.Time           `json:"since"`
	Breaker      string              `json:"breaker"`
	InFlight     int                 `json:"in_flight"`
	Load         int                 `json:"load"` // requests, with what it reports
	Report       string              `json:"report,omitempty"`
	Reported     *time.Time          `json:"reported,omitempty"`
	Requests     int64               `json:"requests"`
	Faults       map[string]int64    `json:"faults"`                              // by kind, as in weir_route_errors_total
	Prefill      float64             `json:"prefill_seconds_per_token,omitempty"` // expected, with pools
	Overruns     int                 `json:"prefill_timeouts,omitempty"`          // in a row
	RestsSeconds float64             `json:"rests_seconds,omitempty"`             // for so long it has asked for no requests
	Keys         int                 `json:"index_keys"`
	Events       *fleet.EventsStatus `json:"kv_events,omitempty"`
}

// views answer GET /admin/replicas.
func (f *fleets) views() any {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]replicasView, len(f.list))
	for i, r := range f.list {
		v := replicasView{Model: r.record.Name, Version: r.label, Answers: (*f.table.Load())[r.record.Name].answersBy(r), Policy: r.record.Policy, Replicas: []replicaView{}}
		for _, s := range r.fleet.Status() {
			one := replicaView{
				Replica: s.ID, Kind: s.Kind, Role: s.Role, Zone: s.Zone, Region: s.Region, Model: s.Model, State: string(s.State), Why: s.Why, Since: s.Since, Breaker: s.Breaker,
				InFlight: s.Running, Load: s.Balance.Load, Requests: s.Requests, Faults: s.Faults, Prefill: s.PrefillSeconds, Overruns: s.Balance.Overruns, RestsSeconds: s.Rests.Seconds(), Keys: s.Balance.Keys, Events: s.Events,
			}
			if !s.SaidAt.IsZero() {
				one.Report, one.Reported = s.Said.String(), &s.SaidAt
			}
			v.Replicas = append(v.Replicas, one)
		}
		list[i] = v
	}
	return map[string]any{"models": list}
}

// discovery finds the servers of the store that compute a model, except this one and those that are about to end; nil without a store.
func discovery(d *deployments) func(ctx context.Context, model string) ([]fleet.Found, error) {
	if d == nil {
		return nil
	}
	return func(ctx context.Context, model string) ([]fleet.Found, error) {
		servers, err := d.kept.Servers(ctx)
		if err != nil {
			return nil, err
		}
		var list []fleet.Found
		for i := range servers {
			of := &servers[i]
			if !of.Own && !of.Draining && slices.Contains(of.Models, model) {
				list = append(list, fleet.Found{URL: of.URL, AdminURL: of.AdminURL, Region: of.Region, Labels: of.Labels})
			}
		}
		return list, nil
	}
}
