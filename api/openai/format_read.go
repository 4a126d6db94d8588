package openai

import (
	"strconv"

	"weir/api"
	"weir/tokenizer/grammar/schema"
)

const (
	maxFormatName   = 64    // bytes; the OpenAI API's limit
	maxAlternatives = 10000 // of a choice
)

// readFormat reads what answers must look like, under the names of the OpenAI API
// (response_format), of vLLM (structured_outputs, and guided_* of its earlier releases),
// of llama-server (json_schema, grammar) and of SGLang (regex, ebnf). One of them may be there; nil is text.
//
// rules are those of its schemas.
func readFormat(o *object, rules schemaRules, fault **api.Error) *format {
	r := &formatReader{o: o, fault: fault, rules: rules}
	r.response()
	if inner, ok := readInner(o, "structured_outputs", r.fault); ok {
		if r.structured(inner); *fault == nil && r.found == nil {
			keep(fault, badRequest("invalid_value", "structured_outputs",
				"structured_outputs constrains nothing; it must have one of json, json_object, regex, choice, grammar and structural_tag"))
		}
		inner.finish(fault)
	}
	r.guided()
	readSchema(o, "json_schema", false, r)
	readPattern(o, "regex", r)
	readGrammar(o, "grammar", r)
	readGrammar(o, "ebnf", r)
	return r.found
}

// formatReader gathers the one format of a request.
type formatReader struct {
	o     *object
	fault **api.Error
	found *format

	rules schemaRules
}

// schemaRules are what a request says of all its schemas, those of its format and of its tools.
type schemaRules struct {
	documents []byte // schemas by address that they may refer to; nil is none
	anyOrder  bool   // properties come in any order
}

// options are those of one schema.
func (s schemaRules) options(strict bool) schema.Options {
	o := schema.Served(strict)
	o.Documents, o.AnyOrder = s.documents, s.anyOrder
	return o
}

func readSchemaRules(o *object, anyOrder bool, fault **api.Error) schemaRules {
	s := schemaRules{anyOrder: o.flag("any_order", anyOrder, fault)}
	raw, ok := o.take("schema_documents")
	if !ok {
		return s
	}
	if raw[0] != '{' {
		keep(fault, wrongType("schema_documents", "an object of schemas by address", raw))
	}
	s.documents = raw
	return s
}

// keep takes a format in; a second one is refused.
func (r *formatReader) keep(f *format) {
	if r.found != nil {
		keep(r.fault, badRequest("invalid_value", f.field,
			"%s and %s both say what the answer must look like; send one of them", r.found.field, f.field))
		return
	}
	r.found = f
}

// readInner takes apart an object inside of another.
func readInner(o *object, name string, fault **api.Error) (*object, bool) {
	raw, ok := o.take(name)
	if !ok {
		return nil, false
	}
	inner, err := o.parse(join(o.path, name), raw, maxFields)
	keep(fault, err)
	return inner, err == nil
}

// response reads response_format. A schema may stand in json_schema, as OpenAI has it,
// or beside the type, as llama-server has it.
func (r *formatReader) response() {
	o, ok := readInner(r.o, "response_format", r.fault)
	if !ok {
		return
	}
	kind, _ := o.text("type", r.fault)
	switch kind {
	case "text":
	case "json_object":
		if !readSchema(o, "schema", false, r) {
			r.keep(&format{kind: formatObject, field: o.path})
		}
	case "json_schema":
		at := o
		if inner, ok := readInner(o, "json_schema", r.fault); ok {
			at = inner
		}
		r.named(at)
		if at != o {
			at.finish(r.fault)
		}
	case "structural_tag":
		r.keep(&format{kind: formatTag, field: o.path, text: o.gather("format", "structures", "triggers"),
			options: r.rules.options(false)})
	case "":
		keep(r.fault, missing(join(o.path, "type"), "text, json_object or json_schema"))
	default:
		keep(r.fault, badRequest("invalid_value", join(o.path, "type"),
			"%s is %s; it must be text, json_object, json_schema or structural_tag", join(o.path, "type"), strconv.Quote(quote([]byte(kind)))))
	}
	o.finish(r.fault)
}

// named reads a schema with its name, its description and whether it is strict.
func (r *formatReader) named(o *object) {
	if name, ok := o.text("name", r.fault); ok {
		r.checkName(join(o.path, "name"), name)
	} else {
		o.ignoredMissing("name", r.fault)
	}
	o.text("description", r.fault)
	strict := o.flag("strict", false, r.fault)
	if !readSchema(o, "schema", strict, r) {
		keep(r.fault, missing(join(o.path, "schema"), "a JSON Schema"))
	}
}

