package openai

import (
	"crypto/sha256"
	"errors"
	"fmt"

	"weir/api"
	"weir/api/replay"
	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/regex"
	"weir/tokenizer/grammar/schema"
)

// format is what a request says that its answers must look like. It is not changed after
// it was read, and its text aliases the request's body.
type format struct {
	kind    formatKind
	field   string   // of the request that holds the text
	text    []byte   // JSON Schema, or a pattern
	choices []string // of formatChoice
	options schema.Options
}

// formatKind says how a format's text is read.
type formatKind uint8

const (
	formatObject formatKind = iota // any JSON object
	formatSchema
	formatRegex
	formatChoice
)

// hash is over all that decides on the compiled grammar.
func (f *format) hash() replay.Hash {
	d := digest{sha256.New()}
	d.integer(int(f.kind))
	d.text(string(f.text))
	d.integer(len(f.choices))
	for _, c := range f.choices {
		d.text(c)
	}
	d.flag(f.options.Strict)
	d.flag(f.options.Closed)
	d.flag(f.options.Compact)
	d.text(f.options.Whitespace)
	return replay.Hash(d.Sum(nil))
}

// compile makes a grammar of the format, and the words for what the grammar does not
// enforce.
func (f *format) compile() (*compiledFormat, *api.Error) {
	b := grammar.NewBuilder(grammar.Limits{})
	start, ignored, err := f.add(b)
	if err != nil {
		return nil, f.refuse(err)
	}
	c := &compiledFormat{}
	if c.grammar, err = b.Compile(start); err != nil {
		return nil, f.refuse(err)
	}
	for _, i := range ignored {
		c.warnings = append(c.warnings, "not enforced "+headerQuote(i.Keyword)+" at "+headerQuote(i.Pointer))
	}
	return c, nil
}

// add adds the format's rules to a grammar.
func (f *format) add(b *grammar.Builder) (start grammar.Symbol, ignored []schema.Ignored, err error) {
	switch f.kind {
	case formatObject:
		start, err = schema.AddObject(b, f.options)
		return start, nil, err
	case formatSchema:
		start, report, err := schema.Add(b, f.text, f.options)
		return start, report.Ignored, err
	case formatRegex:
		r, err := regex.Parse(string(f.text), regex.RE2)
		if err != nil {
			return 0, nil, err
		}
		return b.Regex(r), nil, nil
	case formatChoice:
		return b.Regex(regex.Words(f.choices...)), nil, nil
	}
	return 0, nil, fmt.Errorf("unknown kind of format %d", f.kind)
}

// refuse tells the client what is wrong with the text of a format. The parameter of what is
// wrong with a schema ends with the JSON pointer of the keyword.
func (f *format) refuse(err error) *api.Error {
	if f.kind > formatSchema {
		return badRequest("invalid_grammar", f.field, "%s: %v", f.field, err)
	}
	param := f.field
	if wrong := (*schema.Error)(nil); errors.As(err, &wrong) && wrong.Pointer != "" {
		param += "#" + wrong.Pointer
	}
	return badRequest("invalid_schema", param, "%s: %v", f.field, err)
}
