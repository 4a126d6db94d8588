package openapi

// Schema is a JSON Schema of draft 2020-12, as OpenAPI 3.1 has them.
type Schema map[string]any

// field is one of an object's.
type field struct {
	name   string
	schema Schema
	needed bool
}

// object has fields. Others may be there, too: what the server does not know it ignores, with a warning, or refuses (--strict).
func object(about string, fields ...field) Schema {
	properties, needed := map[string]any{}, []string{}
	for _, f := range fields {
		properties[f.name] = f.schema
		if f.needed {
			needed = append(needed, f.name)
		}
	}
	s := Schema{"type": "object", "properties": properties}
	if about != "" {
		s["description"] = about
	}
	if len(needed) > 0 {
		s["required"] = needed
	}
	return s
}

// need is a field that must be there, may one that need not.
func need(name string, s Schema) field { return field{name, s, true} }
func may(name string, s Schema) field  { return field{name, s, false} }

func typed(kind, about string) Schema {
	s := Schema{"type": kind}
	if about != "" {
		s["description"] = about
	}
	return s
}

func text(about string) Schema    { return typed("string", about) }
func integer(about string) Schema { return typed("integer", about) }
func number(about string) Schema  { return typed("number", about) }
func flag(about string) Schema    { return typed("boolean", about) }
func open(about string) Schema    { return typed("object", about) }

// within bounds a number or a count.
func within(s Schema, low, high float64) Schema {
	s["minimum"], s["maximum"] = low, high
	return s
}

func words(about string, of ...string) Schema {
	s := text(about)
	s["enum"] = of
	return s
}

func list(about string, of Schema) Schema {
	s := typed("array", about)
	s["items"] = of
	return s
}

func either(about string, of ...Schema) Schema {
	s := Schema{"anyOf": of}
	if about != "" {
		s["description"] = about
	}
	return s
}

// null lets a value be null.
func null(s Schema) Schema { return Schema{"anyOf": []Schema{s, {"type": "null"}}} }

// named refers to one of the document's schemas.
func named(name string) Schema { return Schema{"$ref": "#/components/schemas/" + name} }

func textOrTexts(about string) Schema { return either(about, text(""), list("", text(""))) }
