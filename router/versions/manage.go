package versions

import (
	"cmp"
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
		v := m.names[spec.Name].same(&spec)
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
		n.versions = append(n.versions, v)
	}
	m.mu.Unlock()
	abandon = func() { m.abandon(fresh) }
	var errs []error
	for _, v := range fresh {
		if v.spec.When != Startup && v.spec.When != Eager && !m.succeeds(table[v.spec.Name], v) {
			continue
		}
		if ctx.Err() != nil {
			errs = append(errs, context.Cause(ctx))
			break
		}
		err := m.bring(ctx, v)
		if v.spec.When == Eager && errors.Is(err, ErrNoRoom) {
			continue // a request loads it, once there is room
		}
		if errs = append(errs, err); err != nil && v.spec.When != Eager { // those are small: what is wrong with all is said at once
			break
		}
	}
	if err := errors.Join(errs...); err != nil {
		abandon()
		return nil, nil, err
	}
	return func() { m.replace(table, specs, fresh) }, abandon, nil
}

// kept is how often a version is held in memory until its list is in force: what stays does not make room for what comes with it.
func (s *Spec) kept() int {
	if s.When == Eager {
		return 0
	}
	return 1
}

// succeeds reports whether a version is to take over from one that is in memory: then it
// is loaded and checked before, whatever it says.
func (m *Manager) succeeds(n *name, v *Version) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.names[v.spec.Name]
	return n.choice() == v && old != nil && old.current.state == loaded
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

// keeps reports whether a name may keep a version: one that the configuration lists, or any.
func (m *Manager) keeps(n *name, v *Version) bool {
	return m.opts.KeepLast || slices.Contains(n.versions, v)
}

// choice is the version that the configuration wants to answer.
func (n *name) choice() *Version {
	i := slices.IndexFunc(n.versions, func(v *Version) bool { return v.spec.When != Never && !v.spec.Candidate })
	return n.versions[max(i, 0)]
}

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

// latest is the version that has taken over from v in the end, or v. The caller holds mu.
func (v *Version) latest() *Version {
	for v.next != nil {
		v = v.next
	}
	return v
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

// What a State says of a version.
const (
	Absent   = "absent"
	Loading  = "loading"
	Loaded   = "loaded"
	Leaving  = "leaving"  // it is closed once the last request lets go
	Unloaded = "unloaded" // by an operator
)

// State is a version as a list shows it.
type State struct {
	Name, Label, Digest string
	State               string // Absent, Loading, Loaded, Leaving or Unloaded
	Answers             bool   // requests of the name get it
	Last                bool   // it answered before, and a rollback brings it back
	Off                 bool   // an operator has unloaded it; requests that it has may still run
	Pinned              bool
	Kept                bool // a deployment or a rollout holds it in memory
	Stays               bool // it does not leave for others while it is in memory
	Holders, Waiters    int
	Bytes               int64
	Used                time.Time // last; zero: never
	Why                 string    // it could not be loaded
	Of                  any       // Spec's
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
		Name: v.spec.Name, Label: v.spec.Label, Digest: v.spec.Digest, State: v.word(), Off: v.off, Pinned: v.spec.Pinned,
		Kept: v.keeps > 0, Answers: n != nil && n.current == v, Last: n != nil && n.last == v,
		Holders: v.holders, Waiters: v.waiters, Bytes: cmp.Or(v.spec.Bytes, v.bytes), Used: v.used, Of: v.spec.Of,
	}
	if v.why != nil {
		st.Why = v.why.Error()
	}
	return st
}

func (v *Version) word() string {
	switch v.state {
	case loading:
		return Loading
	case loaded:
		return Loaded
	case leaving:
		return Leaving
	case absent:
	}
	if v.off {
		return Unloaded
	}
	return Absent
}

// Answer is the version that answers for a name, with its content where that is in
// memory. ok is false where there is no such name.
func (m *Manager) Answer(model string) (st State, c Content, ok bool) {
	st, c, err := m.Find(model, "")
	return st, c, err == nil
}

// Find is a version of a name, of label "" the one that answers, with its content where that is in memory. The error is ErrUnknown.
func (m *Manager) Find(model, label string) (st State, c Content, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, err := m.find(model, label)
	if err != nil {
		return State{}, nil, err
	}
	if v.state == loaded {
		c = v.content
	}
	return v.show(m.names[model]), c, nil
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
