package format

import (
	"strconv"

	"weir/api"
	"weir/api/openai/jsonbody"
	"weir/tokenizer/grammar/schema"
)

const (
	maxFormatName   = 64    // bytes; the OpenAI API's limit
	maxAlternatives = 10000 // of a choice
)

// Read reads what answers must look like, under the names of the OpenAI API
// (response_format), of vLLM (structured_outputs, and guided_* of its earlier releases),
// of llama-server (json_schema, grammar) and of SGLang (regex, ebnf). One of them may be there; nil is text.
//
// rules are those of its schemas.
func Read(o *jsonbody.Object, rules SchemaRules, fault **api.Error) *Format {
	r := &reader{o: o, fault: fault, rules: rules}
	r.response()
	if inner, ok := o.Inner("structured_outputs", r.fault); ok {
		if r.structured(inner); *fault == nil && r.found == nil {
			jsonbody.Keep(fault, api.RefuseParam("invalid_value", "structured_outputs",
				"structured_outputs constrains nothing; it must have one of json, json_object, regex, choice, grammar and structural_tag"))
		}
		inner.Finish(fault)
	}
	r.guided()
	readSchema(o, "json_schema", false, r)
	readPattern(o, "regex", r)
	readGrammar(o, "grammar", r)
	readGrammar(o, "ebnf", r)
	return r.found
}

// reader gathers the one format of a request.
type reader struct {
	o     *jsonbody.Object
	fault **api.Error
	found *Format

	rules SchemaRules
}

// SchemaRules are what a request says of all its schemas, those of its format and of its tools.
type SchemaRules struct {
	Documents []byte // schemas by address that they may refer to; nil is none
	AnyOrder  bool   // properties come in any order
}

// Options are those of one schema.
func (s SchemaRules) Options(strict bool) schema.Options {
	o := schema.Served(strict)
	o.Documents, o.AnyOrder = s.Documents, s.AnyOrder
	return o
}

// ReadSchemaRules reads them. anyOrder is what counts where the request does not say.
func ReadSchemaRules(o *jsonbody.Object, anyOrder bool, fault **api.Error) SchemaRules {
	s := SchemaRules{AnyOrder: o.Flag("any_order", anyOrder, fault)}
	raw, ok := o.Take("schema_documents")
	if !ok {
		return s
	}
	if raw[0] != '{' {
		jsonbody.Keep(fault, jsonbody.WrongType("schema_documents", "an object of schemas by address", raw))
	}
	s.Documents = raw
	return s
}

// keep takes a format in; a second one is refused.
func (r *reader) keep(f *Format) {
	if r.found != nil {
		jsonbody.Keep(r.fault, api.RefuseParam("invalid_value", f.Field,
			"%s and %s both say what the answer must look like; send one of them", r.found.Field, f.Field))
		return
	}
	r.found = f
}

// response reads response_format. A schema may stand in json_schema, as OpenAI has it,
// or beside the type, as llama-server has it.
func (r *reader) response() {
	o, ok := r.o.Inner("response_format", r.fault)
	if !ok {
		return
	}
	kind, _ := o.Text("type", r.fault)
	switch kind {
	case "text":
	case "json_object":
		if !readSchema(o, "schema", false, r) {
			r.keep(&Format{Kind: JSONObject, Field: o.Path})
		}
	case "json_schema":
		inner, ok := o.Inner("json_schema", r.fault)
		switch {
		case ok:
			r.named(inner)
			inner.Finish(r.fault)
		case o.Has("schema"):
			r.named(o)
		default:
			jsonbody.Keep(r.fault, jsonbody.Missing(jsonbody.Join(o.Path, "json_schema"), "an object with a name and a schema"))
		}
	case "structural_tag":
		r.keep(&Format{Kind: Tag, Field: o.Path, Text: o.Gather("format", "structures", "triggers"),
			Options: r.rules.Options(false)})
	case "":
		jsonbody.Keep(r.fault, jsonbody.Missing(jsonbody.Join(o.Path, "type"), "text, json_object or json_schema"))
	default:
		jsonbody.Keep(r.fault, api.RefuseParam("invalid_value", jsonbody.Join(o.Path, "type"),
			"%s is %s; it must be text, json_object, json_schema or structural_tag", jsonbody.Join(o.Path, "type"), strconv.Quote(jsonbody.Quote([]byte(kind)))))
	}
	o.Finish(r.fault)
}

// named reads a schema with its name, its description and whether it is strict.
func (r *reader) named(o *jsonbody.Object) {
	if name, ok := o.Text("name", r.fault); ok {
		r.checkName(jsonbody.Join(o.Path, "name"), name)
	} else {
		ignoredMissing(o, "name", r.fault)
	}
	o.Text("description", r.fault)
	strict := o.Flag("strict", false, r.fault)
	if !readSchema(o, "schema", strict, r) {
		jsonbody.Keep(r.fault, jsonbody.Missing(jsonbody.Join(o.Path, "schema"), "a JSON Schema"))
	}
}

