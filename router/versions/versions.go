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
	// Decided, if set, reports whether others than the configuration decide which version of a name answers, such as a deployment: then no new
	// list moves the name. It must be quick and must not call the manager.
	Decided func(name string) bool
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
	idle    *time.Duration // in place of Spec.IdleUnload, until the version leaves; nil: that counts
}

// Spec is what the version was described as.
func (v *Version) Spec() *Spec { return &v.spec }

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
		after, ok := v.idleAfter()
		if ok && v.state == loaded && v.holders == 0 && v.waiters == 0 && v.keeps == 0 && now.Sub(v.used) >= after {
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

// kept is how often a version is held in memory until its list is in force: what stays does not make room for what comes with it.
func (s *Spec) kept() int {
	if s.When == Eager {
		return 0
	}
	return 1
}

// latest is the version that has taken over from v in the end, or v. The caller holds mu.
func (v *Version) latest() *Version {
	for v.next != nil {
		v = v.next
	}
	return v
}
