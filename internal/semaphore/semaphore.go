// Package semaphore shares few processors among many pieces of work that requests ask for beside the engine's steps. A piece
// of work acquires a permit, works for a slice of time and then lets others work: first those of the tenant that has had the
// least time, and of these first the small ones, so that they are done soon whatever large ones there are.
package semaphore

import (
	"errors"
	"sync"
	"time"
)

// Errors of Acquire and Yield.
var (
	// ErrCancelled says that the work is not wanted any more.
	ErrCancelled = errors.New("the work is not wanted any more")
	// ErrFull says that a tenant has as many pieces of work as it may.
	ErrFull = errors.New("too many pieces of work wait for a permit")
	// ErrTimeout says that a permit did not come in time.
	ErrTimeout = errors.New("a permit did not come in time")
	// ErrClosed says that no work is done any more.
	ErrClosed = errors.New("no work is done any more")
)

const (
	slice   = 2 * time.Millisecond
	small   = 10 * time.Millisecond // what has had less comes first; what has had more, in the order of coming
	maxRest = 20 * time.Millisecond
)

// Config sets up a Semaphore.
type Config struct {
	Permits   int         // at one time, at least 1
	PerTenant int         // pieces of work that a tenant may have, working and waiting; 0 is no bound
	Busy      func() bool // the engine computes steps: work rests between slices; nil is never
	Rest      int         // how many times as long as it has worked it rests then

	Timeout time.Duration   // the longest wait for a permit; 0 is without end
	Closed  <-chan struct{} // closed when no work is done any more; nil is never
}

// Semaphore gives permits. All methods may be called at the same time.
type Semaphore struct {
	config Config

	mu      sync.Mutex
	free    int
	waiting []*Permit
	came    uint64 // pieces so far
	tenants map[string]*tenant
	clock   time.Duration // what the tenant has had that got the last permit
	debt    time.Duration // that pieces shorter than a slice have worked since the last rest
}

// tenant is who has pieces of work.
type tenant struct {
	had    time.Duration // with permits, counted from the clock when it came
	pieces int
}

// Permit lets a piece of work go on; after a slice it may have to wait for it again. One goroutine uses it.
type Permit struct {
	semaphore *Semaphore
	name      string
	tenant    *tenant
	number    uint64 // of coming
	done      <-chan struct{}
	wake      chan struct{}
	since     time.Time     // of this slice
	used      time.Duration // before this slice
	away      time.Duration // that it has waited and rested since it got its first permit
	held      bool          // the work may go on
}

// New has given no permits yet.
func New(c Config) *Semaphore {
	return &Semaphore{config: c, free: max(c.Permits, 1), tenants: map[string]*tenant{}}
}

// Acquire waits for a permit of a tenant. done is closed when the work is not wanted any more; nil is never. The caller must
// release the permit.
func (s *Semaphore) Acquire(done <-chan struct{}, name string) (*Permit, error) {
	p := &Permit{semaphore: s, name: name, done: done, wake: make(chan struct{}, 1)}
	s.mu.Lock()
	p.tenant = s.tenants[name]
	if p.tenant == nil {
		p.tenant = &tenant{had: s.clock}
		s.tenants[name] = p.tenant
	}
	if s.config.PerTenant > 0 && p.tenant.pieces >= s.config.PerTenant {
		s.mu.Unlock()
		return nil, ErrFull
	}
	p.tenant.pieces++
	s.came++
	p.number = s.came
	s.mu.Unlock()
	err := p.wait()
	if err == nil {
		select {
		case <-done: // while it waited, or before
			err = ErrCancelled
		default:
		}
	}
	if err != nil {
		p.Release()
		return nil, err
	}
	return p, nil
}

// Pieces is how many pieces of work have a permit or wait for one.
func (s *Semaphore) Pieces() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, who := range s.tenants {
		n += who.pieces
	}
	return n
}

// wait queues up and returns with a permit, or with an error and none.
func (p *Permit) wait() error {
	s := p.semaphore
	s.mu.Lock()
	s.waiting = append(s.waiting, p)
	s.give()
	s.mu.Unlock()
	select {
	case <-p.wake:
	default:
		if err := p.await(); err != nil {
			return err
		}
	}
	p.since = time.Now()
	return nil
}

