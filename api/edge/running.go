package edge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Running counts the requests in flight and lets a shutdown wait for them, and then
// end them.
type Running struct {
	mu       sync.Mutex
	count    int
	draining bool
	idle     chan struct{}   // closed when draining and count is 0
	aborted  context.Context //nolint:containedctx // ends when the running ones must
	abort    context.CancelCauseFunc
}

// ErrStopped is why the requests end that run when a shutdown has waited for long enough.
var ErrStopped = errors.New("the server stops")

// ErrCancelled is why a response ends that is computed without its client, and that was cancelled.
var ErrCancelled = errors.New("the response was cancelled")

// ErrHungUp is why a request ends whose client waits no longer.
var ErrHungUp = errors.New("the client closed the connection")

// NewRunning counts none.
func NewRunning() *Running {
	r := &Running{idle: make(chan struct{})}
	r.aborted, r.abort = context.WithCancelCause(context.Background())
	return r
}

// Enter counts a request; false when the server drains.
func (r *Running) Enter() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.draining {
		return false
	}
	r.count++
	return true
}

// Stay counts something more that a request has begun and that may outlast it; the request itself is still counted.
func (r *Running) Stay() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
}

// Leave ends what Enter or Stay began.
func (r *Running) Leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count--
	if r.draining && r.count == 0 {
		close(r.idle)
	}
}

// IsDraining reports whether new requests are refused.
func (r *Running) IsDraining() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.draining
}

// Aborted is closed when running requests must end with an error.
func (r *Running) Aborted() <-chan struct{} { return r.aborted.Done() }

// Context ends with ErrStopped when running requests must end.
func (r *Running) Context() context.Context { return r.aborted }

// Begin refuses new requests from here on.
func (r *Running) Begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.draining {
		return
	}
	r.draining = true
	if r.count == 0 {
		close(r.idle)
	}
}

// Drain waits for the running requests until ctx ends, tells the rest to
// end, and waits a little longer.
func (r *Running) Drain(ctx context.Context, abortTimeout time.Duration) error {
	r.Begin()
	select {
	case <-r.idle:
		return nil
	case <-ctx.Done():
	}
	r.abort(ErrStopped)
	timer := time.NewTimer(abortTimeout)
	defer timer.Stop()
	select {
	case <-r.idle:
		return nil
	case <-timer.C:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.count == 0 { // the last one ended in the same moment
		return nil
	}
	return fmt.Errorf("drain requests: %d did not end within %v after they were cancelled", r.count, abortTimeout)
}
