// Package versions keeps versions of models in memory: which are loaded, wait to be, or
// leave. Requests find a version by the name of its model and hold it while they run. A
// name moves from one version to another in one step; the version that answered before
// stays in memory until the next move, so that a rollback reads no file. Versions that are
// loaded on demand make room for each other, those that were used least recently first;
// the memory of all is checked before a file is read.
package versions

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
	Startup When = iota // as soon as it is listed, and it stays while it answers
	Eager               // as soon as it is listed; it leaves for others as one that is Lazy
	Lazy                // at the first request
	Never               // only when an operator or a rollout wants it
)

// Content is a loaded version. Close frees it; the manager calls it once no request holds it.
type Content interface {
	Close(ctx context.Context) error
}

// Sized is a content whose memory is known once it is loaded, for a Spec without Bytes.
type Sized interface {
	Content
	Bytes() int64
}

// Spec describes a version before it is loaded.
type Spec struct {
	Name       string // of the model
	Label      string // tells versions of one name apart
	Digest     string // of what it is made of
	Key        string // versions with equal keys are the same, settings included
	Bytes      int64  // of memory once it is loaded; 0: the content tells, if it is Sized
	When       When
	IdleUnload time.Duration // without a request, after which it leaves memory; 0: it stays
	Pinned     bool          // it is never evicted
	Candidate  bool          // it answers for its name only where there is no other version
	Of         any           // what the owner of the list has of the version; the manager hands it back

	// Open reads the version, unless ctx ends. It is called from a goroutine of the manager's.
	Open func(ctx context.Context) (Content, error)
}

// Options say what a manager may use.
type Options struct {
	MaxBytes   int64         // of all versions; 0 is no limit
	MaxWaiting int           // requests that may wait for one version to load
	LoadWait   time.Duration // the most that a request waits for that
	CloseWait  time.Duration // what closing a version may take, once no request holds it
	// FailureHold is how long a failed load refuses requests before the next one tries again.
	FailureHold time.Duration
	// KeepLast keeps the version that answered for a name before, for Rollback, whatever the configuration lists.
	KeepLast bool
	// EvictBusy lets versions be evicted whose requests still run: for requests that are short. They end first.
	EvictBusy bool
	// SkipUnloaded gives requests that name no version another one where that which answers was unloaded.
	SkipUnloaded bool
	// Remedy says what an operator can do where a version has no room, in the words of the settings.
	Remedy string
	// OnChange, if set, is called after a version was loaded or left memory, or a name was
	// moved. It must be quick and must not call the manager.
	OnChange func(Change)
}

// Change is what happened to a version.
type Change struct {
	Name, Label string
	What        string // "load", "unload", "evict", "idle", "fail", "move"
	Why         error  // of a failed load, or a failed Close
}

// ErrUnknown says that there is no model of a name, or no such version of it.
var ErrUnknown = errors.New("no such model or version")

// ErrNoRoom says that a version does not fit beside what stays in memory.
var ErrNoRoom = errors.New("there is no room")

// errOver ends loads, and refuses new ones.
var errOver = fmt.Errorf("%w: the server is shutting down", inference.ErrUnavailable)

// LoadError is a load that failed because of the version itself; it is an inference.ErrUnavailable.
type LoadError struct {
	Name, Label string
	Err         error // of Spec.Open
}

func (e *LoadError) Error() string {
	return fmt.Sprintf("%v: model %q version %s: %v", inference.ErrUnavailable, e.Name, e.Label, e.Err)
}

func (e *LoadError) Unwrap() []error { return []error{inference.ErrUnavailable, e.Err} }