func (r *formatReader) checkName(path, name string) {
	right := name != "" && len(name) <= maxFormatName
	for _, c := range []byte(name) {
		right = right && (c == '_' || c == '-' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z')
	}
	if !right {
		keep(r.fault, badRequest("invalid_value", path,
			"%s is %s; it must have 1 to %d of the characters a-z, A-Z, 0-9, _ and -", path, strconv.Quote(quote([]byte(name))), maxFormatName))
	}
}

// readSchema reads a JSON Schema: an object or a boolean, or one of them as a string.
func readSchema(o *object, name string, strict bool, r *formatReader) bool {
	raw, ok := o.take(name)
	if !ok {
		return false
	}
	f := &format{kind: formatSchema, field: join(o.path, name), text: raw, options: r.rules.options(strict)}
	if raw[0] == '"' {
		text, err := parseString(f.field, raw)
		keep(r.fault, err)
		f.text = []byte(text)
	}
	r.keep(f)
	return true
}

func readPattern(o *object, name string, r *formatReader) {
	if text, ok := o.text(name, r.fault); ok {
		r.keep(&format{kind: formatRegex, field: join(o.path, name), text: []byte(text)})
	}
}

// readGrammar reads a grammar in GBNF or Lark; an empty one is none.
func readGrammar(o *object, name string, r *formatReader) {
	if text, ok := o.text(name, r.fault); ok && text != "" {
		r.keep(&format{kind: formatGrammar, field: join(o.path, name), text: []byte(text)})
	}
}

// readTag reads a structural tag: an object, or one as a string.
func readTag(o *object, name string, r *formatReader) {
	raw, ok := o.take(name)
	if !ok {
		return
	}
	f := &format{kind: formatTag, field: join(o.path, name), text: raw, options: r.rules.options(false)}
	if raw[0] == '"' {
		text, err := parseString(f.field, raw)
		keep(r.fault, err)
		f.text = []byte(text)
	}
	r.keep(f)
}

// gather is an object of some fields of an object, those that it has.
func (o *object) gather(names ...string) []byte {
	text := []byte{'{'}
	for _, name := range names {
		raw, ok := o.take(name)
		if !ok {
			continue
		}
		if len(text) > 1 {
			text = append(text, ',')
		}
		text = append(strconv.AppendQuote(text, name), ':')
		text = append(text, raw...)
	}
	return append(text, '}')
}

func readAlternatives(o *object, name string, r *formatReader) {
	raw, ok := o.take(name)
	if !ok {
		return
	}
	f := &format{kind: formatChoice, field: join(o.path, name)}
	list, err := parseArray(f.field, raw, maxAlternatives)
	if keep(r.fault, err); err == nil && len(list) == 0 {
		keep(r.fault, badRequest("invalid_value", f.field, "%s is empty; it must have at least one string", f.field))
	}
	for i, item := range list {
		text, err := parseString(at(f.field, i), item)
		keep(r.fault, err)
		f.choices = append(f.choices, text)
	}
	r.keep(f)
}

// structured reads vLLM's structured_outputs.
func (r *formatReader) structured(o *object) {
	readSchema(o, "json", false, r)
	if o.flag("json_object", false, r.fault) {
		r.keep(&format{kind: formatObject, field: join(o.path, "json_object")})
	}
	readPattern(o, "regex", r)
	readAlternatives(o, "choice", r)
	readGrammar(o, "grammar", r)
	readTag(o, "structural_tag", r)
	readBlanks(o, "whitespace_pattern", r)
	compact := o.flag("disable_any_whitespace", false, r.fault)
	anyOrder := o.flag("any_order", r.rules.anyOrder, r.fault)
	if r.found != nil {
		r.found.options.Compact, r.found.options.AnyOrder = compact, anyOrder
	}
	o.flag("disable_additional_properties", true, r.fault) // which is what happens anyway
	o.flag("disable_fallback", true, r.fault)
}

// guided reads the names that vLLM had before structured_outputs.
func (r *formatReader) guided() {
	readSchema(r.o, "guided_json", false, r)
	readPattern(r.o, "guided_regex", r)
	readAlternatives(r.o, "guided_choice", r)
	readGrammar(r.o, "guided_grammar", r)
	readBlanks(r.o, "guided_whitespace_pattern", r)
	if _, ok := r.o.text("guided_decoding_backend", r.fault); ok {
		r.o.notes.ignore("guided_decoding_backend")
	}
}

// readBlanks reads the pattern of blanks between the parts of a JSON value.
func readBlanks(o *object, name string, r *formatReader) {
	text, ok := o.text(name, r.fault)
	switch {
	case !ok:
	case r.found == nil || r.found.kind > formatSchema:
		o.ignored(name, badRequest("invalid_value", join(o.path, name), "%s is for JSON, and the request asks for none", join(o.path, name)), r.fault)
	default:
		r.found.options.Whitespace = text
	}
}

// ignoredMissing refuses, on a strict server, that a field is missing which others do without.
func (o *object) ignoredMissing(name string, fault **api.Error) {
	if o.notes.strict {
		keep(fault, missing(join(o.path, name), "a string"))
	}
}
