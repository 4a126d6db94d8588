package models

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"weir/api/tenant"
)

// Set is an immutable set of models.
type Set struct {
	List   []*Model // sorted by id
	ByName map[string]*Model
}

// NewSet is the table of some models. Two may not have one name.
func NewSet(models []*Model) (*Set, error) {
	s := &Set{List: slices.Clone(models), ByName: make(map[string]*Model)}
	slices.SortStableFunc(s.List, func(a, b *Model) int { // adapters stand behind their models, in the order of loading
		switch {
		case a.Base() != b.Base():
			return cmp.Compare(a.Base(), b.Base())
		case a.Adapter == nil:
			return -1
		case b.Adapter == nil:
			return 1
		}
		return 0
	})
	for _, m := range s.List {
		if err := checkModel(m); err != nil {
			return nil, err
		}
		for _, name := range m.Names() {
			if s.ByName[name] != nil {
				return nil, fmt.Errorf("two models are called %q", name)
			}
			s.ByName[name] = m
		}
	}
	for _, m := range s.List {
		if name := m.qualified(); name != "" && s.ByName[name] == nil {
			s.ByName[name] = m
		}
	}
	return s, nil
}

// latest is the tag that Ollama's clients put behind names that have none.
const latest = ":latest"

// Find resolves a request's model field; a missing one means the only model.
func (s *Set) Find(name string) (*Model, bool) {
	if name == "" && len(s.List) > 0 && s.List[0].Base() == s.List[len(s.List)-1].Base() && s.List[0].Adapter == nil {
		return s.List[0], true
	}
	m, ok := s.ByName[name]
	if !ok {
		name = strings.TrimSuffix(name, latest)
		m, ok = s.ByName[name]
	}
	if !ok {
		model, label := SplitVersion(name)
		if m, ok = s.ByName[model]; ok && (label == "" || m.Versions == nil) {
			return nil, false
		}
	}
	return m, ok
}

// Of is the part of the set that a caller may use. What is left out does not exist
// for the caller.
func (s *Set) Of(c *tenant.Caller) *Set {
	if c.UsesAll() {
		return s
	}
	part := &Set{ByName: make(map[string]*Model)}
	for name, m := range s.ByName {
		names := m.Names()
		if q := m.qualified(); q != "" {
			names = append(names, q)
		}
		if c.MayUse(names...) {
			part.ByName[name] = m
		}
	}
	for _, m := range s.List {
		if part.ByName[m.ID] != nil {
			part.List = append(part.List, m)
		}
	}
	return part
}

// IDs are those of the models, for messages.
func (s *Set) IDs() string {
	ids := make([]string, len(s.List))
	for i, m := range s.List {
		ids[i] = m.ID
	}
	return strings.Join(ids, ", ")
}
