package schema

import (
	"encoding/binary"
	"maps"
	"slices"
)

// types is a set of the kinds of JSON values; whole numbers and others are told apart.
type types uint8

const (
	isNull types = 1 << iota
	isBoolean
	isInteger
	isFraction // a number that is not whole
	isText
	isArray
	isObject
	isNumber = isInteger | isFraction
	isAny    = isNull | isBoolean | isNumber | isText | isArray | isObject
)

var typeNames = map[string]types{
	"null": isNull, "boolean": isBoolean, "integer": isInteger, "number": isNumber, "string": isText, "array": isArray, "object": isObject,
}

// trail is the way from a schema to what applies in its place: references, allOf, anyOf.
type trail struct {
	at *value
	up *trail
}

// note tells the schemas above s that ask what others have not looked at (unevaluatedProperties, unevaluatedItems) that s looks, too. What
// stands under a contrary does not count.
func (g *gatherer) note(cl *closure, s *value, up *trail) {
	if g.made.hidden[s] {
		return
	}
	if g.doc.keyword(s, "unevaluatedProperties") != nil || g.doc.keyword(s, "unevaluatedItems") != nil {
		cl.under[s] = append(cl.under[s], s)
	}
	for t := up; t != nil && !g.made.hidden[t.at]; t = t.up {
		if below, asks := cl.under[t.at]; asks && !slices.Contains(below, s) {
			cl.under[t.at] = append(slices.Clip(below), s)
		}
	}
}

// veiled reports whether a way leads through a contrary.
func (g *gatherer) veiled(up *trail) bool {
	for t := up; t != nil; t = t.up {
		if g.made.hidden[t.at] {
			return true
		}
	}
	return false
}

// aside reports whether a way leads through a condition.
func (g *gatherer) aside(up *trail) bool {
	for t := up; t != nil; t = t.up {
		if g.made.hidden[t.at] || g.made.conditions[t.at] {
			return true
		}
	}
	return false
}

// choice is an anyOf or oneOf of one member of a closure.
type choice struct {
	at        *value
	keyword   string
	branches  []*value
	exclusive bool // a oneOf: at most one branch may hold
	veiled    bool // all branches are contraries, or parts of one: they name nothing, and what they look at is not asked
	trail     *trail
}

// closure is a set of schemas that hold for one value, with all that apply in their place.
type closure struct {
	members []*value
	has     map[*value]bool
	choices []choice
	types   types
	listed  bool // a member has an enum or a const
	// under holds, by the members with an unevaluatedProperties or unevaluatedItems, the schemas that apply in their place, themselves included.
	under map[*value][]*value
	// aside are the members that hold only because a condition does: those of if, and contraries.
	aside map[*value]bool
	facts facts
	// patterned says that a member has patternProperties.
	patterned bool
	ways      int  // how many leaves the contraries may make of it, 0 is all
	alone     bool // it is that of one branch: what depends on the others is left out
	never     bool // no value is possible
}

func newClosure(t types) *closure {
	return &closure{has: map[*value]bool{}, types: t, under: map[*value][]*value{}, aside: map[*value]bool{}, facts: newFacts()}
}

func (cl *closure) clone() *closure {
	n := *cl
	n.under, n.aside, n.facts = maps.Clone(cl.under), maps.Clone(cl.aside), cl.facts.clone()
	n.members = slices.Clone(cl.members)
	n.choices = slices.Clone(cl.choices)
	n.has = make(map[*value]bool, len(cl.has)+4)
	for m := range cl.has {
		n.has[m] = true
	}
	return &n
}

// moveLast moves a member behind all others, as properties come in the order in which the schema has them.
func (cl *closure) moveLast(s *value) {
	if i := slices.Index(cl.members, s); i >= 0 {
		cl.members = append(slices.Delete(slices.Clone(cl.members), i, i+1), s)
	}
}

// gatherer takes schemas into closures, with all that they apply in their own place.
type gatherer struct {
	*reader
	negator  *negator
	listings *listings
}

// add takes a schema into a closure, with all that it refers to in its own place.
func (g *gatherer) add(cl *closure, s *value, up *trail) error {
	if err := g.spend(1); err != nil {
		return err
	}
	switch {
	case s.kind == boolean:
		cl.never = cl.never || !s.truth
		return nil
	case s.kind != object:
		return wrong(s, "", "%.80s is no schema; a schema is an object, true or false", canonical(nil, s))
	}
	for t := up; t != nil; t = t.up {
		if t.at == s {
			return wrong(s, "", "references lead from this schema back to itself before any value is read, so that it has no meaning; "+
				"put the recursion inside a property or an item")
		}
	}
	g.note(cl, s, up)
	aside := g.aside(up)
	if !aside {
		delete(cl.aside, s)
	}
	if cl.has[s] || cl.never {
		return nil
	}
	cl.has[s] = true
	if aside {
		cl.aside[s] = true
	}
	t, err := g.typesOf(s)
	if err != nil {
		return err
	}
	cl.types &= t
	cl.never = cl.never || cl.types == 0
	cl.listed = cl.listed || g.doc.keyword(s, "enum") != nil || g.doc.keyword(s, "const") != nil
	cl.patterned = cl.patterned || g.doc.keyword(s, "patternProperties") != nil
	g.learn(&cl.facts, s)
	first := !s.before("allOf", "properties") && !s.before("$ref", "properties")
	if first && g.asserts(s) {
		cl.members = append(cl.members, s)
	}
	if err := g.addInPlace(cl, s, &trail{at: s, up: up}); err != nil {
		return err
	}
	if !first && g.asserts(s) { // properties come in the order in which the schema has them, those of a base class first
		cl.members = append(cl.members, s)
	}
	return nil
}

// addInPlace follows the references and the combinations of a member.
func (g *gatherer) addInPlace(cl *closure, s *value, t *trail) error {
	for _, keyword := range []string{"$ref", "$dynamicRef", "$recursiveRef"} {
		target, err := g.target(s, keyword)
		if err != nil {
			return err
		}
		if target == nil {
			continue
		}
		if err := g.add(cl, target, t); err != nil {
			return err
		}
	}
	all, err := g.list(s, "allOf")
	if err != nil {
		return err
	}
	for _, part := range all {
		if err := g.add(cl, part, t); err != nil {
			return err
		}
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		branches, err := g.list(s, keyword)
		if err != nil {
			return err
		}
		if list := g.listings.of(s, keyword, branches); list != nil {
			if err := g.add(cl, list, t); err != nil {
				return err
			}
			continue
		}
		if branches != nil {
			cl.choices = append(cl.choices, choice{at: s, keyword: keyword, branches: branches, exclusive: keyword == "oneOf" && len(branches) > 1,
				veiled: g.veiled(t), trail: t})
		}
	}
	return g.addLogic(cl, s, t)
}

// conjunction is the key of a set of schemas, and the set without what says nothing: sorted, each once.
func conjunction(set []*value) (string, []*value) {
	set = slices.DeleteFunc(slices.Clone(set), func(s *value) bool {
		return s.kind == boolean && s.truth || s.kind == object && len(s.keys) == 0
	})
	slices.SortFunc(set, func(a, b *value) int { return a.id - b.id })
	set = slices.Compact(set)
	key := make([]byte, 0, 4*len(set))
	for _, s := range set {
		key = binary.AppendUvarint(key, uint64(s.id)) //nolint:gosec // ids count from 0
	}
	return string(key), set
}
