package family

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/regex"
)

// anyObject is the schema of tools without one.
var anyObject = []byte(`{"type":"object"}`)

// arguments are the rules of a tool's arguments.
func (g *builder) arguments(t *Tool) ([]grammar.Symbol, error) {
	if t.Input != nil {
		return g.input(t)
	}
	schema := t.Parameters
	if len(schema) == 0 {
		schema = anyObject
	}
	if g.layout.style == styleJSON {
		s, err := g.r.Schema(g.b, schema, t.Strict)
		return []grammar.Symbol{s}, err
	}
	list := properties(schema)
	if len(t.Parameters) > 0 && isOpen(schema) {
		if t.Strict {
			return nil, errors.New("the schema allows arguments that it does not name; list them under \"properties\", or leave out strict")
		}
		return g.anyArguments()
	}
	members := make([][]grammar.Symbol, len(list))
	for i := range list {
		var err error
		if members[i], err = g.member(&list[i], t.Strict); err != nil {
			return nil, fmt.Errorf("property %q: %w", list[i].name, err)
		}
	}
	all := g.members(list, members, 0, false, map[progress]grammar.Symbol{})
	if g.layout.style == styleGemma {
		return []grammar.Symbol{g.b.Literal("{"), all, g.b.Literal("}")}, nil
	}
	return []grammar.Symbol{all}, nil
}

// input is the rule of the only argument of a tool that takes one text.
func (g *builder) input(t *Tool) ([]grammar.Symbol, error) {
	site, front, end := InputSite{Quoted: true}, []grammar.Symbol(nil), g.text(`"`)
	switch g.layout.style {
	case styleJSON:
		front = []grammar.Symbol{g.b.Literal(`{"` + InputName + `":`), g.b.Regex(regex.Optional(regex.Literal(" "))), g.b.Literal(`"`)}
		end = g.text(`"}`)
	case stylePython:
		front = g.text(InputName + `="`)
	case styleGemma:
		quote := g.f.calls.syntax.quote
		site = InputSite{Ends: []string{quote}}
		front, end = g.text("{"+InputName+":"+quote), g.text(quote+"}")
	case styleTags:
		site = InputSite{Ends: g.f.calls.tags.ends(InputName)}
		front, end = g.tag(InputName, "string")
	}
	text, err := t.Input(g.b, site)
	return slices.Concat(front, []grammar.Symbol{text}, end), err
}

// isOpen reports whether a schema allows arguments that it does not name, which only JSON can follow.
func isOpen(schema []byte) bool {
	var s map[string]json.RawMessage
	if json.Unmarshal(schema, &s) != nil {
		return true
	}
	if rest, ok := s["additionalProperties"]; ok {
		return string(rest) != "false"
	}
	for _, k := range []string{"patternProperties", "$ref", "anyOf", "oneOf", "allOf"} {
		if s[k] != nil {
			return true
		}
	}
	return s["properties"] == nil
}

// anyArguments are arguments without a schema: whatever names and values the parser reads.
func (g *builder) anyArguments() ([]grammar.Symbol, error) {
	if g.layout.style == styleJSON {
		s, err := g.r.Schema(g.b, anyObject, false)
		return []grammar.Symbol{s}, err
	}
	value, err := g.r.Schema(g.b, []byte("{}"), false)
	if err != nil {
		return nil, err
	}
	word := regex.Or(regex.ByteRange('a', 'z'), regex.ByteRange('A', 'Z'), regex.ByteRange('0', '9'), regex.Literal("_"))
	name := g.b.Regex(regex.Repeat(word, 1, 64))
	if g.layout.style == styleTags {
		return []grammar.Symbol{g.b.Repeat(g.anyTag(name, value), 0, -1)}, nil
	}
	is, front, end := "=", []grammar.Symbol(nil), []grammar.Symbol(nil)
	if g.layout.style == styleGemma {
		is, front, end = ":", []grammar.Symbol{g.b.Literal("{")}, []grammar.Symbol{g.b.Literal("}")}
	}
	one := g.b.Define("argument", []grammar.Symbol{name, g.b.Literal(is), value})
	further := g.b.Repeat(g.b.Define("further argument", []grammar.Symbol{g.b.Literal(g.comma()), one}), 0, -1)
	list := g.b.Define("arguments", nil, []grammar.Symbol{one, further})
	return slices.Concat(front, []grammar.Symbol{list}, end), nil
}

// anyTag is one tagged argument: raw text, or JSON where the tag says that it is no string.
func (g *builder) anyTag(name, value grammar.Symbol) grammar.Symbol {
	tag := g.b.Rule("argument")
	raw := g.without(g.f.calls.tags.valueEnd)
	add := func(kind string, value grammar.Symbol) {
		mid := strings.ReplaceAll(g.layout.param[1], typeMark, kind)
		end, rest, keyed := strings.Cut(g.layout.paramEnd, keyMark)
		list := slices.Concat(g.text(g.layout.param[0]), []grammar.Symbol{name}, g.text(mid), []grammar.Symbol{value}, g.text(end))
		if keyed {
			list = slices.Concat(list, []grammar.Symbol{name}, g.text(rest))
		}
		g.b.Add(tag, list)
	}
	switch mid := g.layout.param[1]; {
	case strings.Contains(mid, `string="`+typeMark):
		add("true", raw)
		add("false", value)
	case strings.Contains(mid, typeMark):
		add("string", raw)
		for _, kind := range []string{"object", "array", "boolean", "number", "null"} {
			add(kind, value)
		}
	default:
		add("", raw)
	}
	return tag
}

// progress is how far a list of arguments has come.
type progress struct {
	at    int
	wrote bool
}

