package shelf

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
func (s *Shelf) Prepare(ctx context.Context, specs []Spec) (commit, abandon func(), err error) {
	table := make(map[string]*name)
	var fresh []*Version
	s.mu.Lock()
	for _, spec := range specs {
		v := s.same(spec)
		if v == nil {
			v = &Version{shelf: s, spec: spec, keeps: 1} // nothing is evicted for what comes with it
			fresh = append(fresh, v)
			s.gone[v] = true // its memory counts from now on
		}
		n := table[spec.Name]
		if n == nil {
			n = new(name)
			table[spec.Name] = n
		}
		n.versions = append(n.versions, v)
	}
	s.mu.Unlock()
	abandon = func() { s.abandon(fresh) }
	for _, v := range fresh {
		if v.spec.When != Startup && !s.succeeds(table[v.spec.Name], v) {
			continue
		}
		if err := s.bring(ctx, v); err != nil {
			abandon()
			return nil, nil, err
		}
	}
	return func() { s.replace(table, specs, fresh) }, abandon, nil
}

// succeeds reports whether a version is to take over from one that is in memory: then it
// is loaded and checked before, whatever it says.
func (s *Shelf) succeeds(n *name, v *Version) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.names[v.spec.Name]
	return n.choice() == v && old != nil && old.current.state == loaded
}

// same is the version that is the same as what a spec describes. The caller holds mu.
func (s *Shelf) same(spec Spec) *Version {
	n := s.names[spec.Name]
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

func (s *Shelf) abandon(fresh []*Version) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range fresh {
		v.keeps--
		s.forget(v)
	}
}

// forget lets a version go that no name has. The caller holds mu.
func (s *Shelf) forget(v *Version) {
	v.off = true
	s.gone[v] = true
	s.leave(v)
	if v.state == absent {
		delete(s.gone, v)
	}
}

// bring loads a version for its own sake.
func (s *Shelf) bring(ctx context.Context, v *Version) error {
	s.mu.Lock()
	v.failed, v.off = time.Time{}, false
	s.mu.Unlock()
	l := Lease{Version: v, patient: true}
	defer l.Release()
	return l.Load(ctx)
}

// replace puts a table into force.
func (s *Shelf) replace(table map[string]*name, specs []Spec, fresh []*Version) {
	var moved []*Version
	s.mu.Lock()
	for _, v := range fresh {
		v.keeps--
	}
	for id, n := range table {
		choice := n.choice()
		n.configured = choice.spec.Key
		switch old := s.names[id]; {
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
	before := s.every()
	s.names = table
	var left []*Version
	for _, v := range before {
		if n := table[v.spec.Name]; n != nil && slices.Contains(n.all(), v) {
			delete(s.gone, v)
			continue
		}
		if v.state == loaded {
			left = append(left, v)
		}
		s.forget(v)
	}
	for i := range specs { // names that stay keep their versions, with what the new list says of them
		if v := s.same(specs[i]); v != nil {
			v.spec.When, v.spec.IdleUnload, v.spec.Pinned = specs[i].When, specs[i].IdleUnload, specs[i].Pinned
		}
	}
	s.mu.Unlock()
	for _, v := range moved {
		s.changed(v, "move", nil)
	}
	for _, v := range left {
		s.changed(v, "unload", nil)
	}
}

// choice is the version that the configuration wants to answer.
func (n *name) choice() *Version {
	i := slices.IndexFunc(n.versions, func(v *Version) bool { return v.spec.When != Never })
	return n.versions[max(i, 0)]
}

// Move lets a version answer for a name, once it is in memory, and keeps the one that
// answered before. It returns the label of that one.
func (s *Shelf) Move(ctx context.Context, model, label string) (before string, err error) {
	s.mu.Lock()
	v, err := s.find(model, label)
	s.mu.Unlock()
	if err != nil {
		return "", err
	}
	if err := s.bring(ctx, v); err != nil {
		return "", err
	}
	s.mu.Lock()
	n := s.names[model]
	if n == nil || !slices.Contains(n.all(), v) {
		s.mu.Unlock()
		return "", fmt.Errorf("%w: the configuration changed meanwhile", ErrUnknown)
	}
	old := n.current
	if old != v {
		oldest := n.last
		n.current, n.last = v, old
		s.release(n, oldest)
	}
	s.mu.Unlock()
	s.changed(v, "move", nil)
	return old.spec.Label, nil
}

// release lets a version leave memory that a name needs no more. The caller holds mu.
func (s *Shelf) release(n *name, v *Version) {
	switch {
	case v == nil || v == n.current || v == n.last:
	case !slices.Contains(n.versions, v):
		s.forget(v)
	case v.spec.When == Never && v.keeps == 0:
		s.leave(v)
	}
}

// ErrNoLast says that a name has answered with one version only.
var ErrNoLast = errors.New("there is no version to go back to")

// Rollback lets the version answer that did before the last move. It returns the labels
// of the version that answers now and of the one that did.
func (s *Shelf) Rollback(ctx context.Context, model string) (now, before string, err error) {
	s.mu.Lock()
	n := s.names[model]
	if n == nil {
		s.mu.Unlock()
		return "", "", fmt.Errorf("%w: %q", ErrUnknown, model)
	}
	last := n.last
	s.mu.Unlock()
	if last == nil {
		return "", "", fmt.Errorf("%w: model %q has answered with one version only", ErrNoLast, model)
	}
	before, err = s.Move(ctx, model, last.spec.Label)
	return last.spec.Label, before, err
}

// Load brings a version into memory, or brings it back after Unload.
func (s *Shelf) Load(ctx context.Context, model, label string) error {
	s.mu.Lock()
	v, err := s.find(model, label)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.bring(ctx, v)
}

// Unload takes a version out of memory, until Load. Requests that hold it go on, new ones
// are refused.
func (s *Shelf) Unload(model, label string) error {
	s.mu.Lock()
	v, err := s.find(model, label)
	if err == nil {
		v.off = true
		s.leave(v)
	}
	s.mu.Unlock()
	if err == nil {
		s.changed(v, "unload", nil)
	}
	return err
}

// Keep holds a version in memory for a rollout until release, once it was loaded.
func (s *Shelf) Keep(ctx context.Context, model, label string) (release func(), err error) {
	s.mu.Lock()
	v, err := s.find(model, label)
	if err == nil {
		v.keeps++
	}
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	release = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		v.keeps--
		if n := s.names[v.spec.Name]; n != nil {
			s.release(n, v)
		}
	}
	if err := s.bring(ctx, v); err != nil {
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
func (s *Shelf) List() []State {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []State
	for _, v := range s.every() {
		st := v.show(s.names[v.spec.Name])
		st.Stays = s.stays(v)
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
func (s *Shelf) Answer(model string) (st State, c Content, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.names[model]
	if n == nil {
		return State{}, nil, false
	}
	if n.current.state == loaded {
		c = n.current.content
	}
	return n.current.show(n), c, true
}

// Loaded are all contents in memory that take requests.
func (s *Shelf) Loaded() []Content {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Content
	for _, v := range s.every() {
		if v.state == loaded {
			list = append(list, v.content)
		}
	}
	return list
}
