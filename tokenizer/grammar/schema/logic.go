package schema

import (
	"math/big"
)

// made holds what was made for schemas that JSON cannot write, by schemas that were made, too: their negations.
type made struct {
	next        int // id of the next one
	types       map[*value]types
	pattern     map[*value]*pattern // the text must not match it
	excluded    map[*value][]*value // constants that are out
	indivisible map[*value]*big.Rat // the number must not be a multiple of it
	foreign     map[*value][]string // the object must have a property of another name than these
	negated     map[*value]*negation
	against     map[*value][]*value // schemas that do not hold where this one does
	bare        map[*value]*value
	hidden      map[*value]bool // contraries: what they look at does not count for unevaluatedProperties and unevaluatedItems
	conditions  map[*value]bool // schemas of if
}

// odd reports whether a schema was made to say what its keywords do not, beside types.
func (m *made) odd(s *value) bool {
	_, foreign := m.foreign[s]
	return foreign || m.pattern[s] != nil || m.excluded[s] != nil || m.indivisible[s] != nil
}

// firstMade is the id of the first schema that was made; those of a document are below.
const firstMade = 1 << 30

func newMade() *made {
	return &made{next: firstMade, types: map[*value]types{}, pattern: map[*value]*pattern{}, excluded: map[*value][]*value{},
		indivisible: map[*value]*big.Rat{}, foreign: map[*value][]string{}, negated: map[*value]*negation{}, against: map[*value][]*value{}, bare: map[*value]*value{},
		hidden: map[*value]bool{}, conditions: map[*value]bool{}}
}

// object makes a schema in the place of another; pairs are keywords and values.
func (m *made) object(at *value, pairs ...any) *value {
	v := &value{kind: object, id: m.next, parent: at.parent, name: at.name, index: map[string]int{}}
	m.next++
	for i := 0; i < len(pairs); i += 2 {
		key, item := pairs[i].(string), pairs[i+1].(*value)
		v.index[key] = len(v.items)
		v.keys = append(v.keys, key)
		v.items = append(v.items, item)
	}
	return v
}

func (m *made) list(items ...*value) *value { return &value{kind: array, items: items} }

func words(texts ...string) *value {
	v := &value{kind: array}
	for _, t := range texts {
		v.items = append(v.items, &value{kind: text, text: t})
	}
	return v
}

func word(t string) *value { return &value{kind: text, text: t} }

func whole(n int) *value { return &value{kind: number, amount: new(big.Rat).SetInt64(int64(n))} }

// anyType lists all types.
var anyType = words("null", "boolean", "number", "string", "array", "object")

// always is the schema of everything.
var always = &value{kind: boolean, truth: true, id: -2}

// either is one schema that holds where any of a list does.
func (m *made) either(at *value, list []*value) *value {
	switch len(list) {
	case 0:
		return never
	case 1:
		return list[0]
	}
	return m.object(at, "anyOf", m.list(list...))
}

// both is one schema that holds where all of a list do.
func (m *made) both(at *value, list ...*value) *value {
	return m.object(at, "allOf", m.list(list...))
}

// hide is a contrary that does not count as having looked at properties and items.
func (m *made) hide(at *value, contrary *value) *value {
	h := m.both(at, contrary)
	m.hidden[h] = true
	m.against[h] = m.against[contrary]
	return h
}

// condition is the schema of an if.
func (m *made) condition(at *value, s *value) *value {
	h := m.both(at, s)
	m.conditions[h] = true
	return h
}

// without is a schema with one property kept out.
func (m *made) without(at *value, name string) *value {
	return m.object(at, "properties", m.object(at, name, never))
}

// with is a schema of objects that have some properties.
func (m *made) with(at *value, names ...string) *value {
	return m.object(at, "type", word("object"), "required", words(names...))
}