// members is the rule of the arguments from one on, in the schema's order, those that are not required left out or not.
func (g *builder) members(list []property, symbols [][]grammar.Symbol, at int, wrote bool, made map[progress]grammar.Symbol) grammar.Symbol {
	if s, ok := made[progress{at, wrote}]; ok {
		return s
	}
	rule := g.b.Rule("arguments")
	made[progress{at, wrote}] = rule
	if at == len(list) {
		g.b.Add(rule, nil)
		return rule
	}
	item := slices.Clone(symbols[at])
	if comma := g.comma(); wrote && comma != "" {
		item = append([]grammar.Symbol{g.b.Literal(comma)}, item...)
	}
	g.b.Add(rule, append(item, g.members(list, symbols, at+1, true, made)))
	if !list[at].required {
		g.b.Add(rule, []grammar.Symbol{g.members(list, symbols, at+1, wrote, made)})
	}
	return rule
}

// comma stands between two arguments.
func (g *builder) comma() string {
	switch g.layout.style {
	case stylePython:
		return ", "
	case styleGemma:
		return ","
	default:
	}
	return ""
}

// member is one argument with its name.
func (g *builder) member(p *property, strict bool) ([]grammar.Symbol, error) {
	switch g.layout.style {
	case stylePython:
		value, err := g.r.Schema(g.b, p.schema, strict)
		return []grammar.Symbol{g.b.Literal(p.name + "="), value}, err
	case styleGemma:
		return g.gemmaMember(p, strict)
	default:
	}
	if !validName(p.name) {
		return nil, errors.New("a name that cannot stand in a tag; rename it")
	}
	kind := "string"
	var value grammar.Symbol
	if p.types&typeString != 0 {
		text, err := rawText(p, strict, g.f.calls.tags.ends(p.name)...)
		if err != nil {
			return nil, err
		}
		value = g.b.Regex(text)
	} else {
		var err error
		if value, err = g.r.Schema(g.b, p.schema, strict); err != nil {
			return nil, err
		}
		kind = p.types.name()
	}
	front, end := g.tag(p.name, kind)
	return slices.Concat(front, []grammar.Symbol{value}, end), nil
}

// tag is what stands around a tagged argument of a JSON type.
func (g *builder) tag(name, kind string) (front, end []grammar.Symbol) {
	name = g.f.calls.tags.written(name)
	open := g.layout.param[0] + name + g.layout.param[1]
	if strings.Contains(open, `string="`+typeMark) {
		kind = strconv.FormatBool(kind == "string")
	}
	return g.text(strings.ReplaceAll(open, typeMark, kind)), g.text(strings.ReplaceAll(g.layout.paramEnd, keyMark, name))
}

// ends are the texts that end a value in the parser.
func (g *tags) ends(key string) []string {
	if g.nameIsTag() {
		return []string{g.valueEnd + key + ">"}
	}
	return []string{g.valueEnd}
}

// name is a JSON type of the set.
func (t types) name() string {
	for _, name := range []string{"object", "array", "boolean", "number", "null"} {
		if t&typeNames[name] != 0 {
			return name
		}
	}
	return "string"
}

// gemmaMember writes name:value, a string between the family's quotes.
func (g *builder) gemmaMember(p *property, strict bool) ([]grammar.Symbol, error) {
	quote := g.f.calls.syntax.quote
	name := g.b.Literal(p.name + ":")
	if slices.ContainsFunc([]byte(p.name), func(c byte) bool { return !isWord(c) }) {
		name = g.b.Literal(string(marshal(p.name)) + ":")
	}
	if p.types != typeString {
		value, err := g.r.Schema(g.b, p.schema, strict)
		return []grammar.Symbol{name, value}, err
	}
	text, err := rawText(p, strict, quote)
	if err != nil {
		return nil, err
	}
	return slices.Concat([]grammar.Symbol{name}, g.text(quote), []grammar.Symbol{g.b.Regex(text)}, g.text(quote)), nil
}

// rawText is the text of an argument that may be a string, between its markers. Where other types are allowed, too, any text
// reads as one of them or as the string.
func rawText(p *property, strict bool, ends ...string) (*regex.Regex, error) {
	free := regex.Without(ends...)
	var s struct {
		Enum      []any  `json:"enum"`
		Const     any    `json:"const"`
		MinLength int    `json:"minLength"`
		MaxLength *int   `json:"maxLength"`
		Pattern   string `json:"pattern"`
		Format    string `json:"format"`
		Ref       string `json:"$ref"`
	}
	if err := json.Unmarshal(p.schema, &s); err != nil {
		return free, nil //nolint:nilerr // a schema of true, or of a form that only the schema compiler judges
	}
	if s.Const != nil {
		s.Enum = []any{s.Const}
	}
	if len(s.Enum) > 0 {
		return regex.And(free, regex.Words(texts(s.Enum)...)), nil
	}
	if strict && s.Format != "" {
		return nil, fmt.Errorf("keyword \"format\" (%q) is not enforced in this model's raw strings; remove it, or strict", s.Format)
	}
	if s.MinLength > 0 || s.MaxLength != nil {
		most := -1
		if s.MaxLength != nil {
			most = *s.MaxLength
		}
		free = regex.And(free, regex.Repeat(regex.AnyRune(), s.MinLength, most))
	}
	if s.Pattern != "" {
		pattern, err := regex.Parse(s.Pattern, regex.JavaScript)
		if err != nil {
			if strict {
				return nil, fmt.Errorf("keyword \"pattern\": %w", err)
			}
			return free, nil
		}
		free = regex.And(free, pattern)
	}
	return free, nil
}

// texts are the values of an enum as raw text.
func texts(values []any) []string {
	list := make([]string, len(values))
	for i, v := range values {
		if text, ok := v.(string); ok {
			list[i] = text
		} else {
			list[i] = string(marshal(v))
		}
	}
	return list
}
