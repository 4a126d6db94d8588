// Package shelf keeps versions of models in memory: which are loaded, wait to be, or
// leave. Requests find a version by the name of its model and hold it while they run. A
// name moves from one version to another in one step; the version that answered before
// stays in memory until the next move, so that a rollback reads no file. Versions that are
// loaded on demand make room for each other, those that were used least recently first;
// the memory of all is checked before a file is read.
package shelf

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/internal/inference"
)

// When says when a version is loaded.
type When uint8

// The times of loading.
const (
	Startup When = iota // as soon as it is on the shelf
	Lazy                // at the first request
	Never               // only when an operator or a rollout wants it
)

// Content is a loaded version. Close frees it; the shelf calls it once no request holds it.
type Content interface {
	Close(ctx context.Context) error
}

// Spec describes a version before it is loaded.
type Spec struct {
	Name       string // of the model
	Label      string // tells versions of one name apart
	Digest     string // of what it is made of
	Key        string // versions with equal keys are the same, settings included
	Bytes      int64  // of memory once it is loaded
	When       When
	IdleUnload time.Duration // without a request, after which it leaves memory; 0: it stays
	Pinned     bool          // it is never evicted

	// Open reads the version. It is called from a goroutine of the shelf's.
	Open func(ctx context.Context) (Content, error)
}

// Options say what a shelf may use.
type Options struct {
	MaxBytes   int64         // of all versions; 0 is no limit
	MaxWaiting int           // requests that may wait for one version to load
	LoadWait   time.Duration // the most that a request waits for that
	CloseWait  time.Duration // what closing a version may take, once no request holds it
	// OnChange, if set, is called after a version was loaded or left memory, or a name was
	// moved. It must be quick and must not call the shelf.
	OnChange func(Change)
}

// Change is what happened to a version.
type Change struct {
	Name, Label string
	What        string // "load", "unload", "evict", "idle", "fail", "move"
	Why         error  // of a failed load, or a failed Close
}

// failureHold is how long a failed load refuses requests before the next one tries again.
const failureHold = 10 * time.Second

// ErrUnknown says that the shelf has no model of a name, or no such version of it.
var ErrUnknown = errors.New("no such model or version")

// Shelf is safe for concurrent use.
type Shelf struct {
	opts Options

	mu    sync.Mutex
	names map[string]*name
	gone  map[*Version]bool // in memory, and of no name any more
	freed chan struct{}     // closed, and replaced, when memory was freed or a version became idle
	work  sync.WaitGroup    // loads and closes that run
	over  bool
}

// name is what requests ask for.
type name struct {
	versions   []*Version // in the configuration's order
	current    *Version   // answers
	last       *Version   // answered before; nil: none
	configured string     // key of the version that the configuration chose last
}

// New returns an empty shelf.
func New(o Options) *Shelf {
	return &Shelf{opts: o, names: make(map[string]*name), gone: make(map[*Version]bool), freed: make(chan struct{})}
}

// state is where a version is on its way into memory and out of it.
type state uint8

const (
	absent state = iota
	loading
	loaded
	leaving // no new request gets it; it closes when the last one lets go
)

// Version is a version on a shelf. All fields but the first two are guarded by Shelf.mu.
type Version struct {
	shelf *Shelf
	spec  Spec

	state   state
	content Content
	holders int // requests that run
	waiters int // requests that wait for the load
	keeps   int // rollouts
	off     bool
	back    bool // it is wanted again while it leaves
	ready   chan struct{}
	why     error
	failed  time.Time
	used    time.Time
}

// Spec is what the version was described as.
func (v *Version) Spec() *Spec { return &v.spec }

// Lease is a version that a request holds. Content is nil where it is not in memory: then
// Load brings it. The request calls Release at its end, whatever Load said.
type Lease struct {
	Version *Version
	Content Content

	held    bool // Content is counted among those that requests hold
	patient bool // it is for an operator, who waits as long as the load takes
}

