package schema

import "slices"

// expander makes of a closure with choices closures without: its leaves, one for each way through anyOf, oneOf and conditions.
type expander struct {
	*reader
	gatherer *gatherer
	negator  *negator
	profiler *profiler
	prover   *prover

	overlaps   *compiler // of the questions whether two branches exclude each other, nil before the first
	contraries bool      // some have several ways
}

// expand calls leaf with each closure that has no choice left: the alternatives of the one that it is given. Contraries come last, when it is known
// what most of them say anyway.
func (x *expander) expand(cl *closure, leaf func(*closure) error) error {
	if cl.never {
		return nil
	}
	if cl.listed || len(cl.choices) == 0 {
		return leaf(cl)
	}
	i := slices.IndexFunc(cl.choices, func(c choice) bool { return !c.veiled })
	if i < 0 {
		return x.expandContraries(cl, leaf)
	}
	next := cl.choices[i]
	cl.choices = slices.Delete(slices.Clone(cl.choices), i, i+1)
	branches := next.branches
	if next.exclusive {
		var err error
		if branches, err = x.separate(cl, next); err != nil {
			return err
		}
	}
	branches, err := x.prover.possible(cl, branches)
	if err != nil {
		return err
	}
	if x.prover.idle(cl, branches) {
		return x.expand(cl, leaf)
	}
	return x.branch(cl, next, branches, leaf)
}

// branch expands a closure with each branch of a choice.
func (x *expander) branch(cl *closure, next choice, branches []*value, leaf func(*closure) error) error {
	for i, branch := range branches {
		var alternative *closure
		if i == len(branches)-1 {
			alternative = cl // the last branch may have the closure itself
		} else {
			if err := x.spend(len(cl.has) + len(cl.choices)); err != nil {
				return err
			}
			alternative = cl.clone()
		}
		later := alternative.choices
		alternative.choices = nil
		if err := x.gatherer.add(alternative, branch, next.trail); err != nil {
			return err
		}
		alternative.choices = append(alternative.choices, later...) // those of the branch come first
		if (next.keyword == "anyOf" || next.keyword == "oneOf") && next.at.before(next.keyword, "properties") {
			alternative.moveLast(next.at)
		}
		if err := x.expand(alternative, leaf); err != nil {
			return err
		}
	}
	return nil
}

// closes reports whether the objects of a closure are read as closed, as the options ask: its members together name properties and say nothing
// of others. Members under a condition (if, not) name none by themselves.
func (x *expander) closes(cl *closure) bool {
	if !x.options.Closed || x.loose || cl.types&isObject == 0 {
		return false
	}
	named := false
	for _, m := range cl.members {
		for _, keyword := range []string{"additionalProperties", "unevaluatedProperties"} {
			if x.doc.keyword(m, keyword) != nil {
				return false
			}
		}
		named = named || m.id < firstMade && !cl.aside[m] && slices.ContainsFunc([]string{"properties", "patternProperties", "required"},
			func(keyword string) bool { return x.doc.keyword(m, keyword) != nil })
	}
	return named
}
