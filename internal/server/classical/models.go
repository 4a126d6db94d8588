// Package classical has the classical models that a server computes: their files, their versions by name, which of these are in
// memory, and the lane that computes their requests. Names and memory are those of [versions.Manager].
package classical

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"weir/engine/classic"
	"weir/internal/inference"
	"weir/router/versions"
)

// Source is a version of a model in the configuration.
type Source struct {
	classic.Source
	Pinned    bool // it is never evicted
	Candidate bool // requests that name no version do not get it, unless there is no other
}

func (s *Source) id() id { return id{s.Name, cmp.Or(s.Version, "1")} }

// id names a version.
type id struct{ name, label string }

// Options say what models may use.
type Options struct {
	Lane *classic.Lane
	// MaxBytes is the memory for loaded versions. Beyond it the one that was used least recently is evicted; the next request
	// for it loads it again. 0 is no limit.
	MaxBytes   int64
	MaxWaiting int                              // requests that may wait for one version to load
	LoadWait   time.Duration                    // the most that a request waits for that
	CloseWait  time.Duration                    // what closing a version may take, once no request holds it
	Decided    func(name string) bool           // as versions.Options has it
	OnChange   func(versions.Change)            // is called as versions.Options says
	OnNote     func(name, version, note string) // is called with what a user should know of a file that was loaded
}

// Models holds versions by name. It is safe for concurrent use.
type Models struct {
	opts     Options
	versions *versions.Manager
	made     atomic.Int64 // versions, so that each has a key of its own
	table    atomic.Pointer[map[id]*Version]
}

// New returns models without versions.
func New(o Options) *Models {
	m := &Models{opts: o, versions: versions.New(versions.Options{
		MaxBytes: o.MaxBytes, MaxWaiting: o.MaxWaiting, LoadWait: o.LoadWait, CloseWait: o.CloseWait, OnChange: o.OnChange,
		Decided: o.Decided, EvictBusy: true, SkipUnloaded: true, Remedy: "raise --classic-memory-bytes or pin fewer models",
	})}
	m.table.Store(&map[id]*Version{})
	return m
}

// Close closes all versions.
func (m *Models) Close() { m.versions.Close() }

// Prepare loads what a new configuration has and the old one had not. commit puts the new one into force: versions that it lacks
// are not found any more, and finish the requests that they have; those that answer where others decide (Options.Decided) go on. abandon frees what
// Prepare has loaded; one of the two is called, once.
func (m *Models) Prepare(ctx context.Context, sources []Source) (commit, abandon func(), err error) {
	table := make(map[id]*Version, len(sources))
	before := *m.table.Load()
	var errs []error
	for i := range sources {
		s := &sources[i]
		if _, twice := table[s.id()]; twice {
			errs = append(errs, fmt.Errorf("model %q version %s is listed twice", s.Name, s.id().label))
			continue
		}
		v := before[s.id()]
		if v == nil || v.retained || !reflect.DeepEqual(v.source, *s) {
			v = &Version{models: m, source: *s, key: strconv.FormatInt(m.made.Add(1), 10)}
		}
		table[s.id()] = v
	}
	if err := errors.Join(errs...); err != nil {
		return nil, nil, err
	}
	m.retain(table, before)
	ready, abandon, err := m.versions.Prepare(ctx, specs(table))
	if err != nil {
		return nil, nil, fromFiles(table, err)
	}
	return func() {
		ready()
		m.table.Store(&table)
	}, abandon, nil
}

// retain adds versions that go on although the configuration has them no more.
func (m *Models) retain(table, before map[id]*Version) {
	for k, v := range before {
		if table[k] != nil || m.opts.Decided == nil || !m.opts.Decided(k.name) {
			continue
		}
		if st, _, ok := m.versions.Answer(k.name); !ok || st.Label != k.label {
			continue
		}
		kept := v
		if !v.retained {
			kept = &Version{models: m, source: v.source, key: v.key, retained: true}
			kept.about.Store(v.about.Load())
		}
		table[k] = kept
	}
}

