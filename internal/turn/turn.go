// Package turn shares few processors among many pieces of work that requests ask for beside the engine's steps. A piece
// of work gets a turn, works for a slice of time and then lets others work: first those of the tenant that has had the
// least time, and of these first the small ones, so that they are done soon whatever large ones there are.
package turn

import (
	"errors"
	"sync"
	"time"
)

// Errors of Take and Yield.
var (
	// ErrGone says that the work is not wanted any more.
	ErrGone = errors.New("the work is not wanted any more")
	// ErrFull says that a tenant has as many pieces of work as it may.
	ErrFull = errors.New("too many pieces of work wait for a turn")
	// ErrLate says that a turn did not come in time.
	ErrLate = errors.New("a turn did not come in time")
	// ErrClosed says that no work is done any more.
	ErrClosed = errors.New("no work is done any more")
)

const (
	slice   = 2 * time.Millisecond
	small   = 10 * time.Millisecond // what has had less comes first; what has had more, in the order of coming
	maxRest = 20 * time.Millisecond
)

// Config sets up a Queue.
type Config struct {
	Turns int         // at one time, at least 1
	Most  int         // pieces of work that a tenant may have, working and waiting; 0 is no bound
	Busy  func() bool // the engine computes steps: turns rest between slices; nil is never
	Rest  int         // how many times as long as it has worked a turn rests then

	Patience time.Duration   // the longest wait for a turn; 0 is without end
	Closed   <-chan struct{} // closed when no work is done any more; nil is never
}

// Queue gives turns. All methods may be called at the same time.
type Queue struct {
	config Config

	mu      sync.Mutex
	free    int
	waiting []*Turn
	came    uint64 // pieces so far
	tenants map[string]*tenant
	clock   time.Duration // what the tenant has had that got the last turn
	debt    time.Duration // that pieces shorter than a slice have worked since the last rest
}

// tenant is who has pieces of work.
type tenant struct {
	had    time.Duration // of turns, counted from the clock when it came
	pieces int
}

// Turn is a piece of work that may go on while it has a turn. One goroutine uses it.
type Turn struct {
	queue  *Queue
	name   string
	tenant *tenant
	number uint64 // of coming
	done   <-chan struct{}
	wake   chan struct{}
	since  time.Time     // of this slice
	used   time.Duration // before this slice
	away   time.Duration // that it has waited and rested since it got its first turn
	has    bool          // it has a turn
}

// NewQueue has given no turns yet.
func NewQueue(c Config) *Queue {
	return &Queue{config: c, free: max(c.Turns, 1), tenants: map[string]*tenant{}}
}

// Take waits for a turn of a tenant. done is closed when the work is not wanted any more; nil is never. The caller must
// end the turn.
func (q *Queue) Take(done <-chan struct{}, name string) (*Turn, error) {
	t := &Turn{queue: q, name: name, done: done, wake: make(chan struct{}, 1)}
	q.mu.Lock()
	t.tenant = q.tenants[name]
	if t.tenant == nil {
		t.tenant = &tenant{had: q.clock}
		q.tenants[name] = t.tenant
	}
	if q.config.Most > 0 && t.tenant.pieces >= q.config.Most {
		q.mu.Unlock()
		return nil, ErrFull
	}
	t.tenant.pieces++
	q.came++
	t.number = q.came
	q.mu.Unlock()
	err := t.wait()
	if err == nil {
		select {
		case <-done: // while it waited, or before
			err = ErrGone
		default:
		}
	}
	if err != nil {
		t.End()
		return nil, err
	}
	return t, nil
}

// Pieces is how many pieces of work have a turn or wait for one.
func (q *Queue) Pieces() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for _, t := range q.tenants {
		n += t.pieces
	}
	return n
}

// wait queues up and returns with a turn, or with an error and none.
func (t *Turn) wait() error {
	q := t.queue
	q.mu.Lock()
	q.waiting = append(q.waiting, t)
	q.give()
	q.mu.Unlock()
	select {
	case <-t.wake:
	default:
		if err := t.await(); err != nil {
			return err
		}
	}
	t.since = time.Now()
	return nil
}

