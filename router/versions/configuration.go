package versions

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Prepare loads what a new configuration has to have in memory and the old one had not,
// beside what is there. commit puts the new list into force: names that it lacks are not
// found any more, and their requests end in peace. A name moves where the configuration's
// choice for it has changed: to the first of its versions that is not Never. abandon
// frees what Prepare has loaded; one of the two is called, once.
func (m *Manager) Prepare(ctx context.Context, specs []Spec) (commit, abandon func(), err error) {
	table := make(map[string]*name)
	var fresh []*Version
	due := make([]*Version, len(specs)) // by spec: what is to be in memory now
	m.mu.Lock()
	for i, spec := range specs {
		v := m.names[spec.Name].same(&spec)
		starts := (spec.When == Startup || spec.When == Eager) && (v == nil || v.spec.When != spec.When)
		if v == nil {
			v = &Version{manager: m, spec: spec, keeps: spec.kept(), reading: make(chan struct{}, 1)}
			fresh = append(fresh, v)
			m.gone[v] = true // its memory counts from now on
		}
		n := table[spec.Name]
		if n == nil {
			n = new(name)
			table[spec.Name] = n
		}
		n.list(v, &spec)
		if starts {
			due[i] = v
		}
	}
	for i, spec := range specs {
		if n := table[spec.Name]; m.succeeds(spec.Name, n) && n.choice().spec.Key == spec.Key {
			due[i] = n.choice()
		}
	}
	m.mu.Unlock()
	abandon = func() { m.abandon(fresh) }
	var errs []error
	for i, v := range due {
		if v == nil {
			continue
		}
		when := specs[i].When
		if ctx.Err() != nil {
			errs = append(errs, context.Cause(ctx))
			break
		}
		err := m.bring(ctx, v)
		if when == Eager && errors.Is(err, ErrNoRoom) {
			continue // a request loads it, once there is room
		}
		if errs = append(errs, err); err != nil && when != Eager { // those are small: what is wrong with all is said at once
			break
		}
	}
	if err := errors.Join(errs...); err != nil {
		abandon()
		return nil, nil, err
	}
	return func() { m.replace(table, specs, fresh) }, abandon, nil
}

// succeeds reports whether the choice for a name is new and is to take over from a version that is in memory: then it
// is loaded and checked before, whatever it says. The caller holds mu.
func (m *Manager) succeeds(id string, n *name) bool {
	old := m.names[id]
	return old != nil && old.configured != n.choice().spec.Key && old.current.state == loaded
}

func (m *Manager) abandon(fresh []*Version) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, v := range fresh {
		v.keeps -= v.spec.kept()
		m.forget(v)
	}
}

// forget lets a version go that no name has. The caller holds mu.
func (m *Manager) forget(v *Version) {
	v.removed = true
	m.gone[v] = true
	m.leave(v)
	if v.ready != nil && v.content != nil { // requests wait for it to come back, and what is there still is as good
		close(v.ready)
		v.ready, v.back = nil, false
	}
	if v.state == absent {
		delete(m.gone, v)
	}
}

// bring loads a version for its own sake.
func (m *Manager) bring(ctx context.Context, v *Version) error {
	m.mu.Lock()
	v.failed, v.off = time.Time{}, false
	l := v.lease()
	l.patient = true
	m.mu.Unlock()
	defer l.Release()
	return l.Load(ctx)
}

// replace puts a table into force.
func (m *Manager) replace(table map[string]*name, specs []Spec, fresh []*Version) {
	var moved []*Version
	m.mu.Lock()
	for _, v := range fresh {
		v.keeps -= v.spec.kept()
	}
	for id, n := range table {
		for i, v := range n.versions {
			n.versions[i] = v.latest() // its files may have been read again since Prepare
		}
		choice := n.choice()
		n.configured = choice.spec.Key
		switch old := m.names[id]; {
		case old == nil:
			n.current = choice
		case old.configured == choice.spec.Key && m.keeps(n, old.current): // what operators and rollouts did since stays
			n.current, n.last = old.current, old.last
		case old.current == choice:
			n.current, n.last = choice, old.last
		default:
			n.current, n.last = choice, old.current
			moved = append(moved, choice)
		}
		if !m.keeps(n, n.last) {
			n.last = nil
		}
	}
	before := m.every()
	m.names = table
	var left []*Version
	for _, v := range before {
		if n := table[v.spec.Name]; n != nil && slices.Contains(n.all(), v) {
			delete(m.gone, v)
			continue
		}
		if v.over != nil {
			continue // Reload knows at its end whether it is still wanted
		}
		if v.state == loaded {
			left = append(left, v)
		}
		m.forget(v)
	}
	for i := range specs { // names that stay keep their versions, with what the new list says of them
		if v := m.names[specs[i].Name].same(&specs[i]); v != nil {
			v.spec.When, v.spec.IdleUnload, v.spec.Pinned, v.spec.Candidate = specs[i].When, specs[i].IdleUnload, specs[i].Pinned, specs[i].Candidate
		}
	}
	m.mu.Unlock()
	for _, v := range moved {
		m.changed(v, "move", nil)
	}
	for _, v := range left {
		m.changed(v, "unload", nil)
	}
}
