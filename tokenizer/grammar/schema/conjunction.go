package schema

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"weir/tokenizer/grammar"
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

// typesOf reads a schema's type and nullable.
func (c *compiler) typesOf(s *value) (types, error) {
	if t, ok := c.made.types[s]; ok {
		return t, nil
	}
	v := c.doc.keyword(s, "type")
	if v == nil {
		return isAny, nil
	}
	names := []*value{v}
	if v.kind == array {
		names = v.items
	}
	var set types
	for _, name := range names {
		t, ok := typeNames[name.text]
		if !ok || name.kind != text {
			return 0, c.wrong(s, "type", "%.80s is no type; types are null, boolean, integer, number, string, array and object", canonical(nil, name))
		}
		set |= t
	}
	if n := s.get("nullable"); n != nil && n.kind == boolean && n.truth && c.doc.root.get("$schema") == nil {
		set |= isNull
	}
	return set, nil
}

// trail is the way from a schema to what applies in its place: references, allOf, anyOf.
type trail struct {
	at *value
	up *trail
}

// note tells the schemas above s that ask what others have not looked at (unevaluatedProperties, unevaluatedItems) that s looks, too. What
// stands under a contrary does not count.
func (c *compiler) note(cl *closure, s *value, up *trail) {
	if c.made.hidden[s] {
		return
	}
	if c.doc.keyword(s, "unevaluatedProperties") != nil || c.doc.keyword(s, "unevaluatedItems") != nil {
		cl.under[s] = append(cl.under[s], s)
	}
	for t := up; t != nil && !c.made.hidden[t.at]; t = t.up {
		if below, asks := cl.under[t.at]; asks && !slices.Contains(below, s) {
			cl.under[t.at] = append(slices.Clip(below), s)
		}
	}
}

// veiled reports whether a way leads through a contrary.
func (c *compiler) veiled(up *trail) bool {
	for t := up; t != nil; t = t.up {
		if c.made.hidden[t.at] {
			return true
		}
	}
	return false
}