// await returns when the turn was given, or with an error without one.
func (t *Turn) await() error {
	q := t.queue
	var late <-chan time.Time
	if q.config.Patience > 0 {
		timer := time.NewTimer(q.config.Patience)
		defer timer.Stop()
		late = timer.C
	}
	err := ErrGone
	select {
	case <-t.wake:
		return nil
	case <-t.done:
	case <-late:
		err = ErrLate
	case <-q.config.Closed:
		err = ErrClosed
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.has { // given meanwhile
		t.has = false
		q.free++
		q.give()
		return err
	}
	for i := range q.waiting {
		if q.waiting[i] == t {
			q.waiting = append(q.waiting[:i], q.waiting[i+1:]...)
			break
		}
	}
	return err
}

// give gives the free turns to those whose turn it is, with mu held.
func (q *Queue) give() {
	for q.free > 0 && len(q.waiting) > 0 {
		first := 0
		for i, t := range q.waiting {
			if t.before(q.waiting[first]) {
				first = i
			}
		}
		t := q.waiting[first]
		q.waiting = append(q.waiting[:first], q.waiting[first+1:]...)
		q.free--
		q.clock = max(q.clock, t.tenant.had)
		t.has = true
		t.wake <- struct{}{}
	}
}

// before reports whether it is a piece's turn before that of another one. The oldest of a tenant's large pieces goes on
// to its end: if they took turns, all of them would end late and keep what they have made until then.
func (t *Turn) before(other *Turn) bool {
	if t.tenant.had != other.tenant.had {
		return t.tenant.had < other.tenant.had
	}
	if x, y := min(t.used, small), min(other.used, small); x != y {
		return x < y
	}
	return t.number < other.number
}

// charge counts the time since the slice began, with mu held.
func (t *Turn) charge() time.Duration {
	now := time.Now()
	worked := now.Sub(t.since)
	t.since = now
	t.used += worked
	t.tenant.had += worked
	return worked
}

// Yield is called again and again by the work. After a slice it rests, if the engine is busy, and lets others work whose
// turn it is. An ErrGone says that the work shall end.
func (t *Turn) Yield() error {
	if time.Since(t.since) < slice {
		return nil
	}
	q := t.queue
	q.mu.Lock()
	worked := t.charge()
	q.mu.Unlock()
	defer func(left time.Time) { t.away += time.Since(left) }(t.since)
	if q.config.Busy != nil && q.config.Busy() {
		timer := time.NewTimer(q.rest(worked))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-t.done:
		case <-q.config.Closed:
		}
	}
	select {
	case <-t.done:
		return ErrGone
	case <-q.config.Closed:
		return ErrClosed
	default:
	}
	t.since = time.Now()
	q.mu.Lock()
	if len(q.waiting) == 0 {
		q.mu.Unlock()
		return nil
	}
	t.has = false
	q.free++
	q.mu.Unlock()
	return t.wait()
}

// Aside runs a function that may wait for other pieces of work, without the turn meanwhile.
func (t *Turn) Aside(wait func()) {
	q := t.queue
	q.mu.Lock()
	t.charge()
	t.has = false
	q.free++
	q.give()
	q.mu.Unlock()
	wait()
	done := t.done
	t.done = nil // the work goes on until it is asked
	_ = t.wait()
	t.done = done
}

// End gives the turn back. The work is over.
func (t *Turn) End() {
	q := t.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.has {
		worked := t.charge()
		t.has = false
		q.back(worked)
	}
	if t.tenant.pieces--; t.tenant.pieces == 0 {
		delete(q.tenants, t.name)
	}
	q.give()
}

// rest is how long a turn rests after some work.
func (q *Queue) rest(worked time.Duration) time.Duration {
	return min(time.Duration(q.config.Rest)*worked, maxRest)
}

// back takes a turn back that ended before it rested, with mu held. What such pieces have worked adds up: after a slice of it
// the next piece waits while the turn rests, where the engine is busy.
func (q *Queue) back(worked time.Duration) {
	q.debt += worked
	if q.debt < slice {
		q.free++
		return
	}
	rest := q.rest(q.debt)
	q.debt = 0
	if rest <= 0 || q.config.Busy == nil || !q.config.Busy() {
		q.free++
		return
	}
	time.AfterFunc(rest, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.free++
		q.give()
	})
}

// Away is how long the work has waited and rested since it got its first turn.
func (t *Turn) Away() time.Duration { return t.away }

// Used is how long the work has had turns, waiting and resting aside.
func (t *Turn) Used() time.Duration {
	if t.has {
		return t.used + time.Since(t.since)
	}
	return t.used
}
