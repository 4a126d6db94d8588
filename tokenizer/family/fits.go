package family

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
)

// fits reports whether a JSON value is one that a schema takes, by the keywords that tools use. Keywords that it does not know bind nothing.
func fits(value []byte, schema json.RawMessage) bool {
	if len(schema) == 0 {
		return true
	}
	return fit{definitionsIn(schema)}.takes(value, schema, 0)
}

type fit struct{ defs map[string]json.RawMessage }

// constraint is what of a schema is looked at.
type constraint struct {
	Type             json.RawMessage            `json:"type"`
	Enum             []json.RawMessage          `json:"enum"`
	Const            json.RawMessage            `json:"const"`
	Properties       map[string]json.RawMessage `json:"properties"`
	Required         []string                   `json:"required"`
	Others           json.RawMessage            `json:"additionalProperties"`
	Items            json.RawMessage            `json:"items"`
	MinItems         int                        `json:"minItems"`
	MaxItems         *int                       `json:"maxItems"`
	MinLength        int                        `json:"minLength"`
	MaxLength        *int                       `json:"maxLength"`
	Minimum, Maximum *float64
	AnyOf            []json.RawMessage `json:"anyOf"`
	OneOf            []json.RawMessage `json:"oneOf"`
	AllOf            []json.RawMessage `json:"allOf"`
	Ref              string            `json:"$ref"`
}

func (f fit) takes(value []byte, schema json.RawMessage, depth int) bool {
	if string(schema) == "false" {
		return false
	}
	var s constraint
	if depth > maxDepth || json.Unmarshal(schema, &s) != nil {
		return true // a schema of true, or one that nothing here can judge
	}
	inner := func(part json.RawMessage) bool { return f.takes(value, part, depth+1) }
	if t := namedTypes(s.Type); t != 0 && typeOfJSON(value)&t == 0 || !equalsOne(value, s.Enum) ||
		s.Const != nil && !equalsOne(value, []json.RawMessage{s.Const}) {
		return false
	}
	for _, list := range [][]json.RawMessage{s.AnyOf, s.OneOf} {
		if len(list) > 0 && !slices.ContainsFunc(list, inner) {
			return false
		}
	}
	if slices.ContainsFunc(s.AllOf, func(part json.RawMessage) bool { return !inner(part) }) {
		return false
	}
	if ref := f.defs[s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]]; ref != nil && !inner(ref) {
		return false
	}
	switch t := typeOfJSON(value); {
	case t == typeObject:
		return f.object(value, &s, depth)
	case t == typeArray:
		return f.list(value, &s, depth)
	case t == typeString:
		var text string
		_ = json.Unmarshal(value, &text) // a string by its first byte
		n := utf8.RuneCountInString(text)
		return n >= s.MinLength && (s.MaxLength == nil || n <= *s.MaxLength)
	case t&typeNumber != 0:
		var n float64
		_ = json.Unmarshal(value, &n)
		return (s.Minimum == nil || n >= *s.Minimum) && (s.Maximum == nil || n <= *s.Maximum)
	}
	return true
}

func (f fit) object(value []byte, s *constraint, depth int) bool {
	var object map[string]json.RawMessage
	if json.Unmarshal(value, &object) != nil {
		return false
	}
	for _, name := range s.Required {
		if object[name] == nil {
			return false
		}
	}
	for name, v := range object {
		schema, named := s.Properties[name]
		if !named {
			schema = s.Others
		}
		if len(schema) > 0 && !f.takes(v, schema, depth+1) {
			return false
		}
	}
	return true
}

func (f fit) list(value []byte, s *constraint, depth int) bool {
	var list []json.RawMessage
	if json.Unmarshal(value, &list) != nil || len(list) < s.MinItems || s.MaxItems != nil && len(list) > *s.MaxItems {
		return false
	}
	return len(s.Items) == 0 || !slices.ContainsFunc(list, func(v json.RawMessage) bool { return !f.takes(v, s.Items, depth+1) })
}

// equalsOne reports whether a value is one of a list; an empty list is any.
func equalsOne(value []byte, list []json.RawMessage) bool {
	return len(list) == 0 || slices.ContainsFunc(list, func(v json.RawMessage) bool { return equalJSON(value, v) })
}

func equalJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && string(marshal(x)) == string(marshal(y))
}
