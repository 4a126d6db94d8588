package versions

import (
	"context"
	"fmt"
	"time"

	"weir/internal/inference"
)

// Lease is a version that a request has found. The request ends with that version, whatever a new configuration says meanwhile.
// Content is nil where it is not in memory: then Load brings it. The request calls Release at its end, whatever Load said.
type Lease struct {
	Version *Version
	Content Content

	held    bool // Content is counted among those that requests hold
	over    bool // it was released
	patient bool // it is for an operator, who waits as long as the load takes
}

// lease counts a request that has found the version. The caller holds Manager.mu.
func (v *Version) lease() *Lease {
	v.leases++
	return &Lease{Version: v}
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