// await returns when the permit was given, or with an error without one.
func (p *Permit) await() error {
	s := p.semaphore
	var late <-chan time.Time
	if s.config.Timeout > 0 {
		timer := time.NewTimer(s.config.Timeout)
		defer timer.Stop()
		late = timer.C
	}
	err := ErrCancelled
	select {
	case <-p.wake:
		return nil
	case <-p.done:
	case <-late:
		err = ErrTimeout
	case <-s.config.Closed:
		err = ErrClosed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.held { // given meanwhile
		p.held = false
		s.free++
		s.give()
		return err
	}
	for i := range s.waiting {
		if s.waiting[i] == p {
			s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
			break
		}
	}
	return err
}

// give gives the free permits to those who come first, with mu held.
func (s *Semaphore) give() {
	for s.free > 0 && len(s.waiting) > 0 {
		first := 0
		for i, p := range s.waiting {
			if p.before(s.waiting[first]) {
				first = i
			}
		}
		p := s.waiting[first]
		s.waiting = append(s.waiting[:first], s.waiting[first+1:]...)
		s.free--
		s.clock = max(s.clock, p.tenant.had)
		p.held = true
		p.wake <- struct{}{}
	}
}

// before reports whether a piece gets its permit before another one. The oldest of a tenant's large pieces goes on
// to its end: if they alternated, all of them would end late and keep what they have made until then.
func (p *Permit) before(other *Permit) bool {
	if p.tenant.had != other.tenant.had {
		return p.tenant.had < other.tenant.had
	}
	if x, y := min(p.used, small), min(other.used, small); x != y {
		return x < y
	}
	return p.number < other.number
}

// charge counts the time since the slice began, with mu held.
func (p *Permit) charge() time.Duration {
	now := time.Now()
	worked := now.Sub(p.since)
	p.since = now
	p.used += worked
	p.tenant.had += worked
	return worked
}

// Yield is called again and again by the work. After a slice it rests, if the engine is busy, and lets others work that
// come first. An ErrCancelled says that the work shall end.
func (p *Permit) Yield() error {
	if time.Since(p.since) < slice {
		return nil
	}
	s := p.semaphore
	s.mu.Lock()
	worked := p.charge()
	s.mu.Unlock()
	defer func(left time.Time) { p.away += time.Since(left) }(p.since)
	if s.config.Busy != nil && s.config.Busy() {
		timer := time.NewTimer(s.rest(worked))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-p.done:
		case <-s.config.Closed:
		}
	}
	select {
	case <-p.done:
		return ErrCancelled
	case <-s.config.Closed:
		return ErrClosed
	default:
	}
	p.since = time.Now()
	s.mu.Lock()
	if len(s.waiting) == 0 {
		s.mu.Unlock()
		return nil
	}
	p.held = false
	s.free++
	s.mu.Unlock()
	return p.wait()
}

// Aside runs a function that may wait for other pieces of work, without the permit meanwhile.
func (p *Permit) Aside(wait func()) {
	s := p.semaphore
	s.mu.Lock()
	p.charge()
	p.held = false
	s.free++
	s.give()
	s.mu.Unlock()
	wait()
	done := p.done
	p.done = nil // the work goes on until it is asked
	_ = p.wait()
	p.done = done
}

// Release gives the permit back. The work is over.
func (p *Permit) Release() {
	s := p.semaphore
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.held {
		worked := p.charge()
		p.held = false
		s.back(worked)
	}
	if p.tenant.pieces--; p.tenant.pieces == 0 {
		delete(s.tenants, p.name)
	}
	s.give()
}

// rest is how long work rests after a slice.
func (s *Semaphore) rest(worked time.Duration) time.Duration {
	return min(time.Duration(s.config.Rest)*worked, maxRest)
}

// back takes a permit back whose work ended before it rested, with mu held. What such pieces have worked adds up: after a slice of it
// the next piece waits while the permit rests, where the engine is busy.
func (s *Semaphore) back(worked time.Duration) {
	s.debt += worked
	if s.debt < slice {
		s.free++
		return
	}
	rest := s.rest(s.debt)
	s.debt = 0
	if rest <= 0 || s.config.Busy == nil || !s.config.Busy() {
		s.free++
		return
	}
	time.AfterFunc(rest, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.free++
		s.give()
	})
}

// Away is how long the work has waited and rested since it got its first permit.
func (p *Permit) Away() time.Duration { return p.away }

// Used is how long the work has had its permit, waiting and resting aside.
func (p *Permit) Used() time.Duration {
	if p.held {
		return p.used + time.Since(p.since)
	}
	return p.used
}
