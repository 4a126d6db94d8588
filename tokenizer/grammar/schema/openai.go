package schema

import (
	"fmt"
	"slices"
	"unicode/utf8"
)

// Limits of OpenAI's strict schemas.
const (
	maxOpenAIProperties = 5_000
	maxOpenAIDepth      = 10
	maxOpenAIEnums      = 1_000
	maxOpenAIText       = 120_000
)

// refusedByOpenAI are keywords that strict schemas may not have.
var refusedByOpenAI = []string{"allOf", "oneOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies",
	"patternProperties", "propertyNames", "minProperties", "maxProperties", "unevaluatedProperties", "unevaluatedItems", "contains",
	"minContains", "maxContains", "uniqueItems", "prefixItems"}

// openAI counts what OpenAI's strict mode bounds.
type openAI struct {
	c                       *compiler
	properties, enums, text int
}

// checkOpenAI refuses what OpenAI refuses of strict schemas.
func (c *compiler) checkOpenAI() error {
	root := c.doc.root
	t, err := c.typesOf(root)
	if err != nil {
		return err
	}
	if root.kind != object || root.get("type") == nil || t != isObject || root.get("anyOf") != nil {
		return c.wrong(root, "", `a strict schema is an object at its root; write {"type":"object"} and put anyOf or other types into a property`)
	}
	return (&openAI{c: c}).check(root, 0)
}

func (o *openAI) check(s *value, depth int) error {
	if s.kind != object {
		return nil
	}
	for _, keyword := range refusedByOpenAI {
		if s.get(keyword) != nil {
			return o.c.wrong(s, keyword, "strict schemas do not have it; leave it out, or set strict to false")
		}
	}
	if err := o.checkObject(s, &depth); err != nil {
		return err
	}
	if enum := s.get("enum"); enum != nil {
		o.enums += len(enum.items)
		for _, v := range enum.items {
			o.text += utf8.RuneCountInString(v.text)
		}
	}
	if v := s.get("const"); v != nil {
		o.text += utf8.RuneCountInString(v.text)
	}
	for _, limit := range []struct {
		what     string
		n, limit int
	}{
		{"properties", o.properties, maxOpenAIProperties}, {"values in enums", o.enums, maxOpenAIEnums},
		{"characters in names and constants", o.text, maxOpenAIText}, {"levels of objects", depth, maxOpenAIDepth},
	} {
		if limit.n > limit.limit {
			return o.c.wrong(s, "", "%d %s, more than the %d that strict schemas may have; make it smaller, or set strict to false",
				limit.n, limit.what, limit.limit)
		}
	}
	return o.below(s, depth)
}

// checkObject wants objects closed and their properties required.
func (o *openAI) checkObject(s *value, depth *int) error {
	properties := s.get("properties")
	t, err := o.c.typesOf(s)
	if err != nil {
		return err
	}
	if properties == nil && (s.get("type") == nil || t&isObject == 0) {
		return nil
	}
	*depth++
	if closed := s.get("additionalProperties"); closed == nil || closed.kind != boolean || closed.truth {
		return o.c.wrong(s, "additionalProperties", "strict objects need additionalProperties set to false, and this one has %s; add it, "+
			"or set strict to false", shown(closed))
	}
	required, err := o.c.names(s, "required")
	if err != nil || properties == nil {
		return err
	}
	for _, name := range properties.keys {
		o.properties++
		o.text += utf8.RuneCountInString(name)
		if !slices.Contains(required, name) {
			return o.c.wrong(s, "required", "strict objects require every property, and %.80q is missing; add it, and give it the type "+
				`["T","null"] where it may be left out`, name)
		}
	}
	return nil
}

func shown(v *value) string {
	if v == nil {
		return "none"
	}
	return fmt.Sprintf("%.80s", canonical(nil, v))
}

// below checks the schemas inside a schema.
func (o *openAI) below(s *value, depth int) error {
	for i, keyword := range s.keys {
		v := s.items[i]
		var err error
		switch {
		case slices.Contains(holdsObject, keyword) && v.kind == object:
			inner := depth
			if keyword == "$defs" || keyword == "definitions" {
				inner = 0
			}
			for _, item := range v.items {
				if err = o.check(item, inner); err != nil {
					return err
				}
			}
		case slices.Contains(holdsList, keyword) && v.kind == array:
			for _, item := range v.items {
				if err = o.check(item, depth); err != nil {
					return err
				}
			}
		case slices.Contains(holdsSchema, keyword):
			err = o.check(v, depth)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
