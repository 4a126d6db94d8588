package versions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"weir/internal/inference"
)

// errOver ends loads, and refuses new ones.
var errOver = fmt.Errorf("%w: the server is shutting down", inference.ErrUnavailable)

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
	v.state, v.idle = leaving, nil
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

// Load brings a version into memory, or brings it back after Unload.
func (m *Manager) Load(ctx context.Context, model, label string) error {
	m.mu.Lock()
	v, err := m.find(model, label)
	m.mu.Unlock()
	if err != nil {
		return err
	}
	return m.bring(ctx, v)
}

// Reload reads a version's files again, beside what is in memory of it, which ends its requests and leaves. A version that is
// not in memory is loaded.
func (m *Manager) Reload(ctx context.Context, model, label string) error {
	m.mu.Lock()
	v, err := m.find(model, label)
	m.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case v.reading <- struct{}{}: // one after the other: what was read last stays
		defer func() { <-v.reading }()
		return m.reload(ctx, v)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// reload is Reload of a version, whose reading the caller holds.
func (m *Manager) reload(ctx context.Context, old *Version) error {
	m.mu.Lock()
	old = old.latest()
	model := old.spec.Name
	if n := m.names[model]; n == nil || !slices.Contains(n.all(), old) {
		m.mu.Unlock()
		return fmt.Errorf("%w: the configuration changed meanwhile", ErrUnknown)
	}
	if old.state != loaded {
		m.mu.Unlock()
		return m.bring(ctx, old)
	}
	v := &Version{manager: m, spec: old.spec, over: old, reading: old.reading}
	m.gone[v] = true
	m.mu.Unlock()
	err := m.bring(ctx, v)
	m.mu.Lock()
	defer m.mu.Unlock()
	v.over = nil
	n := m.names[model]
	if err == nil && (n == nil || !n.exchange(old, v)) {
		err = fmt.Errorf("%w: %q changed meanwhile", ErrUnknown, model)
	}
	if err != nil {
		old.why = err
		m.forget(v)
		return err
	}
	delete(m.gone, v)
	v.keeps, old.next = old.keeps, v
	m.forget(old)
	return nil
}

// Stop takes a version out of memory, once the requests that hold it have ended. The next request brings it back. The error says what
// keeps the version in memory.
func (m *Manager) Stop(model, label string) error {
	m.mu.Lock()
	v, err := m.find(model, label)
	if err == nil {
		err = v.held()
	}
	was := absent
	if err == nil {
		if was = v.state; was == loading {
			v.idle = new(time.Duration) // it leaves once it is there and no request has it
		}
		m.leave(v)
	}
	m.mu.Unlock()
	if was == loaded {
		m.changed(v, "unload", nil)
	}
	return err
}

// Unload takes a version out of memory, until Load. Requests that hold it go on, new ones
// are refused.
func (m *Manager) Unload(model, label string) error {
	m.mu.Lock()
	v, err := m.find(model, label)
	if err == nil {
		v.off = true
		m.leave(v)
	}
	m.mu.Unlock()
	if err == nil {
		m.changed(v, "unload", nil)
	}
	return err
}

// Keep holds a version in memory for a rollout until release, once it was loaded.
func (m *Manager) Keep(ctx context.Context, model, label string) (release func(), err error) {
	m.mu.Lock()
	v, err := m.find(model, label)
	if err == nil {
		v.keeps++
	}
	m.mu.Unlock()
	if err != nil {
		return nil, err
	}
	release = func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		v = v.latest()
		v.keeps--
		if n := m.names[v.spec.Name]; n != nil {
			m.release(n, v)
		}
	}
	if err := m.bring(ctx, v); err != nil {
		release()
		return nil, err
	}
	return release, nil
}
