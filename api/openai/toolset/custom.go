package toolset

import (
	"encoding/json"

	"weir/api"
	"weir/api/openai/digest"
	"weir/api/openai/jsonbody"
	"weir/tokenizer/family"
	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/notation"
	"weir/tokenizer/grammar/regex"
	"weir/tokenizer/grammar/schema"
)

// A custom tool takes one text instead of arguments. No model knows such tools: a template
// gets a function whose only argument, a string, is that text, and what the model writes there is
// what the client gets. A format binds the text, inside of the JSON or the tags in which
// the model's family writes it.

// InputFormat is what the text of a custom tool must look like; nil is any text.
type InputFormat struct {
	syntax     string // lark or regex
	definition string
	field      string // of the request that holds the definition
}

// readCustom reads {name, description, format}.
func (t *Set) readCustom(f *jsonbody.Object) *api.Error {
	var fault *api.Error
	name := t.readName(f, &fault)
	description := readDescription(f, &fault)
	format := readInputFormat(f, &fault)
	f.Finish(&fault)
	if fault != nil {
		return fault
	}
	tool := family.Tool{Name: name, Description: description, Parameters: format.parameters()}
	if format != nil {
		tool.Strict, tool.Input = true, format.add
	}
	if t.Inputs == nil {
		t.Inputs = map[string]*InputFormat{}
	}
	t.Inputs[name] = format
	function := &jsonbody.Object{}
	function.Add("name", api.AppendString(nil, name))
	function.Add("description", api.AppendString(nil, description))
	function.Add("parameters", tool.Parameters)
	t.Tools = append(t.Tools, tool)
	t.Listed = append(api.AppendComma(t.Listed, len(t.Tools)-1), `{"type":"function","function":`...)
	t.Listed = append(function.AppendJSON(t.Listed), '}')
	return nil
}

// IsCustom reports whether a tool takes a text instead of arguments.
func (t *Set) IsCustom(name string) bool {
	_, custom := t.Inputs[name]
	return custom
}

// readInputFormat reads {"type":"text"} or {"type":"grammar","grammar":{"syntax","definition"}}.
func readInputFormat(o *jsonbody.Object, fault **api.Error) *InputFormat {
	f, ok := o.Inner("format", fault)
	if !ok {
		return nil
	}
	kind := f.Need("type", fault)
	inner, has := f.Inner("grammar", fault)
	f.Finish(fault)
	switch {
	case *fault != nil || kind == "text" && !has:
		return nil
	case kind != "grammar":
		path := jsonbody.Join(f.Path, "type")
		jsonbody.Keep(fault, api.RefuseParam("invalid_value", path, "%s is %s; it must be text, or grammar with an object grammar", path, jsonbody.HeaderQuote(kind)))
		return nil
	case !has:
		jsonbody.Keep(fault, jsonbody.Missing(jsonbody.Join(f.Path, "grammar"), "an object with syntax and definition"))
		return nil
	}
	format := &InputFormat{
		syntax: inner.Need("syntax", fault), definition: inner.Need("definition", fault), field: jsonbody.Join(inner.Path, "definition"),
	}
	inner.Finish(fault)
	if *fault == nil && format.syntax != "lark" && format.syntax != "regex" {
		path := jsonbody.Join(inner.Path, "syntax")
		jsonbody.Keep(fault, api.RefuseParam("invalid_value", path, "%s is %s; it must be lark or regex", path, jsonbody.HeaderQuote(format.syntax)))
	}
	return format
}

// parameters is the schema that the model sees. A format is told in words: what binds the
// tokens does not make the model want them.
func (f *InputFormat) parameters() []byte {
	text := ""
	if f != nil {
		text = `,"description":` + string(api.AppendString(nil, map[string]string{
			"lark": "Text that this Lark grammar allows:\n", "regex": "Text that this regular expression matches: ",
		}[f.syntax]+f.definition))
	}
	return []byte(`{"type":"object","properties":{"` + family.InputName + `":{"type":"string"` + text +
		`}},"required":["` + family.InputName + `"],"additionalProperties":false}`)
}

// add adds the rule of the text where it stands in a call.
func (f *InputFormat) add(b *grammar.Builder, s family.InputSite) (grammar.Symbol, error) {
	write := func(r *regex.Regex) *regex.Regex { return r }
	switch {
	case s.Quoted:
		write = schema.Spell
	case len(s.Ends) > 0:
		write = func(r *regex.Regex) *regex.Regex { return regex.And(r, regex.Without(s.Ends...)) }
	}
	if f.syntax == "lark" {
		return notation.LarkSpelled(b, f.definition, write)
	}
	r, err := regex.Parse(f.definition, regex.RE2)
	if err != nil {
		return 0, err
	}
	return b.Regex(write(r)), nil
}

// Told is a tool whose wrong format is told under the name of its field.
func (f *InputFormat) Told(tool family.Tool, fault **api.Error) family.Tool {
	tool.Input = func(b *grammar.Builder, s family.InputSite) (grammar.Symbol, error) {
		symbol, err := f.add(b, s)
		if err != nil {
			*fault = api.RefuseParam("invalid_grammar", f.field, "%s: %v", f.field, err)
		}
		return symbol, err
	}
	return tool
}

// WriteTo hashes what decides on the rules of the text.
func (f *InputFormat) WriteTo(d digest.Writer) {
	d.Flag(f != nil)
	if f != nil {
		d.Text(f.syntax)
		d.Text(f.definition)
	}
}

// ArgumentsOfInput is the JSON of the arguments that stand for a custom tool's text.
func ArgumentsOfInput(text string) json.RawMessage {
	return append(api.AppendString([]byte(`{"`+family.InputName+`":`), text), '}')
}
