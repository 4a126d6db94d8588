package inference

import (
	"sync"
	"sync/atomic"
	"time"
)

// Stream carries a request's events from the step loop (the one producer) to
// the connection's goroutine (the one consumer). It is a bounded ring: Push
// never blocks, and reports false when the consumer is too slow, upon which
// the producer cancels the request. An EventFinish always fits, since a choice
// has only one: a reader never misses how its choices ended. Progress is a set
// of atomics beside the ring, so that polling it never makes the step loop wait.
type Stream struct {
	wake   chan struct{}    // capacity 1: something changed since the last Poll
	cancel func(choice int) // asks the producer to end a choice, or all with -1

	mu     sync.Mutex
	limit  int // most unread events, finishes left aside
	ring   []Event
	head   int
	count  int // unread events
	ends   int // of these, finishes
	closed bool
	err    error
	life   Life

	position   atomic.Int64
	prefill    atomic.Int64
	cached     atomic.Int64
	admitted   atomic.Int64 // Unix nanoseconds; 0 before
	compute    atomic.Int64 // nanoseconds
	constraint atomic.Int64 // nanoseconds
}

// NewStream returns a stream that holds at most capacity unread events and,
// beside them, the finish of every choice.
// cancel is called by the consumer's Cancel, from its goroutine; it must be
// safe to call at any time, also after the end.
func NewStream(capacity int, cancel func(choice int)) *Stream {
	capacity = max(capacity, 1)
	return &Stream{wake: make(chan struct{}, 1), cancel: cancel, limit: capacity, ring: make([]Event, min(capacity, ringEvents))}
}

// ringEvents is the size a ring starts with; it grows only while its reader
// lags.
const ringEvents = 16

// Push appends an event; false means the ring is full or closed and the event
// is lost. A full ring still takes an EventFinish.
func (s *Stream) Push(e Event) bool {
	end := e.Kind == EventFinish
	s.mu.Lock()
	if s.closed || !end && s.count-s.ends >= s.limit {
		s.mu.Unlock()
		return false
	}
	if end {
		s.ends++
	}
	if s.count == len(s.ring) {
		s.grow()
	}
	s.ring[(s.head+s.count)%len(s.ring)] = e
	s.count++
	s.mu.Unlock()
	s.signal()
	return true
}

// grow doubles the ring up to the limit; beyond it, where only finishes come, it
// grows by an eighth. The caller holds mu.
func (s *Stream) grow() {
	ring := make([]Event, max(min(2*len(s.ring), s.limit), len(s.ring)+len(s.ring)/8+1))
	n := copy(ring, s.ring[s.head:])
	copy(ring[n:], s.ring[:s.head])
	s.ring, s.head = ring, 0
}

// Close ends the stream after the events already pushed; err is nil after a
// normal end. Only the first call counts.
func (s *Stream) Close(err error) {
	s.mu.Lock()
	if !s.closed {
		s.closed, s.err = true, err
	}
	s.mu.Unlock()
	s.signal()
}

func (s *Stream) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Wake is signalled when Poll may have news. It carries no data and may be
// signalled once too often.
func (s *Stream) Wake() <-chan struct{} { return s.wake }

// Poll moves unread events into dst and returns how many. done is true when
// the stream has ended and nothing is left; err then tells how.
func (s *Stream) Poll(dst []Event) (n int, done bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n < len(dst) && s.count > 0 {
		dst[n] = s.ring[s.head]
		if dst[n].Kind == EventFinish {
			s.ends--
		}
		s.ring[s.head] = Event{}
		s.head = (s.head + 1) % len(s.ring)
		s.count--
		n++
	}
	if s.closed && s.count == 0 {
		return n, true, s.err
	}
	if s.count > 0 {
		s.signal()
	}
	return n, false, nil
}

// Cancel asks the producer to end one choice, or the whole request with -1.
// The request's KV blocks are free at the next step.
func (s *Stream) Cancel(choice int) { s.cancel(choice) }

// Progress is how far a request has come before its first token.
type Progress struct {
	Position      int // requests ahead in the queue; 0 once admitted
	PrefillTokens int // prompt tokens whose KV exists, cached ones included
	CachedTokens  int // of these, taken from the prefix cache
}

// SetProgress is the producer's.
func (s *Stream) SetProgress(p Progress) {
	s.position.Store(int64(p.Position))
	s.prefill.Store(int64(p.PrefillTokens))
	s.cached.Store(int64(p.CachedTokens))
}

// Progress may be called from any goroutine at any time.
func (s *Stream) Progress() Progress {
	return Progress{int(s.position.Load()), int(s.prefill.Load()), int(s.cached.Load())}
}

// SetCompute is the producer's: the compute time that the request has had so far.
func (s *Stream) SetCompute(d time.Duration) { s.compute.Store(int64(d)) }

// Compute is the compute time that the request has had: its share of the steps that
// computed its rows, what was computed again after a preemption left aside.
func (s *Stream) Compute() time.Duration { return time.Duration(s.compute.Load()) }

// SetConstraint is the producer's: the processor time that the request's constraint has had
// beside the steps.
func (s *Stream) SetConstraint(d time.Duration) { s.constraint.Store(int64(d)) }

// Constraint is the processor time that the request's constraint has had beside the steps: of
// masks that take longer than a step has time for them.
func (s *Stream) Constraint() time.Duration { return time.Duration(s.constraint.Load()) }

// SetAdmitted is the producer's: the request became running, for the first time.
func (s *Stream) SetAdmitted(t time.Time) { s.admitted.Store(t.UnixNano()) }

// Admitted is the zero time while the request waits.
func (s *Stream) Admitted() time.Time {
	n := s.admitted.Load()
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n)
}

// Note is the producer's: what the request does from now on.
func (s *Stream) Note(m Moment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.life.Note(m)
	}
}

// Lived is what the request has done so far.
func (s *Stream) Lived() Lived {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.life.Lived()
}
