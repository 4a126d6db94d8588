package versions

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Prepare loads what a new configuration has to have in memory and the old one had not,
// beside what is there. commit puts the new list into force: names that it lacks are not
// found any more, and their requests end in peace. A name moves where the configuration chooses another
// version for it than before, by the label: to the first of its versions that is not Never. A name that does not move has the
// version of the same label, as the new list describes it. abandon frees what Prepare has loaded; one of the two is called, once.
func (m *Manager) Prepare(ctx context.Context, specs []Spec) (commit, abandon func(), err error) {
	table := make(map[string]*name)
	var fresh []*Version
	due := make([]*Version, len(specs)) // by spec: what is to be in memory now
	decided := m.decided(specs)
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
		if next := table[spec.Name].takesOver(m.names[spec.Name], m.opts.KeepLast, decided[spec.Name]); next != nil && next.spec.Key == spec.Key {
			due[i] = next
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

// decided are the names of a list whose version others than the configuration decide.
func (m *Manager) decided(specs []Spec) map[string]bool {
	names := make(map[string]bool)
	for i := range specs {
		if id := specs[i].Name; m.opts.Decided != nil && m.opts.Decided(id) {
			names[id] = true
		}
	}
	return names
}

// takesOver is the version that is to take over from one that is in memory; nil: none is. It is loaded and checked before, whatever it says. The
// caller holds Manager.mu.
func (n *name) takesOver(old *name, keepLast, decided bool) *Version {
	if old == nil || old.current.state != loaded {
		return nil
	}
	if next := n.successor(old, keepLast, decided); next != old.current {
		return next
	}
	return nil
}

// successor is the version that answers for a name by a new list. What operators, rollouts and deployments did stays: by the label, and
// until the configuration chooses another one, or for as long as others decide (decided).
func (n *name) successor(old *name, keepLast, decided bool) *Version {
	if choice := n.choice(); !decided && old.configured != choice.spec.Label {
		return choice
	}
	switch next := n.like(old.current); {
	case next != nil:
		return next
	case decided || keepLast:
		return old.current
	}
	return n.choice()
}

// like is the version of a new list that stands for one of the list before: the same, or else the one of its label; nil: there is none.
func (n *name) like(v *Version) *Version {
	if v == nil || slices.Contains(n.versions, v) {
		return v
	}
	if i := slices.IndexFunc(n.versions, func(o *Version) bool { return o.spec.Label == v.spec.Label }); i >= 0 {
		return n.versions[i]
	}
	return nil
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

// succeed gives a name of a new list the versions that answer and answered, by those of the list before, nil for none; moved: another one
// answers now. The caller holds Manager.mu.
func (n *name) succeed(old *name, keepLast, decided bool) (moved bool) {
	n.configured = n.choice().spec.Label
	if old == nil {
		n.current = n.choice()
		return false
	}
	n.current, n.last = n.successor(old, keepLast, decided), old.last
	if moved = n.current != old.current; moved {
		n.last = old.current
	}
	if !keepLast && !slices.Contains(n.versions, n.last) {
		n.last = nil
	}
	return moved
}

// replace puts a table into force.
func (m *Manager) replace(table map[string]*name, specs []Spec, fresh []*Version) {
	var moved []*Version
	decided := m.decided(specs) // since Prepare a deployment may have come, or gone
	m.mu.Lock()
	for _, v := range fresh {
		v.keeps -= v.spec.kept()
	}
	for id, n := range table {
		for i, v := range n.versions {
			n.versions[i] = v.latest() // its files may have been read again since Prepare
		}
		if n.succeed(m.names[id], m.opts.KeepLast, decided[id]) {
			moved = append(moved, n.current)
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
