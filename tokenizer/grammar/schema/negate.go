package schema

import "slices"

// negation is a schema's contrary: any of the alternatives. It may be narrower than that, and is nil where it is not known at all.
type negation struct {
	alternatives []*value
	known        bool
	one          *value // the alternatives as one schema, once it is asked for
}

// negator makes the contraries of schemas.
type negator struct{ *reader }

// negate gives the contrary of a schema.
func (ng *negator) negate(s *value) (*negation, error) {
	if s.kind == boolean {
		if s.truth {
			return &negation{known: true}, nil
		}
		return &negation{alternatives: []*value{always}, known: true}, nil
	}
	if s.kind != object {
		return nil, wrong(s, "", "%.80s is no schema; a schema is an object, true or false", canonical(nil, s))
	}
	if n := ng.made.negated[s]; n != nil {
		return n, nil
	}
	n := &negation{}
	ng.made.negated[s] = n // while it is made, it is not known: a schema may contain itself
	if err := ng.spend(1 + len(s.keys)); err != nil {
		return nil, err
	}
	result := negation{known: true}
	var merged map[string]bool
	var err error
	if result.alternatives, merged, err = ng.negateRequired(s); err != nil {
		return nil, err
	}
	asserted := false
	for _, keyword := range s.keys {
		if !assertions[keyword] && !inPlace[keyword] || ng.doc.keyword(s, keyword) == nil {
			continue
		}
		asserted = true
		more, known, err := ng.negateKeyword(s, keyword, merged)
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
			ng.made.against[a] = append(slices.Clip(ng.made.against[a]), s)
		}
	}
	if !asserted {
		n.known = true
	}
	return n, nil
}

// contrary is the negation as one schema.
func (ng *negator) contrary(s *value) (*value, bool, error) {
	n, err := ng.negate(s)
	if err != nil || !n.known {
		return nil, false, err
	}
	if n.one == nil {
		n.one = ng.made.either(s, n.alternatives)
		if len(n.alternatives) > 1 {
			ng.made.hidden[n.one], ng.made.against[n.one] = true, []*value{s}
		}
	}
	return n.one, true, nil
}

// negateRequired is the contrary of what a schema says of properties that it requires and describes: one of them is not there, or does not hold. It
// is one alternative for each, where required and properties alone have two; merged are the names.
func (ng *negator) negateRequired(s *value) (alternatives []*value, merged map[string]bool, err error) {
	names, err := ng.names(s, "required")
	if err != nil || names == nil {
		return nil, nil, err
	}
	properties, err := ng.members(s, "properties")
	if err != nil || properties == nil {
		return nil, nil, err
	}
	merged = map[string]bool{}
	for _, name := range names {
		v := properties.get(name)
		if v == nil || merged[name] {
			continue
		}
		other, ok, err := ng.contrary(v)
		if err != nil {
			return nil, nil, err
		}
		if merged[name] = ok; ok {
			alternatives = append(alternatives, ng.made.object(s, "type", word("object"), "properties", ng.made.object(s, name, other)))
		}
	}
	return alternatives, merged, nil
}