// Manager is safe for concurrent use.
type Manager struct {
	opts Options

	mu    sync.Mutex
	names map[string]*name
	gone  map[*Version]bool // in memory or on its way there, and of no name: not yet, or not any more
	freed chan struct{}     // closed when memory was freed or a version became idle; nil: nothing waits for it
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

// New returns a manager without versions.
func New(o Options) *Manager {
	return &Manager{opts: o, names: make(map[string]*name), gone: make(map[*Version]bool)}
}

// state is where a version is on its way into memory and out of it.
type state uint8

const (
	absent state = iota
	loading
	loaded
	leaving // no new request gets it; it closes once no request has use for it
)

// Version is a version of a name. All fields but the first three are guarded by Manager.mu.
type Version struct {
	manager *Manager
	spec    Spec
	reading chan struct{} // has an element while the files are read again; those that take over share it

	state   state
	content Content
	bytes   int64    // of memory: Spec's, or the content's
	leases  int      // requests that have found it
	holders int      // those of them that hold its content
	waiters int      // requests that wait for the load
	keeps   int      // rollouts
	off     bool     // an operator has unloaded it
	removed bool     // no name has it any more: requests that have found it end with it, and it leaves
	back    bool     // it is wanted again while it leaves
	over    *Version // it is to take over from this one, whose files are read again
	next    *Version // has taken over from it
	ready   chan struct{}
	cancel  context.CancelCauseFunc // of the load
	why     error
	failed  time.Time
	used    time.Time
}

// Spec is what the version was described as.
func (v *Version) Spec() *Spec { return &v.spec }

// Lease is a version that a request has found. The request ends with that version, whatever a new configuration says meanwhile.
// Content is nil where it is not in memory: then Load brings it. The request calls Release at its end, whatever Load said.
type Lease struct {
	Version *Version
	Content Content

	held    bool // Content is counted among those that requests hold
	over    bool // it was released
	patient bool // it is for an operator, who waits as long as the load takes
}

// Acquire finds the version of a name that has the label, or the one that answers where
// label is empty, and leases it. The error is ErrUnknown, or inference.ErrUnavailable for a version
// that an operator has unloaded.
func (m *Manager) Acquire(model, label string) (*Lease, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, err := m.find(model, label)
	if err != nil {
		return nil, err
	}
	if v.off {
		return nil, fmt.Errorf("%w: model %q version %s was unloaded", inference.ErrUnavailable, v.spec.Name, v.spec.Label)
	}
	v.used = time.Now()
	l := v.lease()
	if v.state == loaded {
		l.hold()
	}
	return l, nil
}

// lease counts a request that has found the version. The caller holds Manager.mu.
func (v *Version) lease() *Lease {
	v.leases++
	return &Lease{Version: v}
}

// find is the version of a label; of "" the current one. The caller holds mu.
func (m *Manager) find(model, label string) (*Version, error) {
	n := m.names[model]
	if n == nil {
		return nil, fmt.Errorf("%w: %q", ErrUnknown, model)
	}
	if label == "" {
		return m.answering(n), nil
	}
	for _, v := range n.versions {
		if v.spec.Label == label {
			return v, nil
		}
	}
	for _, v := range [...]*Version{n.current, n.last} {
		if v != nil && v.spec.Label == label {
			return v, nil
		}
	}
	return nil, fmt.Errorf("%w: %q has no version %q; it has %s", ErrUnknown, model, label, strings.Join(n.labels(), ", "))
}

// answering is the version that requests get which name none. The caller holds mu.
func (m *Manager) answering(n *name) *Version {
	if n.current.off && m.opts.SkipUnloaded {
		if i := slices.IndexFunc(n.versions, func(v *Version) bool { return !v.off }); i >= 0 {
			return n.versions[i]
		}
	}
	return n.current
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

// Release ends the request's lease.
func (l *Lease) Release() {
	m := l.Version.manager
	m.mu.Lock()
	defer m.mu.Unlock()
	if !l.over {
		l.over = true
		l.drop()
	}
}

// drop takes the lease from its version. The caller holds Manager.mu.
func (l *Lease) drop() {
	v, m := l.Version, l.Version.manager
	v.leases--
	if l.held {
		l.held = false
		v.holders--
		v.used = time.Now()
	}
	if v.state == leaving && !v.wanted() {
		m.close(v)
	}
	if v.holders == 0 {
		m.signal()
	}
}

// wanted reports whether a version that leaves may not be closed yet.
func (v *Version) wanted() bool { return v.holders > 0 || v.removed && v.leases > 0 }

// takes reports whether a request that has found the version may hold its content.
func (v *Version) takes() bool { return v.state == loaded || v.removed && v.content != nil }

// Load waits until the version is in memory, as long as ctx, Options.LoadWait and the
// load last. Requests for one version share its load.
func (l *Lease) Load(ctx context.Context) error {
	v, m := l.Version, l.Version.manager
	m.mu.Lock()
	for v.next != nil || !v.takes() {
		if v.next != nil { // its files were read again
			v.next.leases++
			l.drop()
			v = v.next
			l.Version = v
			continue
		}
		if err := v.refuses(l.patient); err != nil {
			m.mu.Unlock()
			return err
		}
		ready := m.load(v)
		v.waiters++
		m.mu.Unlock()
		err := v.await(ctx, ready, l.patient)
		m.mu.Lock()
		v.waiters--
		if err == nil && !v.takes() {
			err = v.why
		}
		if err != nil {
			m.mu.Unlock()
			return err
		}
	}
	l.hold()
	m.mu.Unlock()
	return nil
}

// refuses says why a request may not wait for the version. The caller holds mu.
func (v *Version) refuses(patient bool) error {
	switch {
	case v.manager.over:
		return errOver
	case v.off:
		return fmt.Errorf("%w: model %q version %s was unloaded", inference.ErrUnavailable, v.spec.Name, v.spec.Label)
	case patient:
	case v.waiters >= v.manager.opts.MaxWaiting:
		return fmt.Errorf("%w: %d requests wait for model %q to be loaded, and no more may", inference.ErrQueueFull, v.waiters, v.spec.Name)
	case v.state == absent && v.why != nil && time.Since(v.failed) < v.manager.opts.FailureHold:
		return v.why
	}
	return nil
}

func (v *Version) await(ctx context.Context, ready <-chan struct{}, patient bool) error {
	timer := time.NewTimer(v.manager.opts.LoadWait)
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
			inference.ErrUnavailable, v.spec.Name, v.manager.opts.LoadWait)
	}
}

