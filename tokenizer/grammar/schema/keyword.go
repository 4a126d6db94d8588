package schema

import (
	"slices"
)

// assertions are the keywords that say something of a value by themselves; a schema with none of them is left out of a closure.
var assertions = map[string]bool{
	"type": true, "enum": true, "const": true, "nullable": true,
	"minimum": true, "maximum": true, "exclusiveMinimum": true, "exclusiveMaximum": true, "multipleOf": true,
	"minLength": true, "maxLength": true, "pattern": true, "format": true,
	"items": true, "prefixItems": true, "additionalItems": true, "unevaluatedItems": true, "contains": true, "minContains": true,
	"maxContains": true, "minItems": true, "maxItems": true, "uniqueItems": true,
	"properties": true, "patternProperties": true, "additionalProperties": true, "unevaluatedProperties": true, "propertyNames": true,
	"required": true, "minProperties": true, "maxProperties": true,
}

// inPlace are the keywords that apply other schemas to the same value.
var inPlace = map[string]bool{
	"$ref": true, "$dynamicRef": true, "$recursiveRef": true, "allOf": true, "anyOf": true, "oneOf": true, "not": true,
	"if": true, "then": true, "else": true, "dependentRequired": true, "dependentSchemas": true, "dependencies": true,
}

// reader reads what the keywords of one document say. What it finds wrong it tells, and counts as spent what others do with it.
type reader struct {
	doc *document
	*spending
	*findings
	made     *made
	patterns map[string]*pattern // by expression
}

func newReader(doc *document, o Options, s *spending) *reader {
	return &reader{doc: doc, spending: s, findings: &findings{options: o}, made: newMade(), patterns: map[string]*pattern{}}
}

// loosely reads the same document to ask what its schemas exclude, with steps and findings of its own.
func (rd *reader) loosely() *reader {
	return &reader{doc: rd.doc, spending: &spending{limits: rd.limits, meter: rd.meter, room: rd.room, fresh: true},
		findings: &findings{options: rd.options, loose: true}, made: rd.made, patterns: rd.patterns}
}

func (rd *reader) asserts(s *value) bool {
	return slices.ContainsFunc(s.keys, func(key string) bool {
		return (assertions[key] || inPlace[key] && key != "$ref" && key != "allOf" && key != "anyOf") && rd.doc.keyword(s, key) != nil
	})
}

// count reads a keyword that holds a count; without it the answer is standard.
func (rd *reader) count(s *value, keyword string, standard int) (int, error) {
	v := rd.doc.keyword(s, keyword)
	if v == nil {
		return standard, nil
	}
	if v.kind != number || !v.amount.IsInt() || v.amount.Sign() < 0 {
		return 0, wrong(s, keyword, "%.80s is no count; counts are whole numbers from 0", canonical(nil, v))
	}
	if n := v.amount.Num(); n.IsInt64() && n.Int64() <= maxCount {
		return int(n.Int64()), nil
	}
	return maxCount, nil
}

// maxCount is the largest count; a larger one means this many.
const maxCount = 1 << 24

// counts merges a lower and an upper count over members; most is -1 where there is no bound.
func (rd *reader) counts(members []*value, lower, upper string) (least, most int, err error) {
	most = -1
	for _, m := range members {
		n, err := rd.count(m, lower, 0)
		if err != nil {
			return 0, 0, err
		}
		least = max(least, n)
		if n, err = rd.count(m, upper, -1); err != nil {
			return 0, 0, err
		}
		if n >= 0 && (most < 0 || n < most) {
			most = n
		}
	}
	return least, most, nil
}

// members reads a keyword that holds an object, nil where there is none.
func (rd *reader) members(s *value, keyword string) (*value, error) {
	v := rd.doc.keyword(s, keyword)
	if v != nil && v.kind != object {
		return nil, wrong(s, keyword, "needs an object")
	}
	return v, nil
}

// names reads a keyword that holds a list of names.
func (rd *reader) names(s *value, keyword string) ([]string, error) {
	v := rd.doc.keyword(s, keyword)
	if v == nil || keyword == "required" && v.kind == boolean { // a boolean is of draft 3, which other tools pass over as well
		return nil, nil
	}
	if v.kind != array {
		return nil, wrong(s, keyword, "needs a list of names")
	}
	names := make([]string, len(v.items))
	for i, item := range v.items {
		if item.kind != text {
			return nil, wrong(s, keyword, "needs a list of names; %.80s is none", canonical(nil, item))
		}
		names[i] = item.text
	}
	return names, nil
}

// typesOf reads a schema's type and nullable.
func (rd *reader) typesOf(s *value) (types, error) {
	if t, ok := rd.made.types[s]; ok {
		return t, nil
	}
	v := rd.doc.keyword(s, "type")
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
			return 0, wrong(s, "type", "%.80s is no type; types are null, boolean, integer, number, string, array and object", canonical(nil, name))
		}
		set |= t
	}
	if n := s.get("nullable"); n != nil && n.kind == boolean && n.truth && rd.doc.root.get("$schema") == nil {
		set |= isNull
	}
	return set, nil
}

// list reads a keyword that holds a list of schemas, nil where there is none.
func (rd *reader) list(s *value, keyword string) ([]*value, error) {
	v := rd.doc.keyword(s, keyword)
	if v == nil {
		return nil, nil
	}
	if v.kind != array || len(v.items) == 0 {
		return nil, wrong(s, keyword, "needs a list of at least one schema")
	}
	return v.items, nil
}

// target is the schema that a reference of a schema names, nil where it has none.
func (rd *reader) target(s *value, keyword string) (*value, error) {
	ref := rd.doc.keyword(s, keyword)
	if ref == nil {
		return nil, nil
	}
	if ref.kind != text {
		return nil, wrong(s, keyword, "a reference is a string")
	}
	target, err := rd.doc.resolve(s, keyword, ref.text)
	if err != nil || keyword == "$ref" {
		return target, err
	}
	if keyword == "$recursiveRef" && len(rd.doc.resources) > 1 {
		return nil, wrong(s, keyword, "which schema is meant depends on how this one was reached, where a document has several $id; use $ref")
	}
	if a := target.get("$dynamicAnchor"); keyword == "$dynamicRef" && a != nil && rd.doc.dynamic[a.text] > 1 {
		return nil, wrong(s, keyword, "the anchor %.80q stands %d times, and which one is meant depends on the way; use $ref",
			a.text, rd.doc.dynamic[a.text])
	}
	return target, nil
}

// parts are the schemas that hold in a schema's place beside it.
func (rd *reader) parts(s *value) []*value {
	var parts []*value
	if all := rd.doc.keyword(s, "allOf"); all != nil && all.kind == array {
		parts = all.items
	}
	if target, err := rd.target(s, "$ref"); err == nil && target != nil {
		parts = append(slices.Clip(parts), target)
	}
	return parts
}