func (ng *negator) negateKeyword(s *value, keyword string, merged map[string]bool) (alternatives []*value, known bool, err error) {
	v := ng.doc.keyword(s, keyword)
	m := ng.made
	one := func(alternative *value) ([]*value, bool, error) { return []*value{alternative}, true, nil }
	switch keyword {
	case "type":
		t, err := ng.typesOf(s)
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
		p, err := ng.pattern(s, keyword, v.text)
		if err != nil {
			return nil, false, err
		}
		other := m.object(s, "type", word("string"))
		m.pattern[other] = p
		return one(other)
	case "multipleOf":
		divisor, err := ng.multipleOf(s)
		if err != nil || !divisor.IsInt() {
			return nil, false, err
		}
		whole, fraction := m.object(s, "type", word("integer")), m.object(s, "type", word("number"))
		m.indivisible[whole], m.types[fraction] = divisor, isFraction
		return []*value{whole, fraction}, true, nil
	case "required":
		names, err := ng.names(s, keyword)
		for _, name := range names {
			if merged[name] {
				continue
			}
			alternatives = append(alternatives, m.both(s, m.object(s, "type", word("object")), m.without(s, name)))
		}
		return alternatives, true, err
	case "properties":
		return ng.negateProperties(s, v, merged)
	case "additionalProperties":
		if !isNever(v) || ng.doc.keyword(s, "patternProperties") != nil {
			return nil, false, nil
		}
		properties, err := ng.members(s, "properties")
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
	if other := ng.negateBound(s, keyword, v); other != nil {
		return one(other)
	}
	return ng.negateCombination(s, keyword, v)
}

// negateProperties: a property is there whose schema does not hold.
func (ng *negator) negateProperties(s, properties *value, merged map[string]bool) ([]*value, bool, error) {
	var alternatives []*value
	known := properties.kind == object
	for i, name := range properties.keys {
		if merged[name] {
			continue
		}
		other, ok, err := ng.contrary(properties.items[i])
		if err != nil {
			return nil, false, err
		}
		if !ok {
			known = false
			continue
		}
		if !isNever(other) {
			alternatives = append(alternatives,
				ng.made.both(s, ng.made.with(s, name), ng.made.object(s, "properties", ng.made.object(s, name, other))))
		}
	}
	return alternatives, known || len(alternatives) > 0, nil
}

// negateBound turns a bound around; nil where the keyword is none.
func (ng *negator) negateBound(s *value, keyword string, v *value) *value {
	numbers := map[string]string{"minimum": "exclusiveMaximum", "maximum": "exclusiveMinimum", "exclusiveMinimum": "maximum",
		"exclusiveMaximum": "minimum"}
	if other, ok := numbers[keyword]; ok && v.kind == number {
		// Draft 4 opens a bound by a boolean beside it.
		if open := s.get("exclusiveM" + keyword[1:]); open == nil || open.kind != boolean {
			return ng.made.object(s, "type", word("number"), other, v)
		}
		return nil
	}
	lower := map[string][2]string{"minLength": {"string", "maxLength"}, "minItems": {"array", "maxItems"},
		"minProperties": {"object", "maxProperties"}}
	upper := map[string][2]string{"maxLength": {"string", "minLength"}, "maxItems": {"array", "minItems"},
		"maxProperties": {"object", "minProperties"}}
	n, err := ng.count(s, keyword, 0)
	if err != nil || n >= maxCount {
		return nil
	}
	if other, ok := lower[keyword]; ok {
		if n == 0 {
			return never
		}
		return ng.made.object(s, "type", word(other[0]), other[1], whole(n-1))
	}
	if other, ok := upper[keyword]; ok {
		return ng.made.object(s, "type", word(other[0]), other[1], whole(n+1))
	}
	return nil
}

func (ng *negator) negateCombination(s *value, keyword string, v *value) ([]*value, bool, error) {
	switch keyword {
	case "not":
		return []*value{v}, true, nil
	case "$ref", "$dynamicRef", "$recursiveRef":
		target, err := ng.target(s, keyword)
		if err != nil {
			return nil, false, err
		}
		other, ok, err := ng.contrary(target)
		return []*value{other}, ok, err
	case "allOf":
		parts, err := ng.list(s, keyword)
		if err != nil {
			return nil, false, err
		}
		var alternatives []*value
		known := true
		for _, part := range parts {
			n, err := ng.negate(part)
			if err != nil {
				return nil, false, err
			}
			known = known && n.known
			alternatives = append(alternatives, n.alternatives...)
		}
		return alternatives, known || len(alternatives) > 0, nil
	case "anyOf", "oneOf": // of a oneOf, that two hold is left out
		parts, err := ng.list(s, keyword)
		if err != nil {
			return nil, false, err
		}
		var all []*value
		for _, part := range parts {
			other, ok, err := ng.contrary(part)
			if err != nil || !ok {
				return nil, false, err
			}
			all = append(all, other)
		}
		return []*value{ng.made.both(s, all...)}, true, nil
	}
	return nil, false, nil
}
