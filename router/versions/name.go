package versions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/internal/inference"
)

// name is what requests ask for.
type name struct {
	versions   []*Version // in the configuration's order
	chosen     int        // of versions, the one that the configuration wants to answer
	wanted     bool       // the choice is neither Never nor a candidate
	current    *Version   // answers
	last       *Version   // answered before; nil: none
	configured string     // label of the version that the configuration chose last
}

// Acquire finds the version of a name that has the label, or the one that answers where
// label is empty, and leases it. The error is ErrUnknown, or inference.ErrUnavailable for a version
// that an operator has unloaded.
func (m *Manager) Acquire(model, label string) (*Lease, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, err := m.find(model, label)
	if err != nil {
		return nil, err
	}
	if v.off {
		return nil, fmt.Errorf("%w: model %q version %s was unloaded", inference.ErrUnavailable, v.spec.Name, v.spec.Label)
	}
	v.used = time.Now()
	l := v.lease()
	if v.state == loaded {
		l.hold()
	}
	return l, nil
}

// find is the version of a label; of "" the current one. The caller holds mu.
func (m *Manager) find(model, label string) (*Version, error) {
	n := m.names[model]
	if n == nil {
		return nil, fmt.Errorf("%w: %.100q", ErrUnknown, model)
	}
	if label == "" {
		return m.answering(n), nil
	}
	for _, v := range n.versions {
		if v.spec.Label == label {
			return v, nil
		}
	}
	for _, v := range [...]*Version{n.current, n.last} {
		if v != nil && v.spec.Label == label {
			return v, nil
		}
	}
	return nil, fmt.Errorf("%w: %.100q has no version %.100q; it has %s", ErrUnknown, model, label, strings.Join(n.labels(), ", "))
}

// answering is the version that requests get which name none. The caller holds mu.
func (m *Manager) answering(n *name) *Version {
	if n.current.off && m.opts.SkipUnloaded {
		if i := slices.IndexFunc(n.versions, func(v *Version) bool { return !v.off }); i >= 0 {
			return n.versions[i]
		}
	}
	return n.current
}

// all are the versions of the configuration, and the two that answer or answered.
func (n *name) all() []*Version {
	list := slices.Clone(n.versions)
	for _, v := range []*Version{n.current, n.last} {
		if v != nil && !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	return list
}

func (n *name) labels() []string {
	var list []string
	for _, v := range n.all() {
		list = append(list, v.spec.Label)
	}
	return list
}

// same is the version that is the same as what a spec describes; nil: the name has none, or there is no name. The caller holds mu.
func (n *name) same(spec *Spec) *Version {
	if n == nil {
		return nil
	}
	for _, v := range n.all() {
		if v.spec.Key == spec.Key {
			return v
		}
	}
	return nil
}

// list appends a version that the configuration lists as spec, which the version does not say yet. The first that is neither Never nor a
// candidate is the choice, or else the first.
func (n *name) list(v *Version, spec *Spec) {
	if spec.When != Never && !spec.Candidate && !n.wanted {
		n.chosen, n.wanted = len(n.versions), true
	}
	n.versions = append(n.versions, v)
}

// choice is the version that the configuration wants to answer.
func (n *name) choice() *Version { return n.versions[n.chosen] }

// Choice is the label of the version that the configuration wants to answer for a name; false: there is no such name.
func (m *Manager) Choice(model string) (label string, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := m.names[model]; n != nil {
		return n.choice().spec.Label, true
	}
	return "", false
}

// Move lets a version answer for a name, once it is in memory, and keeps the one that
// answered before. It returns the label of that one.
func (m *Manager) Move(ctx context.Context, model, label string) (before string, err error) {
	m.mu.Lock()
	v, err := m.find(model, label)
	m.mu.Unlock()
	if err != nil {
		return "", err
	}
	return m.move(ctx, model, v)
}

func (m *Manager) move(ctx context.Context, model string, v *Version) (before string, err error) {
	if err := m.bring(ctx, v); err != nil {
		return "", err
	}
	m.mu.Lock()
	n := m.names[model]
	if n == nil || !slices.Contains(n.all(), v) {
		m.mu.Unlock()
		return "", fmt.Errorf("%w: the configuration changed meanwhile", ErrUnknown)
	}
	old := n.current
	if old != v {
		oldest := n.last
		n.current, n.last = v, old
		m.release(n, oldest)
	}
	m.mu.Unlock()
	m.changed(v, "move", nil)
	return old.spec.Label, nil
}

// release lets a version leave memory that a name needs no more. The caller holds mu.
func (m *Manager) release(n *name, v *Version) {
	switch {
	case v == nil || v == n.current || v == n.last:
	case !slices.Contains(n.versions, v):
		m.forget(v)
	case v.spec.When == Never && v.keeps == 0:
		m.leave(v)
	}
}

// ErrNoLast says that a name has answered with one version only.
var ErrNoLast = errors.New("there is no version to go back to")

// Rollback lets the version answer that did before the last move. It returns the labels
// of the version that answers now and of the one that did.
func (m *Manager) Rollback(ctx context.Context, model string) (now, before string, err error) {
	m.mu.Lock()
	n := m.names[model]
	if n == nil {
		m.mu.Unlock()
		return "", "", fmt.Errorf("%w: %.100q", ErrUnknown, model)
	}
	last := n.last
	m.mu.Unlock()
	if last == nil {
		return "", "", fmt.Errorf("%w: model %q has answered with one version only", ErrNoLast, model)
	}
	before, err = m.move(ctx, model, last) // its label may be that of the version that answers, as its record was before
	return last.spec.Label, before, err
}

// exchange puts a version in the place of another one; false: the name has it no more.
func (n *name) exchange(old, v *Version) (found bool) {
	for _, place := range []**Version{&n.current, &n.last} {
		if *place == old {
			*place, found = v, true
		}
	}
	if i := slices.Index(n.versions, old); i >= 0 {
		n.versions[i], found = v, true
	}
	return found
}
