package schema

import (
	"slices"
)

// contraryWays bound the leaves that the contraries at one place make of one: all of them, and fewer once a schema takes too many steps with
// more. The grammar is narrower then: it leaves out some of the values that fit one branch of a oneOf because they miss another one.
var contraryWays = []int{0, 8, 1}

// expandContraries expands a closure whose choices are all of contraries. Most of those of a oneOf say nothing new once the branch is known, and of
// the others the one with the fewest ways comes first, since each way settles some of the rest.
func (x *expander) expandContraries(cl *closure, leaf func(*closure) error) error {
	first, err := x.settle(cl)
	switch {
	case err != nil || cl.never:
		return err
	case first < 0:
		return leaf(cl)
	}
	next := cl.choices[first]
	cl.choices = slices.Delete(cl.choices, first, first+1)
	if next.exclusive { // a oneOf of a schema that a contrary has in it
		if next.branches, err = x.separate(cl, next); err != nil {
			return err
		}
		if next.branches, err = x.prover.possible(cl, next.branches); err != nil {
			return err
		}
	}
	x.contraries = x.contraries || len(next.branches) > 1
	return x.branch(cl, next, x.fewWays(cl, next.branches), leaf)
}

// settle takes from a closure the choices that say nothing new, and from the others the branches that cannot be. It gives the place of the
// choice with the fewest branches, -1 where none is left.
func (x *expander) settle(cl *closure) (first int, err error) {
	closed := x.closes(cl)
	left := make([]choice, 0, len(cl.choices))
	first = -1
	for _, next := range cl.choices {
		idle, err := x.holdsAnyway(cl, next, closed)
		if err != nil {
			return 0, err
		}
		if idle {
			continue
		}
		if next.branches, err = x.prover.possible(cl, next.branches); err != nil {
			return 0, err
		}
		if len(next.branches) == 0 {
			cl.never = true
			return -1, nil
		}
		if first < 0 || len(next.branches) < len(left[first].branches) {
			first = len(left)
		}
		left = append(left, next)
	}
	cl.choices = left
	return first, nil
}

// holdsAnyway reports whether a branch of a choice says only what its closure says. In a closed object that is so, too, where it is about
// properties that the object does not have: the closure is told that they are not there.
func (x *expander) holdsAnyway(cl *closure, next choice, closed bool) (bool, error) {
	absent, ok, err := x.entailed(cl, next, closed, 0)
	if err != nil || !ok {
		return false, err
	}
	slices.Sort(absent)
	for _, name := range slices.Compact(absent) {
		if err := x.gatherer.add(cl, x.made.hide(next.at, x.made.without(next.at, name)), next.trail); err != nil {
			return false, err
		}
	}
	return true, nil
}

// entailed reports whether a closure says all that one of a choice's branches says, provided that some properties are absent that a closed
// object does not name.
func (x *expander) entailed(cl *closure, next choice, closed bool, depth int) (absent []string, ok bool, err error) {
	if next.exclusive || depth > maxFactDepth {
		return nil, false, nil
	}
	for _, branch := range next.branches {
		if err := x.spend(1); err != nil {
			return nil, false, err
		}
		if cl.has[branch] {
			return nil, true, nil
		}
		p, err := x.profiler.profileOf(branch)
		if err != nil || !p.whole || cl.types&^p.types != 0 { // an error is told once the branch is taken in
			continue
		}
		absent, ok := x.saysNothing(cl, p, closed)
		for i := 0; ok && i < len(p.choices); i++ {
			var more []string
			if more, ok, err = x.entailed(cl, p.choices[i], closed, depth+1); err != nil {
				return nil, false, err
			}
			absent = append(absent, more...)
		}
		if ok {
			return absent, true, nil
		}
	}
	return nil, false, nil
}

// saysNothing reports whether the facts of a closure are all that a profile has, provided that some properties are absent that a closed object
// does not name.
func (x *expander) saysNothing(cl *closure, p *profile, closed bool) (absent []string, ok bool) {
	for name := range p.facts.required {
		if !cl.facts.required[name] {
			return nil, false
		}
	}
	for name, schemas := range p.facts.schemas {
		known := cl.facts.schemas[name]
		if slices.ContainsFunc(known, isNever) || !slices.ContainsFunc(schemas, func(s *value) bool { return !x.prover.entails(known, s) }) {
			continue
		}
		if !closed || known != nil || cl.facts.required[name] || cl.patterned {
			return nil, false
		}
		absent = append(absent, name)
	}
	return absent, true
}

// fewWays gives the branches that a closure with a bound of ways takes of a contrary, each with its part of the bound: those first that ask
// for nothing that the closure does not name.
func (x *expander) fewWays(cl *closure, branches []*value) []*value {
	if cl.ways == 0 {
		return branches
	}
	strange := func(branch *value) int {
		p, err := x.profiler.profileOf(branch)
		if err != nil {
			return 2
		}
		for name := range p.facts.required {
			if cl.facts.schemas[name] == nil && !cl.facts.required[name] {
				return 1
			}
		}
		return 0
	}
	sorted := slices.Clone(branches)
	slices.SortStableFunc(sorted, func(a, b *value) int { return strange(a) - strange(b) })
	sorted = sorted[:min(len(sorted), cl.ways)]
	cl.ways = max(cl.ways/len(sorted), 1)
	return sorted
}
