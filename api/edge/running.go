package edge

import (
	"context"
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
	idle     chan struct{} // closed when draining and count is 0
	abort    chan struct{} // closed when the running ones must end
	aborting sync.Once
}

// NewRunning counts none.
func NewRunning() *Running {
	return &Running{idle: make(chan struct{}), abort: make(chan struct{})}
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

// Leave ends what Enter began.
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
func (r *Running) Aborted() <-chan struct{} { return r.abort }

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
	r.aborting.Do(func() { close(r.abort) })
	timer := time.NewTimer(abortTimeout)
	defer timer.Stop()
	select {
	case <-r.idle:
		return nil
	case <-timer.C:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Errorf("drain requests: %d did not end within %v after they were cancelled", r.count, abortTimeout)
}