// Acquire holds the version of a name that has the label, or the one that answers where
// label is empty. The error is ErrUnknown, or inference.ErrUnavailable for a version
// that an operator has unloaded.
func (s *Shelf) Acquire(model, label string) (Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.find(model, label)
	if err != nil {
		return Lease{}, err
	}
	if v.off {
		return Lease{}, fmt.Errorf("%w: model %q version %s was unloaded", inference.ErrUnavailable, v.spec.Name, v.spec.Label)
	}
	v.used = time.Now()
	l := Lease{Version: v}
	if v.state == loaded {
		l.hold()
	}
	return l, nil
}

// find is the version of a label; of "" the current one. The caller holds mu.
func (s *Shelf) find(model, label string) (*Version, error) {
	n := s.names[model]
	if n == nil {
		return nil, fmt.Errorf("%w: %q", ErrUnknown, model)
	}
	if label == "" {
		return n.current, nil
	}
	for _, v := range n.all() {
		if v.spec.Label == label {
			return v, nil
		}
	}
	return nil, fmt.Errorf("%w: %q has no version %q; it has %s", ErrUnknown, model, label, strings.Join(n.labels(), ", "))
}

// all are the versions of the configuration, and the two that answer or answered.
func (n *name) all() []*Version {
	list := slices.Clone(n.versions)
	for _, v := range []*Version{n.current, n.last} {
		if v != nil && !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	return list
}

func (n *name) labels() []string {
	var list []string
	for _, v := range n.all() {
		list = append(list, v.spec.Label)
	}
	return list
}

// hold takes a version that is in memory. The caller holds mu.
func (l *Lease) hold() {
	l.Content, l.held = l.Version.content, true
	l.Version.holders++
}

// Release ends the request's hold.
func (l *Lease) Release() {
	if !l.held {
		return
	}
	v, s := l.Version, l.Version.shelf
	s.mu.Lock()
	defer s.mu.Unlock()
	l.held = false
	v.holders--
	v.used = time.Now()
	if v.holders == 0 {
		if v.state == leaving {
			s.close(v)
		}
		s.signal()
	}
}

// Load waits until the version is in memory, as long as ctx, Options.LoadWait and the
// load last. Requests for one version share its load.
func (l *Lease) Load(ctx context.Context) error {
	v, s := l.Version, l.Version.shelf
	s.mu.Lock()
	for v.state != loaded {
		if err := v.refuses(l.patient); err != nil {
			s.mu.Unlock()
			return err
		}
		ready := s.load(v)
		v.waiters++
		s.mu.Unlock()
		err := v.await(ctx, ready, l.patient)
		s.mu.Lock()
		v.waiters--
		if err == nil && v.state != loaded {
			err = v.why
		}
		if err != nil {
			s.mu.Unlock()
			return err
		}
	}
	l.hold()
	s.mu.Unlock()
	return nil
}

// refuses says why a request may not wait for the version. The caller holds mu.
func (v *Version) refuses(patient bool) error {
	switch {
	case v.shelf.over:
		return fmt.Errorf("%w: the server is shutting down", inference.ErrUnavailable)
	case v.off:
		return fmt.Errorf("%w: model %q version %s was unloaded", inference.ErrUnavailable, v.spec.Name, v.spec.Label)
	case patient:
	case v.waiters >= v.shelf.opts.MaxWaiting:
		return fmt.Errorf("%w: %d requests wait for model %q to be loaded, and no more may", inference.ErrQueueFull, v.waiters, v.spec.Name)
	case v.state == absent && v.why != nil && time.Since(v.failed) < failureHold:
		return v.why
	}
	return nil
}

func (v *Version) await(ctx context.Context, ready <-chan struct{}, patient bool) error {
	timer := time.NewTimer(v.shelf.opts.LoadWait)
	defer timer.Stop()
	if patient {
		timer.Stop()
	}
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return fmt.Errorf("%w: model %q is being loaded, which takes longer than %v; try again later",
			inference.ErrUnavailable, v.spec.Name, v.shelf.opts.LoadWait)
	}
}

