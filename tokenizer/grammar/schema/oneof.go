package schema

import "slices"

// separate gives the branches of a oneOf so that no value fits two of them: those that may overlap exclude each other's.
func (x *expander) separate(cl *closure, next choice) ([]*value, error) {
	if x.loose {
		return next.branches, nil
	}
	roof, err := x.profiler.profile(cl)
	if err != nil {
		return nil, err
	}
	profiles := make([]*profile, len(next.branches))
	for i, branch := range next.branches {
		if profiles[i], err = x.profiler.profileOf(branch); err != nil {
			return nil, err
		}
	}
	branches := slices.Clone(next.branches)
	for i, a := range next.branches {
		parts := []*value{a}
		for j, b := range next.branches {
			if i == j || apart(roof, profiles[i], profiles[j]) || !x.overlap(cl, next, i, j) {
				continue
			}
			other, ok, err := x.negator.contrary(b)
			if err != nil {
				return nil, err
			}
			if !ok {
				return next.branches, x.refuse(next.at, "oneOf", "schemas %d and %d may both hold; use anyOf, or give each a property with another const",
					min(i, j), max(i, j))
			}
			parts = append(parts, x.made.hide(next.at, other))
		}
		if err := x.spend(len(next.branches)); err != nil {
			return nil, err
		}
		if len(parts) > 1 {
			branches[i] = x.made.both(next.at, parts...)
		}
	}
	return branches, nil
}

// overlapWork is what a question for two branches takes beside the steps of merging them, in units of work.Meter.
const overlapWork = 500

// overlap reports whether a value may fit two branches of a oneOf. It asks a compiler that reads loosely: it lets more through rather than less.
func (x *expander) overlap(cl *closure, next choice, i, j int) bool {
	if x.meter.Spend(overlapWork) != nil {
		return true // the error is told at the next step
	}
	if x.overlaps == nil {
		x.overlaps = newCompiler(x.loosely(), 0)
	}
	set := []*value{next.branches[i], next.branches[j]}
	for _, m := range cl.members {
		set = append(set, x.bare(m))
	}
	s, err := x.overlaps.shapes.of(set)
	if err != nil {
		return true
	}
	return x.overlaps.finish() != nil || s.alive
}

// bare is a schema without what it applies in its own place.
func (x *expander) bare(s *value) *value {
	if b := x.made.bare[s]; b != nil {
		return b
	}
	var pairs []any
	for i, key := range s.keys {
		if !inPlace[key] {
			pairs = append(pairs, key, s.items[i])
		}
	}
	b := x.made.object(s, pairs...)
	if t, ok := x.made.types[s]; ok {
		x.made.types[b] = t
	}
	if list := x.made.excluded[s]; list != nil {
		x.made.excluded[b] = list
	}
	if d := x.made.indivisible[s]; d != nil {
		x.made.indivisible[b] = d
	}
	if p := x.made.pattern[s]; p != nil {
		x.made.pattern[b] = p
	}
	x.made.bare[s] = b
	return b
}