// load starts reading a version that is not in memory and not on its way, and returns
// what is closed at the end. The caller holds mu.
func (m *Manager) load(v *Version) <-chan struct{} {
	switch v.state {
	case loading:
	case leaving:
		v.back = true
		if v.ready == nil {
			v.ready = make(chan struct{})
		}
	case absent, loaded:
		v.state, v.why, v.bytes = loading, nil, 0
		if v.removed {
			m.gone[v] = true // its memory counts all the same
		}
		if v.ready == nil {
			v.ready = make(chan struct{})
		}
		ctx, cancel := context.WithCancelCause(context.Background())
		v.cancel = cancel
		m.work.Go(func() { m.read(ctx, v) })
	}
	return v.ready
}

// read makes room and opens the version; one whose size is not known before is opened first.
func (m *Manager) read(ctx context.Context, v *Version) {
	content, err := m.open(ctx, v)
	m.mu.Lock()
	v.cancel(nil)
	switch {
	case err != nil:
		if !errors.Is(err, inference.ErrUnavailable) {
			err = &LoadError{v.spec.Name, v.spec.Label, err}
		}
		v.state, v.why, v.failed = absent, err, time.Now()
		if v.removed {
			delete(m.gone, v)
		}
	default:
		v.state, v.content, v.used = loaded, content, time.Now()
	}
	close(v.ready)
	v.ready = nil
	if err == nil && (m.over || v.off || v.removed) {
		m.leave(v)
	}
	m.signal()
	m.mu.Unlock()
	what := "load"
	switch {
	case errors.Is(err, errOver):
		return // whose server ends knows
	case err != nil:
		what = "fail"
	}
	m.changed(v, what, err)
}

// open returns the content of a version, for which there is room.
func (m *Manager) open(ctx context.Context, v *Version) (Content, error) {
	waits, cancel := context.WithTimeout(ctx, m.opts.LoadWait)
	defer cancel()
	if err := m.reserve(waits, v, v.spec.Bytes); err != nil {
		return nil, err
	}
	content, err := v.spec.Open(ctx)
	if err != nil {
		return nil, err
	}
	if s, ok := content.(Sized); ok && v.spec.Bytes == 0 {
		if err := m.reserve(waits, v, s.Bytes()); err != nil {
			return nil, errors.Join(err, content.Close(ctx))
		}
	}
	return content, nil
}

// leave takes a loaded version away from new requests, and closes it once no request
// has use for it. The caller holds mu.
func (m *Manager) leave(v *Version) {
	if v.state != loaded {
		return
	}
	v.state = leaving
	if !v.wanted() {
		m.close(v)
	}
}

// close frees a version that leaves. The caller holds mu.
func (m *Manager) close(v *Version) {
	content := v.content
	if content == nil {
		return // it closes already
	}
	v.content = nil
	m.work.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), m.opts.CloseWait)
		defer cancel()
		err := content.Close(ctx)
		m.mu.Lock()
		v.state = absent
		delete(m.gone, v)
		if v.back && !v.off && !m.over && (!v.removed || v.leases > 0) {
			v.back = false
			m.load(v)
		} else if v.ready != nil {
			close(v.ready)
			v.ready = nil
		}
		m.signal()
		m.mu.Unlock()
		if err != nil {
			m.changed(v, "unload", err)
		}
	})
}

// signal wakes loads that wait for memory. The caller holds mu.
func (m *Manager) signal() {
	if m.freed != nil {
		close(m.freed)
		m.freed = nil
	}
}

func (m *Manager) changed(v *Version, what string, why error) {
	if f := m.opts.OnChange; f != nil {
		f(Change{v.spec.Name, v.spec.Label, what, why})
	}
}

// every yields all versions. The caller holds mu.
func (m *Manager) every() []*Version {
	list := slices.Collect(maps.Keys(m.gone))
	for _, n := range m.names {
		list = append(list, n.all()...)
	}
	return list
}

// Sweep unloads what has had no request for its time. Its owner calls it every few seconds.
func (m *Manager) Sweep(now time.Time) {
	m.mu.Lock()
	var idle []*Version
	for _, v := range m.every() {
		if v.spec.IdleUnload > 0 && v.state == loaded && v.holders == 0 && v.waiters == 0 && v.keeps == 0 && now.Sub(v.used) >= v.spec.IdleUnload {
			m.leave(v)
			idle = append(idle, v)
		}
	}
	m.mu.Unlock()
	for _, v := range idle {
		m.changed(v, "idle", nil)
	}
}

// Close ends the loads that run and closes all versions, held or not, and returns when that is done.
func (m *Manager) Close() {
	m.mu.Lock()
	m.over = true
	for _, v := range m.every() {
		if v.state == loading {
			v.cancel(errOver)
		}
		if v.state == loaded {
			v.state = leaving
		}
		if v.state == leaving {
			m.close(v)
		}
	}
	m.mu.Unlock()
	m.work.Wait()
}