// aside reports whether a way leads through a condition.
func (c *compiler) aside(up *trail) bool {
	for t := up; t != nil; t = t.up {
		if c.made.hidden[t.at] || c.made.conditions[t.at] {
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

// add takes a schema into a closure, with all that it refers to in its own place.
func (c *compiler) add(cl *closure, s *value, up *trail) error {
	if err := c.spend(1); err != nil {
		return err
	}
	switch {
	case s.kind == boolean:
		cl.never = cl.never || !s.truth
		return nil
	case s.kind != object:
		return c.wrong(s, "", "%.80s is no schema; a schema is an object, true or false", canonical(nil, s))
	}
	for t := up; t != nil; t = t.up {
		if t.at == s {
			return c.wrong(s, "", "references lead from this schema back to itself before any value is read, so that it has no meaning; "+
				"put the recursion inside a property or an item")
		}
	}
	c.note(cl, s, up)
	aside := c.aside(up)
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
	t, err := c.typesOf(s)
	if err != nil {
		return err
	}
	cl.types &= t
	cl.never = cl.never || cl.types == 0
	cl.listed = cl.listed || c.doc.keyword(s, "enum") != nil || c.doc.keyword(s, "const") != nil
	cl.patterned = cl.patterned || c.doc.keyword(s, "patternProperties") != nil
	c.learn(&cl.facts, s)
	first := !s.before("allOf", "properties") && !s.before("$ref", "properties")
	if first && c.asserts(s) {
		cl.members = append(cl.members, s)
	}
	if err := c.addInPlace(cl, s, &trail{at: s, up: up}); err != nil {
		return err
	}
	if !first && c.asserts(s) { // properties come in the order in which the schema has them, those of a base class first
		cl.members = append(cl.members, s)
	}
	return nil
}

// addInPlace follows the references and the combinations of a member.
func (c *compiler) addInPlace(cl *closure, s *value, t *trail) error {
	for _, keyword := range []string{"$ref", "$dynamicRef", "$recursiveRef"} {
		target, err := c.target(s, keyword)
		if err != nil {
			return err
		}
		if target == nil {
			continue
		}
		if err := c.add(cl, target, t); err != nil {
			return err
		}
	}
	all, err := c.list(s, "allOf")
	if err != nil {
		return err
	}
	for _, part := range all {
		if err := c.add(cl, part, t); err != nil {
			return err
		}
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		branches, err := c.list(s, keyword)
		if err != nil {
			return err
		}
		if list := c.listing(s, keyword, branches); list != nil {
			if err := c.add(cl, list, t); err != nil {
				return err
			}
			continue
		}
		if branches != nil {
			cl.choices = append(cl.choices, choice{at: s, keyword: keyword, branches: branches, exclusive: keyword == "oneOf" && len(branches) > 1,
				veiled: c.veiled(t), trail: t})
		}
	}
	return c.addLogic(cl, s, t)
}

// target is the schema that a reference of a schema names, nil where it has none.
func (c *compiler) target(s *value, keyword string) (*value, error) {
	ref := c.doc.keyword(s, keyword)
	if ref == nil {
		return nil, nil
	}
	if ref.kind != text {
		return nil, c.wrong(s, keyword, "a reference is a string")
	}
	target, err := c.doc.resolve(s, keyword, ref.text)
	if err != nil || keyword == "$ref" {
		return target, err
	}
	if keyword == "$recursiveRef" && len(c.doc.resources) > 1 {
		return nil, c.wrong(s, keyword, "which schema is meant depends on how this one was reached, where a document has several $id; use $ref")
	}
	if a := target.get("$dynamicAnchor"); keyword == "$dynamicRef" && a != nil && c.doc.dynamic[a.text] > 1 {
		return nil, c.wrong(s, keyword, "the anchor %.80q stands %d times, and which one is meant depends on the way; use $ref",
			a.text, c.doc.dynamic[a.text])
	}
	return target, nil
}

// list reads a keyword that holds a list of schemas, nil where there is none.
func (c *compiler) list(s *value, keyword string) ([]*value, error) {
	v := c.doc.keyword(s, keyword)
	if v == nil {
		return nil, nil
	}
	if v.kind != array || len(v.items) == 0 {
		return nil, c.wrong(s, keyword, "needs a list of at least one schema")
	}
	return v.items, nil
}

// expand calls leaf with each closure that has no choice left: the alternatives of the one that it is given. Contraries come last, when it is known
// what most of them say anyway.
func (c *compiler) expand(cl *closure, leaf func(*closure) error) error {
	if cl.never {
		return nil
	}
	if cl.listed || len(cl.choices) == 0 {
		return leaf(cl)
	}
	i := slices.IndexFunc(cl.choices, func(c choice) bool { return !c.veiled })
	if i < 0 {
		return c.expandContraries(cl, leaf)
	}
	next := cl.choices[i]
	cl.choices = slices.Delete(slices.Clone(cl.choices), i, i+1)
	branches := next.branches
	if next.exclusive {
		var err error
		if branches, err = c.separate(cl, next); err != nil {
			return err
		}
	}
	branches, err := c.possible(cl, branches)
	if err != nil {
		return err
	}
	if c.idle(cl, branches) {
		return c.expand(cl, leaf)
	}
	return c.branch(cl, next, branches, leaf)
}

// branch expands a closure with each branch of a choice.
func (c *compiler) branch(cl *closure, next choice, branches []*value, leaf func(*closure) error) error {
	for i, branch := range branches {
		var alternative *closure
		if i == len(branches)-1 {
			alternative = cl // the last branch may have the closure itself
		} else {
			if err := c.spend(len(cl.has) + len(cl.choices)); err != nil {
				return err
			}
			alternative = cl.clone()
		}
		later := alternative.choices
		alternative.choices = nil
		if err := c.add(alternative, branch, next.trail); err != nil {
			return err
		}
		alternative.choices = append(alternative.choices, later...) // those of the branch come first
		if (next.keyword == "anyOf" || next.keyword == "oneOf") && next.at.before(next.keyword, "properties") {
			alternative.moveLast(next.at)
		}
		if err := c.expand(alternative, leaf); err != nil {
			return err
		}
	}
	return nil
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

// spend counts work, and fails where a schema asks for more than the limit.
func (c *compiler) spend(work int) error {
	if err := c.meter.Spend(stepWork * work); err != nil {
		return c.tooMuch(err)
	}
	c.work += work
	if c.work > c.limits.Work {
		return &Error{cause: grammar.ErrLimit, Reason: fmt.Sprintf("the schema needs more than %d steps to compile: its anyOf, oneOf, allOf and references combine into "+
			"too many cases; split it or drop some", c.limits.Work)}
	}
	return nil
}
