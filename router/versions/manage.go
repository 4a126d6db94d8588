package versions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	m.mu.Lock()
	for _, spec := range specs {
		v := m.same(spec)
		if v == nil {
			v = &Version{manager: m, spec: spec, keeps: 1} // nothing is evicted for what comes with it
			fresh = append(fresh, v)
			m.gone[v] = true // its memory counts from now on
		}
		n := table[spec.Name]
		if n == nil {
			n = new(name)
			table[spec.Name] = n
		}
		n.versions = append(n.versions, v)
	}
	m.mu.Unlock()
	abandon = func() { m.abandon(fresh) }
	for _, v := range fresh {
		if v.spec.When != Startup && !m.succeeds(table[v.spec.Name], v) {
			continue
		}
		if err := m.bring(ctx, v); err != nil {
			abandon()
			return nil, nil, err
		}
	}
	return func() { m.replace(table, specs, fresh) }, abandon, nil
}

// succeeds reports whether a version is to take over from one that is in memory: then it
// is loaded and checked before, whatever it says.
func (m *Manager) succeeds(n *name, v *Version) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.names[v.spec.Name]
	return n.choice() == v && old != nil && old.current.state == loaded
}

// same is the version that is the same as what a spec describes. The caller holds mu.
func (m *Manager) same(spec Spec) *Version {
	n := m.names[spec.Name]
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

func (m *Manager) abandon(fresh []*Version) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, v := range fresh {
		v.keeps--
		m.forget(v)
	}
}

// forget lets a version go that no name has. The caller holds mu.
func (m *Manager) forget(v *Version) {
	v.off = true
	m.gone[v] = true
	m.leave(v)
	if v.state == absent {
		delete(m.gone, v)
	}
}

// bring loads a version for its own sake.
func (m *Manager) bring(ctx context.Context, v *Version) error {
	m.mu.Lock()
	v.failed, v.off = time.Time{}, false
	m.mu.Unlock()
	l := Lease{Version: v, patient: true}
	defer l.Release()
	return l.Load(ctx)
}

// replace puts a table into force.
func (m *Manager) replace(table map[string]*name, specs []Spec, fresh []*Version) {
	var moved []*Version
	m.mu.Lock()
	for _, v := range fresh {
		v.keeps--
	}
	for id, n := range table {
		choice := n.choice()
		n.configured = choice.spec.Key
		switch old := m.names[id]; {
		case old == nil:
			n.current = choice
		case old.configured == choice.spec.Key: // what operators and rollouts did since stays
			n.current, n.last = old.current, old.last
		case old.current == choice:
			n.current, n.last = choice, old.last
		default:
			n.current, n.last = choice, old.current
			moved = append(moved, choice)
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
		if v.state == loaded {
			left = append(left, v)
		}
		m.forget(v)
	}
	for i := range specs { // names that stay keep their versions, with what the new list says of them
		if v := m.same(specs[i]); v != nil {
			v.spec.When, v.spec.IdleUnload, v.spec.Pinned = specs[i].When, specs[i].IdleUnload, specs[i].Pinned
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

// choice is the version that the configuration wants to answer.
func (n *name) choice() *Version {
	i := slices.IndexFunc(n.versions, func(v *Version) bool { return v.spec.When != Never })
	return n.versions[max(i, 0)]
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
		return "", "", fmt.Errorf("%w: %q", ErrUnknown, model)
	}
	last := n.last
	m.mu.Unlock()
	if last == nil {
		return "", "", fmt.Errorf("%w: model %q has answered with one version only", ErrNoLast, model)
	}
	before, err = m.Move(ctx, model, last.spec.Label)
	return last.spec.Label, before, err
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

// State is a version as a list shows it.
type State struct {
	Name, Label, Digest string
	State               string // "absent", "loading", "loaded", "leaving", "unloaded"
	Answers             bool   // requests of the name get it
	Last                bool   // it answered before, and a rollback brings it back
	Pinned              bool
	Kept                bool // a deployment or a rollout holds it in memory
	Stays               bool // it does not leave for others while it is in memory
	Holders, Waiters    int
	Bytes               int64
	Used                time.Time // last; zero: never
	Why                 string    // it could not be loaded
}

// List is all versions by name, the one that answers first.
func (m *Manager) List() []State {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []State
	for _, v := range m.every() {
		st := v.show(m.names[v.spec.Name])
		st.Stays = m.stays(v)
		list = append(list, st)
	}
	slices.SortFunc(list, func(a, b State) int {
		if c := strings.Compare(a.Name, b.Name); c != 0 {
			return c
		}
		if a.Answers != b.Answers {
			if a.Answers {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Label, b.Label)
	})
	return list
}

// show is the version's state; n is its name, nil where it has none any more. The caller
// holds mu.
func (v *Version) show(n *name) State {
	st := State{
		Name: v.spec.Name, Label: v.spec.Label, Digest: v.spec.Digest, State: v.word(), Pinned: v.spec.Pinned,
		Kept: v.keeps > 0, Answers: n != nil && n.current == v, Last: n != nil && n.last == v,
		Holders: v.holders, Waiters: v.waiters, Bytes: v.spec.Bytes, Used: v.used,
	}
	if v.why != nil {
		st.Why = v.why.Error()
	}
	return st
}

func (v *Version) word() string {
	switch v.state {
	case loading:
		return "loading"
	case loaded:
		return "loaded"
	case leaving:
		return "leaving"
	case absent:
	}
	if v.off {
		return "unloaded"
	}
	return "absent"
}

// Answer is the version that answers for a name, with its content where that is in
// memory. ok is false where there is no such name.
func (m *Manager) Answer(model string) (st State, c Content, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.names[model]
	if n == nil {
		return State{}, nil, false
	}
	if n.current.state == loaded {
		c = n.current.content
	}
	return n.current.show(n), c, true
}

// Loaded are all contents in memory that take requests.
func (m *Manager) Loaded() []Content {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []Content
	for _, v := range m.every() {
		if v.state == loaded {
			list = append(list, v.content)
		}
	}
	return list
}
