package schema

import (
	"math/big"
	"slices"
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

// negation is a schema's contrary: any of the alternatives. It may be narrower than that, and is nil where it is not known at all.
type negation struct {
	alternatives []*value
	known        bool
	one          *value // the alternatives as one schema, once it is asked for
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

// negate gives the contrary of a schema.
func (c *compiler) negate(s *value) (*negation, error) {
	if s.kind == boolean {
		if s.truth {
			return &negation{known: true}, nil
		}
		return &negation{alternatives: []*value{always}, known: true}, nil
	}
	if s.kind != object {
		return nil, c.wrong(s, "", "%.80s is no schema; a schema is an object, true or false", canonical(nil, s))
	}
	if n := c.made.negated[s]; n != nil {
		return n, nil
	}
	n := &negation{}
	c.made.negated[s] = n // while it is made, it is not known: a schema may contain itself
	if err := c.spend(1 + len(s.keys)); err != nil {
		return nil, err
	}
	result := negation{known: true}
	var merged map[string]bool
	var err error
	if result.alternatives, merged, err = c.negateRequired(s); err != nil {
		return nil, err
	}
	asserted := false
	for _, keyword := range s.keys {
		if !assertions[keyword] && !inPlace[keyword] || c.doc.keyword(s, keyword) == nil {
			continue
		}
		asserted = true
		more, known, err := c.negateKeyword(s, keyword, merged)
		if err != nil {
			return nil, err
		}
		if known {
			result.alternatives = append(result.alternatives, more...)
		} else {
			result.known = false
		}
	}
	// What is known of the contrary is enough where something is: the grammar is narrower then.
	n.known = result.known || len(result.alternatives) > 0
	n.alternatives = result.alternatives
	for _, a := range n.alternatives {
		if a.kind == object {
			c.made.against[a] = append(slices.Clip(c.made.against[a]), s)
		}
	}
	if !asserted {
		n.known = true
	}
	return n, nil
}

// contrary is the negation as one schema.
func (c *compiler) contrary(s *value) (*value, bool, error) {
	n, err := c.negate(s)
	if err != nil || !n.known {
		return nil, false, err
	}
	if n.one == nil {
		n.one = c.made.either(s, n.alternatives)
		if len(n.alternatives) > 1 {
			c.made.hidden[n.one], c.made.against[n.one] = true, []*value{s}
		}
	}
	return n.one, true, nil
}

// negateRequired is the contrary of what a schema says of properties that it requires and describes: one of them is not there, or does not hold. It
// is one alternative for each, where required and properties alone have two; merged are the names.
func (c *compiler) negateRequired(s *value) (alternatives []*value, merged map[string]bool, err error) {
	names, err := c.names(s, "required")
	if err != nil || names == nil {
		return nil, nil, err
	}
	properties, err := c.members(s, "properties")
	if err != nil || properties == nil {
		return nil, nil, err
	}
	merged = map[string]bool{}
	for _, name := range names {
		v := properties.get(name)
		if v == nil || merged[name] {
			continue
		}
		other, ok, err := c.contrary(v)
		if err != nil {
			return nil, nil, err
		}
		if merged[name] = ok; ok {
			alternatives = append(alternatives, c.made.object(s, "type", word("object"), "properties", c.made.object(s, name, other)))
		}
	}
	return alternatives, merged, nil
}

func (c *compiler) negateKeyword(s *value, keyword string, merged map[string]bool) (alternatives []*value, known bool, err error) {
	v := c.doc.keyword(s, keyword)
	m := c.made
	one := func(alternative *value) ([]*value, bool, error) { return []*value{alternative}, true, nil }
	switch keyword {
	case "type":
		t, err := c.typesOf(s)
		if err != nil || t == isAny {
			return nil, true, err
		}
		other := m.object(s, "type", word("object"))
		m.types[other] = isAny &^ t
		return one(other)
	case "nullable", "minContains", "maxContains", "then", "else", "additionalItems":
		return nil, true, nil // parts of other keywords
	case "const", "enum":
		list := v.items
		if keyword == "const" {
			list = []*value{v}
		}
		if slices.ContainsFunc(list, func(v *value) bool { return v.kind == array || v.kind == object }) {
			return nil, false, nil
		}
		other := m.object(s, "type", anyType)
		m.excluded[other] = list
		return one(other)
	case "pattern":
		if v.kind != text {
			return nil, false, nil
		}
		p, err := c.pattern(s, keyword, v.text)
		if err != nil {
			return nil, false, err
		}
		other := m.object(s, "type", word("string"))
		m.pattern[other] = p
		return one(other)
	case "multipleOf":
		divisor, err := c.multipleOf(s)
		if err != nil || !divisor.IsInt() {
			return nil, false, err
		}
		whole, fraction := m.object(s, "type", word("integer")), m.object(s, "type", word("number"))
		m.indivisible[whole], m.types[fraction] = divisor, isFraction
		return []*value{whole, fraction}, true, nil
	case "required":
		names, err := c.names(s, keyword)
		for _, name := range names {
			if merged[name] {
				continue
			}
			alternatives = append(alternatives, m.both(s, m.object(s, "type", word("object")), m.without(s, name)))
		}
		return alternatives, true, err
	case "properties":
		return c.negateProperties(s, v, merged)
	case "additionalProperties":
		if !isNever(v) || c.doc.keyword(s, "patternProperties") != nil {
			return nil, false, nil
		}
		properties, err := c.members(s, "properties")
		if err != nil {
			return nil, false, err
		}
		other := m.object(s, "type", word("object"))
		m.foreign[other] = nil
		if properties != nil {
			m.foreign[other] = properties.keys
		}
		return one(other)
	}
	if other := c.negateBound(s, keyword, v); other != nil {
		return one(other)
	}
	return c.negateCombination(s, keyword, v)
}

// negateProperties: a property is there whose schema does not hold.
func (c *compiler) negateProperties(s, properties *value, merged map[string]bool) ([]*value, bool, error) {
	var alternatives []*value
	known := properties.kind == object
	for i, name := range properties.keys {
		if merged[name] {
			continue
		}
		other, ok, err := c.contrary(properties.items[i])
		if err != nil {
			return nil, false, err
		}
		if !ok {
			known = false
			continue
		}
		if !isNever(other) {
			alternatives = append(alternatives,
				c.made.both(s, c.made.with(s, name), c.made.object(s, "properties", c.made.object(s, name, other))))
		}
	}
	return alternatives, known || len(alternatives) > 0, nil
}

// negateBound turns a bound around; nil where the keyword is none.
func (c *compiler) negateBound(s *value, keyword string, v *value) *value {
	numbers := map[string]string{"minimum": "exclusiveMaximum", "maximum": "exclusiveMinimum", "exclusiveMinimum": "maximum",
		"exclusiveMaximum": "minimum"}
	if other, ok := numbers[keyword]; ok && v.kind == number {
		// Draft 4 opens a bound by a boolean beside it.
		if open := s.get("exclusiveM" + keyword[1:]); open == nil || open.kind != boolean {
			return c.made.object(s, "type", word("number"), other, v)
		}
		return nil
	}
	lower := map[string][2]string{"minLength": {"string", "maxLength"}, "minItems": {"array", "maxItems"},
		"minProperties": {"object", "maxProperties"}}
	upper := map[string][2]string{"maxLength": {"string", "minLength"}, "maxItems": {"array", "minItems"},
		"maxProperties": {"object", "minProperties"}}
	n, err := c.count(s, keyword, 0)
	if err != nil || n >= maxCount {
		return nil
	}
	if other, ok := lower[keyword]; ok {
		if n == 0 {
			return never
		}
		return c.made.object(s, "type", word(other[0]), other[1], whole(n-1))
	}
	if other, ok := upper[keyword]; ok {
		return c.made.object(s, "type", word(other[0]), other[1], whole(n+1))
	}
	return nil
}

func (c *compiler) negateCombination(s *value, keyword string, v *value) ([]*value, bool, error) {
	switch keyword {
	case "not":
		return []*value{v}, true, nil
	case "$ref", "$dynamicRef", "$recursiveRef":
		target, err := c.target(s, keyword)
		if err != nil {
			return nil, false, err
		}
		other, ok, err := c.contrary(target)
		return []*value{other}, ok, err
	case "allOf":
		parts, err := c.list(s, keyword)
		if err != nil {
			return nil, false, err
		}
		var alternatives []*value
		known := true
		for _, part := range parts {
			n, err := c.negate(part)
			if err != nil {
				return nil, false, err
			}
			known = known && n.known
			alternatives = append(alternatives, n.alternatives...)
		}
		return alternatives, known || len(alternatives) > 0, nil
	case "anyOf", "oneOf": // of a oneOf, that two hold is left out
		parts, err := c.list(s, keyword)
		if err != nil {
			return nil, false, err
		}
		var all []*value
		for _, part := range parts {
			other, ok, err := c.contrary(part)
			if err != nil || !ok {
				return nil, false, err
			}
			all = append(all, other)
		}
		return []*value{c.made.both(s, all...)}, true, nil
	}
	return nil, false, nil
}

// addLogic takes the conditions of a member into a closure as choices: what holds, or the contrary of its condition.
func (c *compiler) addLogic(cl *closure, s *value, t *trail) error {
	if c.loose {
		return nil
	}
	if no := c.doc.keyword(s, "not"); no != nil {
		n, err := c.negate(no)
		if err != nil {
			return err
		}
		if !n.known {
			return c.refuse(s, "not", "the contrary of this schema is not known; say what values are, not what they are not")
		}
		hidden := make([]*value, len(n.alternatives))
		for i, a := range n.alternatives {
			if hidden[i] = a; !isNever(a) {
				hidden[i] = c.made.hide(s, a)
			}
		}
		if err := c.choose(cl, s, "not", t, hidden...); err != nil {
			return err
		}
	}
	if known, ok := c.made.foreign[s]; ok {
		if err := c.addForeign(cl, s, t, known); err != nil {
			return err
		}
	}
	if err := c.addCondition(cl, s, t); err != nil {
		return err
	}
	for _, keyword := range []string{"dependentRequired", "dependentSchemas", "dependencies"} {
		needs, err := c.members(s, keyword)
		if err != nil {
			return err
		}
		if needs == nil {
			continue
		}
		for i, name := range needs.keys {
			var need *value
			switch {
			case needs.items[i].kind != array:
				need = c.made.both(s, c.made.with(s, name), needs.items[i])
			case len(needs.items[i].items) == 0:
				continue
			default:
				need = c.made.object(s, "type", word("object"), "required", c.made.list(append([]*value{word(name)}, needs.items[i].items...)...))
			}
			if err := c.choose(cl, s, keyword, t, c.made.without(s, name), need); err != nil {
				return err
			}
		}
	}
	return nil
}

// addForeign is the contrary of a closed object: a property is there that it does not know. It is one of those that the closure names so far,
// the first of them that is there, so that no object fits two branches; names that no schema lists are left out.
func (c *compiler) addForeign(cl *closure, s *value, t *trail, known []string) error {
	if cl.alone {
		return nil
	}
	var branches []*value
	var earlier []*value
	for _, m := range cl.members {
		properties, err := c.members(m, "properties")
		if err != nil {
			return err
		}
		if properties == nil {
			continue
		}
		for i, name := range properties.keys {
			if isNever(properties.items[i]) || slices.Contains(known, name) {
				continue
			}
			if err := c.spend(1 + len(earlier)); err != nil {
				return err
			}
			known = append(slices.Clip(known), name)
			branches = append(branches, c.made.both(s, append([]*value{c.made.with(s, name)}, earlier...)...))
			earlier = append(earlier, c.made.without(s, name))
		}
	}
	return c.choose(cl, s, "additionalProperties", t, branches...)
}

// addCondition is if, then and else.
func (c *compiler) addCondition(cl *closure, s *value, t *trail) error {
	cond, yes, no := c.doc.keyword(s, "if"), c.doc.keyword(s, "then"), c.doc.keyword(s, "else")
	if cond == nil || yes == nil && no == nil {
		return nil
	}
	if yes == nil {
		yes = always
	}
	if no == nil {
		no = always
	}
	other, ok, err := c.contrary(cond)
	if err != nil {
		return err
	}
	if !ok {
		return c.refuse(s, "if", "the contrary of this schema is not known; use anyOf with one schema for each case")
	}
	return c.choose(cl, s, "if", t, c.made.both(s, c.made.condition(s, cond), yes), c.made.both(s, c.made.hide(s, other), no))
}

// choose adds a choice; one branch alone is added at once.
func (c *compiler) choose(cl *closure, s *value, keyword string, t *trail, branches ...*value) error {
	branches = slices.DeleteFunc(slices.Clone(branches), isNever)
	switch len(branches) {
	case 0:
		cl.never = true
		return nil
	case 1:
		return c.add(cl, branches[0], t)
	}
	veiled := c.veiled(t) || !slices.ContainsFunc(branches, func(b *value) bool { return !c.made.hidden[b] })
	cl.choices = append(cl.choices, choice{at: s, keyword: keyword, branches: branches, veiled: veiled, trail: t})
	return nil
}
