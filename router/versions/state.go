package versions

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

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
	Leaves              time.Time // memory, where no request comes; zero: it stays
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
		Holders: v.holders, Waiters: v.waiters, Bytes: cmp.Or(v.spec.Bytes, v.bytes), Used: v.used, Leaves: v.leaves(time.Now()), Of: v.spec.Of,
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