// load starts reading a version that is not in memory and not on its way, and returns
// what is closed at the end. The caller holds mu.
func (s *Shelf) load(v *Version) <-chan struct{} {
	switch v.state {
	case loading:
	case leaving:
		v.back = true
		if v.ready == nil {
			v.ready = make(chan struct{})
		}
	case absent, loaded:
		v.state, v.why = loading, nil
		if v.ready == nil {
			v.ready = make(chan struct{})
		}
		s.work.Go(func() { s.read(v) })
	}
	return v.ready
}

// read makes room and opens the version.
func (s *Shelf) read(v *Version) {
	ctx, cancel := context.WithTimeout(context.Background(), s.opts.LoadWait)
	defer cancel()
	content, err := Content(nil), s.reserve(ctx, v)
	if err == nil {
		content, err = v.spec.Open(ctx)
	}
	s.mu.Lock()
	switch {
	case err != nil:
		if !errors.Is(err, inference.ErrUnavailable) {
			err = fmt.Errorf("%w: model %q version %s: %w", inference.ErrUnavailable, v.spec.Name, v.spec.Label, err)
		}
		v.state, v.why, v.failed = absent, err, time.Now()
		if v.off {
			delete(s.gone, v)
		}
	default:
		v.state, v.content, v.used = loaded, content, time.Now()
	}
	close(v.ready)
	v.ready = nil
	if err == nil && (s.over || v.off) {
		s.leave(v)
	}
	s.signal()
	s.mu.Unlock()
	what := "load"
	if err != nil {
		what = "fail"
	}
	s.changed(v, what, err)
}

// leave takes a loaded version away from new requests, and closes it once no request
// holds it. The caller holds mu.
func (s *Shelf) leave(v *Version) {
	if v.state != loaded {
		return
	}
	v.state = leaving
	if v.holders == 0 {
		s.close(v)
	}
}

// close frees a version that leaves. The caller holds mu.
func (s *Shelf) close(v *Version) {
	content := v.content
	if content == nil {
		return // it closes already
	}
	v.content = nil
	s.work.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), s.opts.CloseWait)
		defer cancel()
		err := content.Close(ctx)
		s.mu.Lock()
		v.state = absent
		delete(s.gone, v)
		if v.back && !v.off && !s.over {
			v.back = false
			s.load(v)
		} else if v.ready != nil {
			close(v.ready)
			v.ready = nil
		}
		s.signal()
		s.mu.Unlock()
		if err != nil {
			s.changed(v, "unload", err)
		}
	})
}

// signal wakes loads that wait for memory. The caller holds mu.
func (s *Shelf) signal() {
	close(s.freed)
	s.freed = make(chan struct{})
}

func (s *Shelf) changed(v *Version, what string, why error) {
	if f := s.opts.OnChange; f != nil {
		f(Change{v.spec.Name, v.spec.Label, what, why})
	}
}

// every yields all versions. The caller holds mu.
func (s *Shelf) every() []*Version {
	list := slices.Collect(maps.Keys(s.gone))
	for _, n := range s.names {
		list = append(list, n.all()...)
	}
	return list
}

// Sweep unloads what has had no request for its time. Its owner calls it every few seconds.
func (s *Shelf) Sweep(now time.Time) {
	s.mu.Lock()
	var idle []*Version
	for _, v := range s.every() {
		if v.spec.IdleUnload > 0 && v.state == loaded && v.holders == 0 && v.waiters == 0 && v.keeps == 0 && now.Sub(v.used) >= v.spec.IdleUnload {
			s.leave(v)
			idle = append(idle, v)
		}
	}
	s.mu.Unlock()
	for _, v := range idle {
		s.changed(v, "idle", nil)
	}
}

// Close closes all versions, held or not, and returns when that is done.
func (s *Shelf) Close() {
	s.mu.Lock()
	s.over = true
	for _, v := range s.every() {
		if v.state == loaded {
			v.state = leaving
		}
		if v.state == leaving {
			s.close(v)
		}
	}
	s.mu.Unlock()
	s.work.Wait()
}
