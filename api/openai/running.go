package openai

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// running counts the generations in flight and lets a shutdown wait for them,
// and then end them.
type running struct {
	mu       sync.Mutex
	count    int
	draining bool
	idle     chan struct{} // closed when draining and count is 0
	abort    chan struct{} // closed when the running ones must end
	aborting sync.Once
}

func newRunning() *running {
	return &running{idle: make(chan struct{}), abort: make(chan struct{})}
}

// enter counts a generation; false when the server drains.
func (r *running) enter() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.draining {
		return false
	}
	r.count++
	return true
}

func (r *running) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count--
	if r.draining && r.count == 0 {
		close(r.idle)
	}
}

func (r *running) isDraining() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.draining
}

// aborted is closed when running generations must end with an error.
func (r *running) aborted() <-chan struct{} { return r.abort }

// begin refuses new generations from here on.
func (r *running) begin() {
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

// drain waits for the running generations until ctx ends, tells the rest to
// end, and waits a little longer.
func (r *running) drain(ctx context.Context, abortTimeout time.Duration) error {
	r.begin()
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
