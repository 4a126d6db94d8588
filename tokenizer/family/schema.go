package family

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// types is a set of JSON types.
type types uint8

const (
	typeString types = 1 << iota
	typeNumber
	typeInteger
	typeBoolean
	typeNull
	typeObject
	typeArray
	anyType = typeString | typeNumber | typeInteger | typeBoolean | typeNull | typeObject | typeArray
)

var typeNames = map[string]types{
	"string": typeString, "number": typeNumber | typeInteger, "integer": typeInteger, "boolean": typeBoolean, "null": typeNull,
	"object": typeObject, "array": typeArray,
}

// property is an argument of a tool.
type property struct {
	name     string
	types    types
	schema   json.RawMessage // with the definitions that it may refer to
	required bool
}

// properties reads the arguments that a tool's schema names, in its order. A schema that cannot be read names none.
func properties(schema []byte) []property {
	if len(schema) == 0 {
		return nil
	}
	var root struct {
		Properties  json.RawMessage            `json:"properties"`
		Defs        map[string]json.RawMessage `json:"$defs"`
		Definitions map[string]json.RawMessage `json:"definitions"`
		Required    []string                   `json:"required"`
	}
	if json.Unmarshal(schema, &root) != nil || len(root.Properties) == 0 {
		return nil
	}
	defs := root.Defs
	if defs == nil {
		defs = root.Definitions
	}
	d := json.NewDecoder(bytes.NewReader(root.Properties))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	var list []property
	for d.More() {
		name, err := d.Token()
		text, ok := name.(string)
		var value json.RawMessage
		if err != nil || !ok || d.Decode(&value) != nil {
			return list
		}
		list = append(list, property{
			name: text, types: typesIn(value, defs, 0), schema: withDefinitions(value, root.Defs, root.Definitions),
			required: slices.Contains(root.Required, text),
		})
	}
	return list
}

// withDefinitions is a property's schema as a document of its own.
func withDefinitions(schema json.RawMessage, defs, definitions map[string]json.RawMessage) json.RawMessage {
	if len(defs)+len(definitions) == 0 || !bytes.Contains(schema, []byte(`"$ref"`)) {
		return schema
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(schema, &object) != nil {
		return schema
	}
	if len(defs) > 0 {
		object["$defs"] = marshal(defs)
	}
	if len(definitions) > 0 {
		object["definitions"] = marshal(definitions)
	}
	return marshal(object)
}

// typesIn finds the types that a schema allows, of which a superset does no harm.
func typesIn(schema json.RawMessage, defs map[string]json.RawMessage, depth int) types {
	if depth > 8 {
		return anyType
	}
	var s struct {
		Type  json.RawMessage   `json:"type"`
		Enum  []json.RawMessage `json:"enum"`
		Const json.RawMessage   `json:"const"`
		AnyOf []json.RawMessage `json:"anyOf"`
		OneOf []json.RawMessage `json:"oneOf"`
		AllOf []json.RawMessage `json:"allOf"`
		Ref   string            `json:"$ref"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return anyType
	}
	all := anyType
	if t := namedTypes(s.Type); t != 0 {
		all &= t
	}
	if s.Const != nil {
		s.Enum = []json.RawMessage{s.Const}
	}
	if len(s.Enum) > 0 {
		all &= typesOfValues(s.Enum)
	}
	for _, list := range [][]json.RawMessage{s.AnyOf, s.OneOf} {
		if len(list) > 0 {
			var t types
			for _, item := range list {
				t |= typesIn(item, defs, depth+1)
			}
			all &= t
		}
	}
	for _, item := range s.AllOf {
		all &= typesIn(item, defs, depth+1)
	}
	if name := s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]; name != "" && defs[name] != nil {
		all &= typesIn(defs[name], defs, depth+1)
	}
	if all == 0 {
		return anyType
	}
	return all
}

// namedTypes reads "type": one name or a list of them.
func namedTypes(raw json.RawMessage) types {
	var names []string
	var one string
	if json.Unmarshal(raw, &one) == nil {
		names = []string{one}
	} else if json.Unmarshal(raw, &names) != nil {
		return 0
	}
	var t types
	for _, n := range names {
		t |= typeNames[n]
	}
	return t
}

func typesOfValues(values []json.RawMessage) types {
	var t types
	for _, v := range values {
		t |= typeOfJSON(v)
	}
	return t
}

// typeOfJSON is the type of a JSON text.
func typeOfJSON(v []byte) types {
	v = bytes.TrimSpace(v)
	if len(v) == 0 {
		return 0
	}
	switch v[0] {
	case '"':
		return typeString
	case '{':
		return typeObject
	case '[':
		return typeArray
	case 't', 'f':
		return typeBoolean
	case 'n':
		return typeNull
	}
	if whole := bytes.TrimRight(v, "0"); bytes.HasSuffix(whole, []byte(".")) || !bytes.ContainsAny(v, ".eE") {
		return typeNumber | typeInteger
	}
	return typeNumber
}

// typesOf finds an argument's types; one that the schema does not name may be anything.
func typesOf(list []property, name string) types {
	for _, p := range list {
		if p.name == name {
			return p.types
		}
	}
	return anyType
}

// appendTyped appends a raw value as JSON: of an allowed type other than string where it reads as one, else as a string.
func appendTyped(dst, raw []byte, allowed types) []byte {
	if out, ok := asJSON(raw, jsonSyntax); ok {
		t := typeOfJSON(out)
		// A quoted text is a JSON string only where the type is known to be something else or nothing.
		if t&allowed != 0 && t != typeString || t == typeString && allowed&typeString == 0 {
			return append(dst, out...)
		}
	}
	return appendQuoted(dst, raw)
}
