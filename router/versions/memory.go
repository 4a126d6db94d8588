package versions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"weir/internal/inference"
	"weir/internal/unit"
)

// reserve waits until there is room for so many bytes of a version that loads, which count from then on; the versions that leave
// for it are those that were used least recently.
func (m *Manager) reserve(ctx context.Context, v *Version, bytes int64) error {
	for {
		m.mu.Lock()
		evicted, fits, err := m.room(v, bytes)
		if fits {
			v.bytes = bytes
		}
		if m.freed == nil {
			m.freed = make(chan struct{})
		}
		freed := m.freed
		m.mu.Unlock()
		for _, e := range evicted {
			m.changed(e, "evict", nil)
		}
		if fits || err != nil {
			return err
		}
		select {
		case <-freed:
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errOver) {
				return errOver
			}
			return fmt.Errorf("%w: model %q waited too long for the memory of models whose requests still run", inference.ErrUnavailable, v.spec.Name)
		}
	}
}

// room makes room for so many bytes of a version, as far as it can at once: fits is false where versions
// that leave have not closed yet, hold requests, or are still being loaded. The caller holds mu.
func (m *Manager) room(v *Version, bytes int64) (evicted []*Version, fits bool, err error) {
	if m.opts.MaxBytes == 0 {
		return nil, true, nil
	}
	others, closing, busy := m.taken(v)
	over := others + bytes - m.opts.MaxBytes
	if over <= 0 {
		return nil, true, nil
	}
	over -= closing
	for _, o := range m.evictable(v) {
		switch {
		case over <= 0:
		case o.holders+o.waiters > 0 && !m.opts.EvictBusy:
			busy += o.bytes
		default:
			m.leave(o)
			evicted = append(evicted, o)
			over -= o.bytes
		}
	}
	if over > busy {
		return evicted, false, m.tooMuch(v, bytes)
	}
	return evicted, false, nil
}

// taken is the memory of the versions beside v, how much of it is about to be free, and how much is of versions that may leave once
// they are loaded.
func (m *Manager) taken(v *Version) (bytes, closing, loads int64) {
	for _, o := range m.every() {
		if o == v || o == v.over || o.state == absent {
			continue
		}
		bytes += o.bytes
		switch {
		case o.state == leaving:
			closing += o.bytes
		case o.state == loading && !m.stays(o):
			loads += o.bytes
		}
	}
	return bytes, closing, loads
}

// evictable are the versions that may leave for v, those first that were used least
// recently: what loads at startup stays while it answers, and so does what is pinned.
func (m *Manager) evictable(v *Version) []*Version {
	var list []*Version
	for _, o := range m.every() {
		if o == v || o == v.over || o.state != loaded || m.stays(o) {
			continue
		}
		list = append(list, o)
	}
	slices.SortFunc(list, func(a, b *Version) int {
		return cmp.Or(a.used.Compare(b.used), strings.Compare(a.spec.Name, b.spec.Name), strings.Compare(a.spec.Label, b.spec.Label))
	})
	return list
}

// stays reports whether a version does not leave for others.
func (m *Manager) stays(v *Version) bool {
	return v.spec.Pinned || v.keeps > 0 || v.spec.When == Startup && v.answers()
}

// answers reports whether requests of a name get the version. The caller holds Manager.mu.
func (v *Version) answers() bool {
	n := v.manager.names[v.spec.Name]
	return n != nil && n.current == v
}

// tooMuch names the sums.
func (m *Manager) tooMuch(v *Version, bytes int64) error {
	var parts []string
	sum := int64(0)
	for _, o := range m.every() {
		if o != v && (o.state == loaded || o.state == loading) {
			parts = append(parts, fmt.Sprintf("%s version %s %s", o.spec.Name, o.spec.Label, unit.Bytes(o.bytes)))
			sum += o.bytes
		}
	}
	slices.Sort(parts)
	return &roomError{fmt.Sprintf("%v: model %q version %s needs %s of memory, and %s of %s are free (%s); %s", inference.ErrUnavailable,
		v.spec.Name, v.spec.Label, unit.Bytes(bytes), unit.Bytes(max(0, m.opts.MaxBytes-sum)), unit.Bytes(m.opts.MaxBytes),
		cmp.Or(strings.Join(parts, ", "), "nothing is loaded"), m.opts.Remedy)}
}

// roomError is an ErrNoRoom with its sums.
type roomError struct{ text string }

func (e *roomError) Error() string { return e.text }

func (e *roomError) Unwrap() []error { return []error{ErrNoRoom, inference.ErrUnavailable} }