func (r *reader) checkName(path, name string) {
	right := name != "" && len(name) <= maxFormatName
	for _, c := range []byte(name) {
		right = right && (c == '_' || c == '-' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z')
	}
	if !right {
		jsonbody.Keep(r.fault, api.RefuseParam("invalid_value", path,
			"%s is %s; it must have 1 to %d of the characters a-z, A-Z, 0-9, _ and -", path, strconv.Quote(jsonbody.Quote([]byte(name))), maxFormatName))
	}
}

// readSchema reads a JSON Schema: an object or a boolean, or one of them as a string.
func readSchema(o *jsonbody.Object, name string, strict bool, r *reader) bool {
	raw, ok := o.Take(name)
	if !ok {
		return false
	}
	f := &Format{Kind: Schema, Field: jsonbody.Join(o.Path, name), Text: raw, Options: r.rules.Options(strict)}
	if raw[0] == '"' {
		text, err := jsonbody.String(f.Field, raw)
		jsonbody.Keep(r.fault, err)
		f.Text = []byte(text)
	}
	r.keep(f)
	return true
}

func readPattern(o *jsonbody.Object, name string, r *reader) {
	if text, ok := o.Text(name, r.fault); ok {
		r.keep(&Format{Kind: Regex, Field: jsonbody.Join(o.Path, name), Text: []byte(text)})
	}
}

// readGrammar reads a grammar in GBNF or Lark; an empty one is none.
func readGrammar(o *jsonbody.Object, name string, r *reader) {
	if text, ok := o.Text(name, r.fault); ok && text != "" {
		r.keep(&Format{Kind: Grammar, Field: jsonbody.Join(o.Path, name), Text: []byte(text)})
	}
}

// readTag reads a structural tag: an object, or one as a string.
func readTag(o *jsonbody.Object, name string, r *reader) {
	raw, ok := o.Take(name)
	if !ok {
		return
	}
	f := &Format{Kind: Tag, Field: jsonbody.Join(o.Path, name), Text: raw, Options: r.rules.Options(false)}
	if raw[0] == '"' {
		text, err := jsonbody.String(f.Field, raw)
		jsonbody.Keep(r.fault, err)
		f.Text = []byte(text)
	}
	r.keep(f)
}

func readAlternatives(o *jsonbody.Object, name string, r *reader) {
	raw, ok := o.Take(name)
	if !ok {
		return
	}
	f := &Format{Kind: Choice, Field: jsonbody.Join(o.Path, name)}
	list, err := jsonbody.Array(f.Field, raw, maxAlternatives)
	if jsonbody.Keep(r.fault, err); err == nil && len(list) == 0 {
		jsonbody.Keep(r.fault, api.RefuseParam("invalid_value", f.Field, "%s is empty; it must have at least one string", f.Field))
	}
	for i, item := range list {
		text, err := jsonbody.String(jsonbody.At(f.Field, i), item)
		jsonbody.Keep(r.fault, err)
		f.Choices = append(f.Choices, text)
	}
	r.keep(f)
}

// structured reads vLLM's structured_outputs.
func (r *reader) structured(o *jsonbody.Object) {
	readSchema(o, "json", false, r)
	if o.Flag("json_object", false, r.fault) {
		r.keep(&Format{Kind: JSONObject, Field: jsonbody.Join(o.Path, "json_object")})
	}
	readPattern(o, "regex", r)
	readAlternatives(o, "choice", r)
	readGrammar(o, "grammar", r)
	readTag(o, "structural_tag", r)
	readBlanks(o, "whitespace_pattern", r)
	compact := o.Flag("disable_any_whitespace", false, r.fault)
	anyOrder := o.Flag("any_order", r.rules.AnyOrder, r.fault)
	if r.found != nil {
		r.found.Options.Compact, r.found.Options.AnyOrder = compact, anyOrder
	}
	o.Flag("disable_additional_properties", true, r.fault) // which is what happens anyway
	o.Flag("disable_fallback", true, r.fault)
}

// guided reads the names that vLLM had before structured_outputs.
func (r *reader) guided() {
	readSchema(r.o, "guided_json", false, r)
	readPattern(r.o, "guided_regex", r)
	readAlternatives(r.o, "guided_choice", r)
	readGrammar(r.o, "guided_grammar", r)
	readBlanks(r.o, "guided_whitespace_pattern", r)
	if _, ok := r.o.Text("guided_decoding_backend", r.fault); ok {
		r.o.Notes.Ignore("guided_decoding_backend")
	}
}

// readBlanks reads the pattern of blanks between the parts of a JSON value.
func readBlanks(o *jsonbody.Object, name string, r *reader) {
	text, ok := o.Text(name, r.fault)
	switch {
	case !ok:
	case r.found == nil || r.found.Kind > Schema:
		o.Ignored(name, api.RefuseParam("invalid_value", jsonbody.Join(o.Path, name), "%s is for JSON, and the request asks for none", jsonbody.Join(o.Path, name)), r.fault)
	default:
		r.found.Options.Whitespace = text
	}
}

// ignoredMissing refuses, on a strict server, that a field is missing which others do without.
func ignoredMissing(o *jsonbody.Object, name string, fault **api.Error) {
	if o.Notes.Strict {
		jsonbody.Keep(fault, jsonbody.Missing(jsonbody.Join(o.Path, name), "a string"))
	}
}
