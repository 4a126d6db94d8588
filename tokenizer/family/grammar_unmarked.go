package family

import (
	"slices"

	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/regex"
)

// unmarked is how calls without markers stand in an answer that may be text: at its beginning, or at the beginning of a line.
type unmarked struct {
	begin *regex.Regex   // such a call up to its tool's name
	calls grammar.Symbol // such calls
}

// blanks is the white space of JSON.
var blanks = regex.Repeat(regex.Words(" ", "\n", "\r", "\t"), 0, -1)

// unmarked adds the rules of calls without markers, nil where the family's models write none. The calls' own rules have been added.
func (g *builder) unmarked() *unmarked {
	m := g.f.calls
	if len(m.fences) == 0 || len(g.tools) == 0 {
		return nil
	}
	bare := slices.Contains(m.lineMarkers, "\n{")
	block, names := g.b.Rule("call without markers"), make([]string, len(g.tools))
	for i := range g.tools {
		names[i] = g.tools[i].Name
	}
	named := regex.Nothing()
	for _, form := range objectForms {
		for i := range g.tools {
			arguments, err := g.argumentsOf(&g.tools[i])
			if err != nil {
				g.b.Fail(err)
				return nil
			}
			front := regex.Concat(form.front, regex.Literal(names[i]+`"`), blanks, regex.Literal(","), blanks, argumentsKey, blanks)
			g.b.Add(block, slices.Concat([]grammar.Symbol{g.b.Regex(front)}, arguments, []grammar.Symbol{g.b.Regex(form.end)}))
		}
		named = regex.Or(named, regex.Concat(form.front, regex.Words(names...), regex.Literal(`"`)))
	}
	list := g.list(block)
	u := &unmarked{begin: regex.Nothing(), calls: g.b.Rule("calls without markers")}
	inside := regex.Concat(regex.Optional(regex.Concat(regex.Literal("["), blanks)), named)
	if bare {
		u.begin = inside
		g.b.Add(u.calls, []grammar.Symbol{list})
	}
	for _, f := range m.fences {
		open := regex.Concat(f.begin(), blanks)
		u.begin = regex.Or(u.begin, regex.Concat(open, inside))
		g.b.Add(u.calls, []grammar.Symbol{g.b.Regex(open), list, g.b.Regex(regex.Concat(blanks, regex.Literal(f.close)))})
	}
	return u
}

// list is one call, several where the answer may have them, or a list of calls between brackets.
func (g *builder) list(one grammar.Symbol) grammar.Symbol {
	lines, items := []grammar.Symbol{one}, []grammar.Symbol{one}
	if g.r.Choice.Parallel && !g.layout.single {
		line := g.b.Define("further line", []grammar.Symbol{g.b.Regex(regex.Concat(regex.Literal("\n"), blanks)), one})
		item := g.b.Define("further item", []grammar.Symbol{g.b.Regex(regex.Concat(blanks, regex.Literal(","), blanks)), one})
		lines, items = append(lines, g.b.Repeat(line, 0, -1)), append(items, g.b.Repeat(item, 0, -1))
	}
	open, end := regex.Concat(regex.Literal("["), blanks), regex.Concat(blanks, regex.Literal("]"))
	return g.b.Define("block of calls", lines, slices.Concat([]grammar.Symbol{g.b.Regex(open)}, items, []grammar.Symbol{g.b.Regex(end)}))
}

// begin is the beginning of a fence, with the name of a language.
func (f *fence) begin() *regex.Regex {
	if !f.named {
		return regex.Literal(f.open)
	}
	word := regex.Or(regex.ByteRange('a', 'z'), regex.ByteRange('A', 'Z'), regex.ByteRange('0', '9'), regex.Words("_", "-"))
	return regex.Concat(regex.Literal(f.open), regex.Repeat(word, 0, 32))
}

// without is a text that begins no such call; before is one behind which such calls may stand.
func (u *unmarked) without(text *regex.Regex) *regex.Regex {
	if u == nil {
		return text
	}
	return regex.And(text, regex.Not(regex.Concat(lineOfAnswer, u.begin, regex.Not(regex.Nothing()))))
}

func (u *unmarked) before(text *regex.Regex) *regex.Regex { return regex.And(text, lineOfAnswer) }

// lineOfAnswer is what ends at the beginning of a line, or in the white space that an answer begins with.
var lineOfAnswer = regex.Or(blanks, regex.Concat(regex.Not(regex.Nothing()), regex.Literal("\n")))

// objectForm is a way in which models write the object of a call.
type objectForm struct{ front, end *regex.Regex } // up to the quote before the name, and behind the arguments

var (
	argumentsKey = regex.Concat(regex.Words(`"arguments"`, `"parameters"`), blanks, regex.Literal(":"))
	typeField    = regex.Optional(regex.Concat(regex.Literal(`"type"`), blanks, regex.Literal(":"), blanks, regex.Literal(`"function"`), blanks, regex.Literal(","), blanks))
	nameField    = regex.Concat(typeField, regex.Words(`"name"`, `"function"`), blanks, regex.Literal(":"), blanks, regex.Literal(`"`))
	nestedField  = regex.Concat(typeField, regex.Literal(`"function"`), blanks, regex.Literal(":"), blanks, regex.Literal("{"), blanks, nameField)

	// objectForms are a plain object, one with doubled braces, and one of the OpenAI API.
	objectForms = []objectForm{
		{regex.Concat(regex.Literal("{"), blanks, nameField), regex.Concat(blanks, regex.Literal("}"))},
		{regex.Concat(regex.Literal("{{"), blanks, nameField), regex.Concat(blanks, regex.Literal("}}"))},
		{regex.Concat(regex.Literal("{"), blanks, nestedField), regex.Concat(blanks, regex.Literal("}"), blanks, regex.Literal("}"))},
	}
)
