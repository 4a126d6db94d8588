package schema

import (
	"math/big"
	"slices"
	"unicode/utf8"
)

// maxCheckDepth bounds the schemas that checking one constant goes through.
const maxCheckDepth = 200

// checker tells whether constants of a document satisfy its schemas.
type checker struct {
	*reader
	enums *enums
	depth int
}

// holds reports whether v satisfies s, with everything that s says.
func (k *checker) holds(s, v *value) (bool, error) {
	if s.kind == boolean {
		return s.truth, nil
	}
	if s.kind != object {
		return false, wrong(s, "", "%.80s is no schema; a schema is an object, true or false", canonical(nil, s))
	}
	if k.depth >= maxCheckDepth {
		return false, wrong(s, "", "references lead back to this schema without reading a value")
	}
	if err := k.spend(1); err != nil {
		return false, err
	}
	k.depth++
	defer func() { k.depth-- }()
	for _, rule := range []func(s, v *value) (bool, error){k.listed, k.combined, k.conditional, k.numeric, k.textual, k.listwise, k.objectwise} {
		if ok, err := rule(s, v); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

func typeOf(v *value) types {
	switch v.kind {
	case null:
		return isNull
	case boolean:
		return isBoolean
	case number:
		if v.amount.IsInt() {
			return isInteger
		}
		return isFraction
	case text:
		return isText
	case array:
		return isArray
	default:
		return isObject
	}
}

// listed is type, enum and const.
func (k *checker) listed(s, v *value) (bool, error) {
	t, err := k.typesOf(s)
	if err != nil || t&typeOf(v) == 0 {
		return false, err
	}
	if slices.ContainsFunc(k.made.excluded[s], func(out *value) bool { return same(out, v) }) {
		return false, nil
	}
	if want := k.doc.keyword(s, "const"); want != nil && !same(want, v) {
		return false, nil
	}
	list := k.doc.keyword(s, "enum")
	if list == nil {
		return true, nil
	}
	return k.enums.among(list, v)
}

// combined is references, allOf, anyOf, oneOf and not.
func (k *checker) combined(s, v *value) (bool, error) {
	for _, keyword := range []string{"$ref", "$dynamicRef", "$recursiveRef"} {
		target, err := k.target(s, keyword)
		if err != nil {
			return false, err
		}
		if target != nil {
			if ok, err := k.holds(target, v); !ok || err != nil {
				return false, err
			}
		}
	}
	for _, rule := range []struct {
		keyword string
		fits    func(held, all int) bool
	}{
		{"allOf", func(held, all int) bool { return held == all }},
		{"anyOf", func(held, _ int) bool { return held > 0 }},
		{"oneOf", func(held, _ int) bool { return held == 1 }},
	} {
		list, err := k.list(s, rule.keyword)
		if err != nil {
			return false, err
		}
		held := 0
		for _, part := range list {
			ok, err := k.holds(part, v)
			if err != nil {
				return false, err
			}
			if ok {
				held++
			}
		}
		if list != nil && !rule.fits(held, len(list)) {
			return false, nil
		}
	}
	if no := k.doc.keyword(s, "not"); no != nil {
		ok, err := k.holds(no, v)
		return !ok, err
	}
	return true, nil
}

// conditional is if, then and else, and the keywords of properties that need one another.
func (k *checker) conditional(s, v *value) (bool, error) {
	if cond := k.doc.keyword(s, "if"); cond != nil {
		ok, err := k.holds(cond, v)
		if err != nil {
			return false, err
		}
		branch := "else"
		if ok {
			branch = "then"
		}
		if b := k.doc.keyword(s, branch); b != nil {
			if ok, err := k.holds(b, v); !ok || err != nil {
				return false, err
			}
		}
	}
	if v.kind != object {
		return true, nil
	}
	for _, keyword := range []string{"dependentRequired", "dependentSchemas", "dependencies"} {
		needs, err := k.members(s, keyword)
		if err != nil || needs == nil {
			if err != nil {
				return false, err
			}
			continue
		}
		for i, name := range needs.keys {
			if v.get(name) == nil {
				continue
			}
			if need := needs.items[i]; need.kind == array {
				for _, other := range need.items {
					if v.get(other.text) == nil {
						return false, nil
					}
				}
			} else if ok, err := k.holds(need, v); !ok || err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

func (k *checker) numeric(s, v *value) (bool, error) {
	if v.kind != number {
		return true, nil
	}
	r, err := k.spanOf([]*value{s})
	if err != nil {
		return false, err
	}
	if r.low != nil && (v.amount.Cmp(r.low) < 0 || r.openLow && v.amount.Cmp(r.low) == 0) ||
		r.high != nil && (v.amount.Cmp(r.high) > 0 || r.openHigh && v.amount.Cmp(r.high) == 0) {
		return false, nil
	}
	if d := k.made.indivisible[s]; d != nil && new(big.Rat).Quo(v.amount, d).IsInt() {
		return false, nil
	}
	m, err := k.multipleOf(s)
	return m == nil || new(big.Rat).Quo(v.amount, m).IsInt(), err
}

func (k *checker) textual(s, v *value) (bool, error) {
	if v.kind != text {
		return true, nil
	}
	t, err := k.textOf([]*value{s})
	if err != nil {
		return false, err
	}
	n := utf8.RuneCountInString(v.text)
	if n < t.least || t.most >= 0 && n > t.most {
		return false, nil
	}
	for _, p := range t.patterns {
		if ok, err := k.matches(p.plain, v.text); !ok || err != nil {
			return false, err
		}
	}
	for _, p := range t.not {
		if ok, err := k.matches(p.plain, v.text); ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (k *checker) listwise(s, v *value) (bool, error) {
	if v.kind != array {
		return true, nil
	}
	least, most, err := k.counts([]*value{s}, "minItems", "maxItems")
	if err != nil || len(v.items) < least || most >= 0 && len(v.items) > most {
		return false, err
	}
	part, err := k.arrayPart(s)
	if err != nil {
		return false, err
	}
	for i, item := range v.items {
		rule := part.rest
		if i < len(part.items) {
			rule = part.items[i]
		}
		if rule != nil {
			if ok, err := k.holds(rule, item); !ok || err != nil {
				return false, err
			}
		}
	}
	if u := k.doc.keyword(s, "uniqueItems"); u != nil && u.truth {
		for i, a := range v.items {
			for _, b := range v.items[:i] {
				if same(a, b) {
					return false, nil
				}
			}
		}
	}
	if err := k.unevaluated([]*value{s}, "unevaluatedItems"); err != nil {
		return false, err
	}
	return k.contains(s, v)
}

func (k *checker) contains(s, v *value) (bool, error) {
	rule := k.doc.keyword(s, "contains")
	if rule == nil {
		return true, nil
	}
	least, err := k.count(s, "minContains", 1)
	if err != nil {
		return false, err
	}
	most, err := k.count(s, "maxContains", len(v.items))
	if err != nil {
		return false, err
	}
	held := 0
	for _, item := range v.items {
		ok, err := k.holds(rule, item)
		if err != nil {
			return false, err
		}
		if ok {
			held++
		}
	}
	return held >= least && held <= most, nil
}

func (k *checker) objectwise(s, v *value) (bool, error) {
	if v.kind != object {
		return true, nil
	}
	least, most, err := k.counts([]*value{s}, "minProperties", "maxProperties")
	if err != nil || len(v.keys) < least || most >= 0 && len(v.keys) > most {
		return false, err
	}
	if known, ok := k.made.foreign[s]; ok && !slices.ContainsFunc(v.keys, func(name string) bool { return !slices.Contains(known, name) }) {
		return false, nil
	}
	required, err := k.names(s, "required")
	if err != nil {
		return false, err
	}
	for _, name := range required {
		if v.get(name) == nil {
			return false, nil
		}
	}
	parts, err := k.objectParts([]*value{s})
	if err != nil {
		return false, err
	}
	names := k.doc.keyword(s, "propertyNames")
	for i, name := range v.keys {
		set, err := k.propertySet(parts, name)
		if err != nil {
			return false, err
		}
		for _, rule := range set {
			if ok, err := k.holds(rule, v.items[i]); !ok || err != nil {
				return false, err
			}
		}
		if names != nil {
			if ok, err := k.holds(names, &value{kind: text, text: name}); !ok || err != nil {
				return false, err
			}
		}
	}
	return true, k.unevaluated([]*value{s}, "unevaluatedProperties")
}

// enums looks up the values of enums: large ones are held against one another.
type enums struct {
	*spending
	values map[*value]map[string]bool // by list: the fingerprints of its scalars
}

// among reports whether a list of an enum has a value.
func (e *enums) among(list, v *value) (bool, error) {
	if v.kind != array && v.kind != object {
		set, ok := e.values[list]
		if !ok {
			if err := e.spend(len(list.items)); err != nil {
				return false, err
			}
			set = map[string]bool{}
			for _, item := range list.items {
				set[string(fingerprint(nil, item))] = true
			}
			e.values[list] = set
		}
		return set[string(fingerprint(nil, v))], e.spend(1)
	}
	if err := e.spend(len(list.items)); err != nil {
		return false, err
	}
	return slices.ContainsFunc(list.items, func(want *value) bool { return same(want, v) }), nil
}
