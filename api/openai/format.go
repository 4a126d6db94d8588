package openai

import (
	"fmt"

	"weir/api/openai/digest"
	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/notation"
	"weir/tokenizer/grammar/regex"
	"weir/tokenizer/grammar/schema"
	"weir/tokenizer/grammar/tag"
)

// format is what a request says that its answers must look like. It is not changed after
// it was read, and its text aliases the request's body.
type format struct {
	kind    formatKind
	field   string   // of the request that holds the text
	text    []byte   // JSON Schema, a pattern or a grammar
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
	formatGrammar
	formatTag // a structural tag
)

// writeTo hashes all that decides on the rules.
func (f *format) writeTo(d digest.Writer) {
	d.Integer(int(f.kind))
	d.Text(string(f.text))
	d.Integer(len(f.choices))
	for _, c := range f.choices {
		d.Text(c)
	}
	d.Flag(f.options.Strict)
	d.Flag(f.options.Closed)
	d.Flag(f.options.AnyOrder)
	d.Flag(f.options.Compact)
	d.Text(f.options.Whitespace)
	d.Text(string(f.options.Documents))
}

// add adds the format's rules to a grammar. control reports whether a text is a control
// token of the model.
func (f *format) add(b *grammar.Builder, control func(text string) bool) (start grammar.Symbol, ignored []schema.Ignored, err error) {
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
	case formatGrammar:
		start, err = notation.Read(b, string(f.text))
		return start, nil, err
	case formatTag:
		return tag.Add(b, f.text, tag.Options{Schema: f.options, Control: control})
	}
	return 0, nil, fmt.Errorf("unknown kind of format %d", f.kind)
}

// code is that of what is wrong with the format's text.
func (f *format) code() string {
	if f.kind > formatSchema {
		return "invalid_grammar"
	}
	return "invalid_schema"
}

func (f *format) size() int {
	n := len(f.text) + len(f.options.Whitespace) + len(f.options.Documents)
	for _, c := range f.choices {
		n += len(c)
	}
	return n
}
