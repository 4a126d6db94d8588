package schema

import "slices"

// profile is what is plain of a branch of a oneOf, to tell branches apart at a glance: by type, or by a property that each gives other values.
type profile struct {
	types    types
	facts    facts
	whole    bool // types, facts and choices say all
	choices  []choice
	required map[string]bool
	values   map[string]map[string]bool // by property: fingerprints of the values that it may have
}

func (c *compiler) profile(cl *closure) (*profile, error) {
	p := &profile{types: cl.types, facts: cl.facts, whole: c.whole(cl), choices: cl.choices,
		required: map[string]bool{}, values: map[string]map[string]bool{}}
	for _, m := range cl.members {
		names, err := c.names(m, "required")
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			p.required[name] = true
		}
		properties, err := c.members(m, "properties")
		if err != nil || properties == nil {
			if err != nil {
				return nil, err
			}
			continue
		}
		for i, name := range properties.keys {
			if set := c.fingerprints(properties.items[i]); set != nil {
				p.values[name] = set
			}
		}
	}
	return p, nil
}

// fingerprints of the values of a const or enum, nil where there is none.
func (c *compiler) fingerprints(s *value) map[string]bool {
	list := []*value{c.doc.keyword(s, "const")}
	if list[0] == nil {
		enum := c.doc.keyword(s, "enum")
		if enum == nil {
			return nil
		}
		list = enum.items
	}
	set := make(map[string]bool, len(list))
	for _, v := range list {
		set[string(fingerprint(nil, v))] = true
	}
	return set
}

func (c *compiler) profileOf(branch *value) (*profile, error) {
	if p := c.profiles[branch]; p != nil {
		return p, nil
	}
	cl := newClosure(isAny)
	cl.alone = true
	if err := c.add(cl, branch, nil); err != nil {
		return nil, err
	}
	if cl.never {
		cl.types = 0
	}
	p, err := c.profile(cl)
	c.profiles[branch] = p
	return p, err
}

// apart reports whether two branches under one roof exclude each other at a glance.
func apart(roof, a, b *profile) bool {
	switch roof.types & a.types & b.types {
	case 0:
		return true
	case isObject:
	default:
		return false
	}
	for name, values := range a.values {
		others := b.values[name]
		there := roof.required[name] || a.required[name] || b.required[name]
		if others == nil || !there {
			continue
		}
		shared := false
		for v := range values {
			shared = shared || others[v]
		}
		if !shared {
			return true
		}
	}
	return false
}

// separate gives the branches of a oneOf so that no value fits two of them: those that may overlap exclude each other's.
func (c *compiler) separate(cl *closure, next choice) ([]*value, error) {
	if c.loose {
		return next.branches, nil
	}
	roof, err := c.profile(cl)
	if err != nil {
		return nil, err
	}
	profiles := make([]*profile, len(next.branches))
	for i, branch := range next.branches {
		if profiles[i], err = c.profileOf(branch); err != nil {
			return nil, err
		}
	}
	branches := slices.Clone(next.branches)
	for i, a := range next.branches {
		parts := []*value{a}
		for j, b := range next.branches {
			if i == j || apart(roof, profiles[i], profiles[j]) || !c.overlap(cl, next, i, j) {
				continue
			}
			other, ok, err := c.contrary(b)
			if err != nil {
				return nil, err
			}
			if !ok {
				return next.branches, c.refuse(next.at, "oneOf", "schemas %d and %d may both hold; use anyOf, or give each a property with another const",
					min(i, j), max(i, j))
			}
			parts = append(parts, c.made.hide(next.at, other))
		}
		if err := c.spend(len(next.branches)); err != nil {
			return nil, err
		}
		if len(parts) > 1 {
			branches[i] = c.made.both(next.at, parts...)
		}
	}
	return branches, nil
}

// overlapWork is what a question for two branches takes beside the steps of merging them, in units of work.Meter.
const overlapWork = 500

// overlap reports whether a value may fit two branches of a oneOf. It asks a compiler that lets more through rather than less.
func (c *compiler) overlap(cl *closure, next choice, i, j int) bool {
	if c.meter.Spend(overlapWork) != nil {
		return true // the error is told at the next step
	}
	if c.overlaps == nil {
		c.overlaps = newCompiler(c.doc, c.options, c.limits)
		c.overlaps.meter, c.overlaps.room = c.meter, c.room
		c.overlaps.made, c.overlaps.patterns, c.overlaps.loose = c.made, c.patterns, true
	}
	set := []*value{next.branches[i], next.branches[j]}
	for _, m := range cl.members {
		set = append(set, c.bare(m))
	}
	s, err := c.overlaps.shape(set)
	if err != nil {
		return true
	}
	return c.overlaps.finish() != nil || s.alive
}

// bare is a schema without what it applies in its own place.
func (c *compiler) bare(s *value) *value {
	if b := c.made.bare[s]; b != nil {
		return b
	}
	var pairs []any
	for i, key := range s.keys {
		if !inPlace[key] {
			pairs = append(pairs, key, s.items[i])
		}
	}
	b := c.made.object(s, pairs...)
	if t, ok := c.made.types[s]; ok {
		c.made.types[b] = t
	}
	if list := c.made.excluded[s]; list != nil {
		c.made.excluded[b] = list
	}
	if d := c.made.indivisible[s]; d != nil {
		c.made.indivisible[b] = d
	}
	if p := c.made.pattern[s]; p != nil {
		c.made.pattern[b] = p
	}
	c.made.bare[s] = b
	return b
}
