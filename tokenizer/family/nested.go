package family

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// Tagged values that hold tags of their own: objects as a tag for each member, lists as a tag named item for each item.

// nestedEnd finds the end of a value whose tag is named key: its length, and that of the closing tag.
func (g *tags) nestedEnd(key string, rest []byte) (n, marker int, s status) {
	open, end := g.key+key+g.keyEnd, g.valueEnd+key+g.keyEnd
	depth := 0
	for from := 0; ; {
		at, m := firstMarker(rest[from:], []string{open, end})
		at += from
		switch {
		case m < 0:
			return 0, 0, more
		case m == 0:
			depth++
		case depth == 0:
			return at, len(end), done
		default:
			depth--
		}
		from = at + 1
	}
}

// nestedTag is one tag in a value.
type nestedTag struct {
	name string
	raw  []byte
}

// nested reads a value that is a list of tags and white space; false where it is anything else.
func (g *tags) nested(raw []byte) (list []nestedTag, ok bool) {
	for {
		raw = raw[skipBlank(raw):]
		if len(raw) == 0 {
			return list, len(list) > 0
		}
		if !bytes.HasPrefix(raw, []byte(g.key)) {
			return nil, false
		}
		head := raw[len(g.key):]
		at := bytes.Index(head, []byte(g.keyEnd))
		if at < 0 || !validName(string(head[:at])) {
			return nil, false
		}
		name := string(head[:at])
		body := head[at+len(g.keyEnd):]
		n, marker, s := g.nestedEnd(name, body)
		if s != done {
			return nil, false
		}
		list = append(list, nestedTag{name, body[:n]})
		raw = body[n+marker:]
	}
}

// appendNested appends the JSON of a value by its schema.
func (g *tags) appendNested(dst, raw []byte, schema json.RawMessage) []byte {
	allowed := typesIn(schema, definitionsIn(schema), 0)
	list, ok := g.nested(raw)
	if !ok || allowed&(typeObject|typeArray) == 0 || allowed&typeString != 0 && allowed != anyType {
		return appendTyped(dst, raw, allowed)
	}
	items := !slices.ContainsFunc(list, func(t nestedTag) bool { return t.name != "item" })
	if allowed&typeObject == 0 || items && allowed&typeArray != 0 {
		dst = append(dst, '[')
		for i, t := range list {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			dst = g.appendNested(dst, t.raw, within(schema, ""))
		}
		return append(dst, ']')
	}
	dst = append(dst, '{')
	for i, t := range list {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = append(appendQuoted(dst, []byte(t.name)), ": "...)
		dst = g.appendNested(dst, t.raw, within(schema, t.name))
	}
	return append(dst, '}')
}

// schemaOf is the schema of an argument; one that is not named may be anything.
func schemaOf(list []property, name string) json.RawMessage {
	for _, p := range list {
		if p.name == name {
			return p.schema
		}
	}
	return json.RawMessage("{}")
}

// definitionsIn are those that a schema brings along.
func definitionsIn(schema json.RawMessage) map[string]json.RawMessage {
	var s struct {
		Defs        map[string]json.RawMessage `json:"$defs"`
		Definitions map[string]json.RawMessage `json:"definitions"`
	}
	_ = json.Unmarshal(schema, &s) // a schema of true has none
	if s.Defs == nil {
		return s.Definitions
	}
	return s.Defs
}

// within is the schema of a member of an object, or, without a name, of a list's items, with the definitions that it may refer to.
func within(schema json.RawMessage, name string) json.RawMessage {
	defs := definitionsIn(schema)
	if found := find(schema, name, defs, 0); found != nil {
		return withDefinitions(found, defs, nil)
	}
	return json.RawMessage("{}")
}

func find(schema json.RawMessage, name string, defs map[string]json.RawMessage, depth int) json.RawMessage {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Others     json.RawMessage            `json:"additionalProperties"`
		Items      json.RawMessage            `json:"items"`
		AnyOf      []json.RawMessage          `json:"anyOf"`
		OneOf      []json.RawMessage          `json:"oneOf"`
		AllOf      []json.RawMessage          `json:"allOf"`
		Ref        string                     `json:"$ref"`
	}
	if depth > 8 || json.Unmarshal(schema, &s) != nil {
		return nil
	}
	if name == "" && s.Items != nil {
		return s.Items
	}
	if p := s.Properties[name]; p != nil {
		return p
	}
	parts := slices.Concat(s.AnyOf, s.OneOf, s.AllOf)
	if ref := defs[s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]]; ref != nil {
		parts = append(parts, ref)
	}
	for _, part := range parts {
		if found := find(part, name, defs, depth+1); found != nil {
			return found
		}
	}
	if name != "" && len(s.Others) > 0 && s.Others[0] == '{' {
		return s.Others
	}
	return nil
}
