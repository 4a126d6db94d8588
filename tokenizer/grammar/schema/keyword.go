package schema

import (
	"errors"
	"fmt"
	"slices"

	"weir/tokenizer/grammar/regex"
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

func (c *compiler) asserts(s *value) bool {
	return slices.ContainsFunc(s.keys, func(key string) bool {
		return (assertions[key] || inPlace[key] && key != "$ref" && key != "allOf" && key != "anyOf") && c.doc.keyword(s, key) != nil
	})
}

// wrong is the error of a keyword whose value makes no sense.
func (c *compiler) wrong(s *value, keyword, format string, args ...any) error {
	pointer := s.pointer()
	if keyword != "" {
		pointer += "/" + keyword
	}
	return &Error{Pointer: pointer, Keyword: keyword, Reason: fmt.Sprintf(format, args...)}
}

// refuse is the error of a keyword that cannot be enforced; a lenient compiler notes it instead and goes on.
func (c *compiler) refuse(s *value, keyword, format string, args ...any) error {
	if c.loose {
		return nil
	}
	return c.orIgnore(c.wrong(s, keyword, format, args...))
}

// orIgnore notes an error of a keyword as ignored where the options are lenient, and else returns it. A pattern that is
// none in any dialect is a mistake of its author, which should not be ignored.
func (c *compiler) orIgnore(err error) error {
	var e *Error
	if c.options.Strict || !errors.As(err, &e) || e.Keyword == "" || errors.Is(err, regex.ErrPattern) {
		return err
	}
	c.ignore(e)
	return nil
}

// ignore notes what is not enforced, once.
func (c *compiler) ignore(e *Error) {
	note := Ignored{Pointer: e.Pointer, Keyword: e.Keyword, Reason: e.Reason}
	if !slices.ContainsFunc(c.report.Ignored, func(i Ignored) bool { return i.Pointer == note.Pointer }) {
		c.report.Ignored = append(c.report.Ignored, note)
	}
}

// count reads a keyword that holds a count; without it the answer is standard.
func (c *compiler) count(s *value, keyword string, standard int) (int, error) {
	v := c.doc.keyword(s, keyword)
	if v == nil {
		return standard, nil
	}
	if v.kind != number || !v.amount.IsInt() || v.amount.Sign() < 0 {
		return 0, c.wrong(s, keyword, "%.80s is no count; counts are whole numbers from 0", canonical(nil, v))
	}
	if n := v.amount.Num(); n.IsInt64() && n.Int64() <= maxCount {
		return int(n.Int64()), nil
	}
	return maxCount, nil
}

// maxCount is the largest count; a larger one means this many.
const maxCount = 1 << 24

// counts merges a lower and an upper count over members; most is -1 where there is no bound.
func (c *compiler) counts(members []*value, lower, upper string) (least, most int, err error) {
	most = -1
	for _, m := range members {
		n, err := c.count(m, lower, 0)
		if err != nil {
			return 0, 0, err
		}
		least = max(least, n)
		if n, err = c.count(m, upper, -1); err != nil {
			return 0, 0, err
		}
		if n >= 0 && (most < 0 || n < most) {
			most = n
		}
	}
	return least, most, nil
}

// object reads a keyword that holds an object, nil where there is none.
func (c *compiler) members(s *value, keyword string) (*value, error) {
	v := c.doc.keyword(s, keyword)
	if v != nil && v.kind != object {
		return nil, c.wrong(s, keyword, "needs an object")
	}
	return v, nil
}

// names reads a keyword that holds a list of names.
func (c *compiler) names(s *value, keyword string) ([]string, error) {
	v := c.doc.keyword(s, keyword)
	if v == nil || keyword == "required" && v.kind == boolean { // a boolean is of draft 3, which other tools pass over as well
		return nil, nil
	}
	if v.kind != array {
		return nil, c.wrong(s, keyword, "needs a list of names")
	}
	names := make([]string, len(v.items))
	for i, item := range v.items {
		if item.kind != text {
			return nil, c.wrong(s, keyword, "needs a list of names; %.80s is none", canonical(nil, item))
		}
		names[i] = item.text
	}
	return names, nil
}