// IsRetained reports whether a version goes on that the configuration has no more.
func (m *Models) IsRetained(name, version string) bool {
	v := (*m.table.Load())[id{name, version}]
	return v != nil && v.retained
}

// specs lists the versions of each name, the newest first: it answers, unless it is a candidate.
func specs(table map[id]*Version) []versions.Spec {
	list := slices.SortedFunc(maps.Keys(table), func(a, b id) int { return cmp.Or(cmp.Compare(a.name, b.name), byAge(b.label, a.label)) })
	all := make([]versions.Spec, len(list))
	for i, k := range list {
		all[i] = table[k].spec()
	}
	return all
}

// fromFiles says which files are wrong.
func fromFiles(table map[id]*Version, err error) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return err
	}
	var errs []error
	for _, err := range joined.Unwrap() {
		if failed, ok := errors.AsType[*versions.LoadError](err); ok {
			v := table[id{failed.Name, failed.Label}]
			err = fmt.Errorf("load model %q from %s: %w", failed.Name, cmp.Or(v.source.Path, "memory"), failed.Err)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// byAge compares versions, the older one first: as numbers where both are, else as texts.
func byAge(a, b string) int {
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	if errX == nil && errY == nil {
		return cmp.Compare(x, y)
	}
	return cmp.Compare(a, b)
}

// Find is a version of a model, of version "" the one that requests get which name none: the newest that is no candidate and was
// not unloaded. The error is versions.ErrUnknown.
func (m *Models) Find(name, version string) (*Version, error) {
	st, _, err := m.versions.Find(name, version)
	if err != nil {
		return nil, err
	}
	return st.Of.(*Version), nil
}

// Acquire is Find for a request: the version stays until the lease is released, whatever a new configuration says meanwhile. The error
// is also inference.ErrUnavailable, of a version that an operator has unloaded.
func (m *Models) Acquire(name, version string) (*Version, *versions.Lease, error) {
	lease, err := m.versions.Acquire(name, version)
	if err != nil {
		return nil, nil, err
	}
	return lease.Version.Spec().Of.(*Version), lease, nil
}

// Move lets a version answer for its name.
func (m *Models) Move(ctx context.Context, name, version string) error {
	_, err := m.versions.Move(ctx, name, version)
	return err
}

// Rollback lets the version answer for a name that did before the last move.
func (m *Models) Rollback(ctx context.Context, name string) error {
	_, _, err := m.versions.Rollback(ctx, name)
	return err
}

// LoadOrUnload brings one version into memory, or takes it out; of version "" that which answers.
func (m *Models) LoadOrUnload(ctx context.Context, name, version string, load bool) error {
	if load {
		return m.versions.Load(ctx, name, version)
	}
	return m.versions.Unload(name, version)
}

// Stop takes one version out of memory until the next request; of version "" that which answers.
func (m *Models) Stop(name, version string) error { return m.versions.Stop(name, version) }

// Keep holds a version in memory for a rollout until release.
func (m *Models) Keep(ctx context.Context, name, version string) (release func(), err error) {
	return m.versions.Keep(ctx, name, version)
}

// Choice is the version that the configuration has for a name; false: there is no such name.
func (m *Models) Choice(name string) (version string, ok bool) { return m.versions.Choice(name) }

// State is a version as an index shows it.
type State struct {
	Name, Version string
	Ready         bool // requests are served, be it after it was loaded again
	Loaded        bool // it is in memory
	Bytes         int64
	Why           string // it is not ready
}

// Index lists the versions by name and version.
func (m *Models) Index() []State {
	var list []State
	for k := range *m.table.Load() {
		st, _, err := m.versions.Find(k.name, k.label)
		if err != nil {
			continue // a reload is taking it away
		}
		of := State{Name: k.name, Version: k.label, Loaded: st.State == versions.Loaded, Why: st.Why}
		if of.Loaded {
			of.Bytes = st.Bytes
		}
		if st.Off {
			of.Why = versions.Unloaded
		}
		of.Ready = of.Why == ""
		list = append(list, of)
	}
	slices.SortFunc(list, func(a, b State) int { return cmp.Or(cmp.Compare(a.Name, b.Name), byAge(a.Version, b.Version)) })
	return list
}

// Load reads all versions of a model again and publishes each that is fine, beside requests of the old one, which finish.
func (m *Models) Load(ctx context.Context, name string) error {
	return m.each(name, func(label string) error { return m.versions.Reload(ctx, name, label) })
}

// Unload takes all versions of a model out of memory, until Load. Requests that they have are finished, new ones are refused.
func (m *Models) Unload(name string) error {
	return m.each(name, func(label string) error { return m.versions.Unload(name, label) })
}

func (m *Models) each(name string, do func(label string) error) error {
	var errs []error
	found := false
	for k := range *m.table.Load() {
		if k.name == name {
			found = true
			if err := do(k.label); !errors.Is(err, versions.ErrUnknown) { // else a reload has taken the version away meanwhile
				errs = append(errs, err)
			}
		}
	}
	if !found {
		return fmt.Errorf("%w: %q", versions.ErrUnknown, name)
	}
	return errors.Join(errs...)
}

// Version is a version under its name, in memory or not. Its Predict loads what is not in memory, unless an operator has
// unloaded it.
type Version struct {
	models *Models
	source Source
	key    string
	about  atomic.Pointer[inference.Description]

	retained bool // the configuration has it no more
}

func (v *Version) spec() versions.Spec {
	k := v.source.id()
	return versions.Spec{
		Name: k.name, Label: k.label, Key: v.key, When: versions.Eager, Pinned: v.source.Pinned, Candidate: v.source.Candidate || v.retained, Of: v,
		Open: func(ctx context.Context) (versions.Content, error) { return v.open(ctx) },
	}
}

// open reads the version's files.
func (v *Version) open(ctx context.Context) (versions.Content, error) {
	loaded, err := v.source.Open(ctx)
	if err != nil {
		return nil, err
	}
	v.about.Store(loaded.Describe())
	if v.models.opts.OnNote != nil {
		for _, note := range loaded.Notes() {
			v.models.opts.OnNote(v.source.Name, v.Label(), note)
		}
	}
	return content{loaded}, nil
}

// content is a version in memory.
type content struct{ *classic.Version }

// Close implements versions.Content.
func (c content) Close(context.Context) error {
	c.Version.Close()
	return nil
}

// Label is the version's name among those of its model.
func (v *Version) Label() string { return v.source.id().label }

// Describe says what the version takes and gives, as it was when last loaded.
func (v *Version) Describe() *inference.Description { return v.about.Load() }

// Ready says why requests are refused: the version was unloaded. nil is ready.
func (v *Version) Ready() error {
	st, _, err := v.models.versions.Find(v.source.Name, v.Label())
	if err == nil && st.Off {
		return fmt.Errorf("%w: model %q version %s was unloaded", inference.ErrUnavailable, v.source.Name, v.Label())
	}
	return nil
}

// Loaded is the version in memory; nil is none.
func (v *Version) Loaded() *classic.Version {
	_, c, _ := v.models.versions.Find(v.source.Name, v.Label())
	loaded, _ := c.(content)
	return loaded.Version
}

// Predict computes a request with the lease of the version that it holds, or refuses it with one of inference's sentinels.
func (v *Version) Predict(ctx context.Context, p *inference.Prediction) error {
	lease, ok := p.Hold.(*versions.Lease)
	if !ok {
		return fmt.Errorf("%w: the request has not acquired model %q version %s", inference.ErrInternal, v.source.Name, v.Label())
	}
	if lease.Content == nil {
		if err := lease.Load(ctx); err != nil {
			return err
		}
	}
	return v.models.opts.Lane.Predict(ctx, lease.Content.(content).Version, p)
}
