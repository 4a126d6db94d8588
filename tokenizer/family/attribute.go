package family

import "strings"

// The names and types that stand in attributes of tags.

// valid reports whether a text can be the name of a call or of an argument. Between quotes, with escapes, it may have any signs.
func (g *tags) valid(name string) bool {
	if g.escaped {
		return name != "" && len(name) <= 256 && !strings.ContainsAny(name, "\n\r")
	}
	return validName(name)
}

// nameIn is the name in a tag: its attribute name, or the other.
func (g *tags) nameIn(tag, other string) string {
	name := attribute(tag, "name")
	if name == "" {
		name = attribute(tag, other)
	}
	if g.escaped {
		return attributeUnescaper.Replace(name)
	}
	return name
}

// written is a name as it stands in a tag.
func (g *tags) written(name string) string {
	if g.escaped {
		return attributeEscaper.Replace(name)
	}
	return name
}

var (
	attributeEscaper   = strings.NewReplacer("&", "&amp;", `"`, "&quot;")
	attributeUnescaper = strings.NewReplacer("&amp;", "&", "&quot;", `"`)
)

// undoubled is the tool in a name that stands twice: f.f is f, where that is a tool of the request.
func (r *request) undoubled(name string) string {
	if first, second, ok := strings.Cut(name, "."); ok && first == second && r.tools[name] == nil && r.tools[first] != nil {
		return first
	}
	return name
}

// attribute is the value of name="value" in a tag.
func attribute(tag, name string) string {
	_, rest, ok := strings.Cut(" "+tag, " "+name+`="`)
	if !ok {
		return ""
	}
	value, _, ok := strings.Cut(rest, `"`)
	if !ok {
		return ""
	}
	return value
}
