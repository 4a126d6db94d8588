// Package format reads what a request says that answers must look like, and makes the rules of a grammar of it.
package format

import (
	"fmt"

	"weir/api/openai/digest"
	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/notation"
	"weir/tokenizer/grammar/regex"
	"weir/tokenizer/grammar/schema"
	"weir/tokenizer/grammar/tag"
)

// Format is what a request says that its answers must look like. It is not changed after
// it was read, and its text aliases the request's body.
type Format struct {
	Kind    Kind
	Field   string   // of the request that holds the text
	Text    []byte   // JSON Schema, a pattern or a grammar
	Choices []string // of Choice
	Options schema.Options
}

// Kind says how a format's text is read.
type Kind uint8

// The kinds of formats.
const (
	JSONObject Kind = iota // any JSON object
	Schema
	Regex
	Choice
	Grammar
	Tag // a structural tag
)

// WriteTo hashes all that decides on the rules.
func (f *Format) WriteTo(d digest.Writer) {
	d.Integer(int(f.Kind))
	d.Text(string(f.Text))
	d.Integer(len(f.Choices))
	for _, c := range f.Choices {
		d.Text(c)
	}
	d.Flag(f.Options.Strict)
	d.Flag(f.Options.Closed)
	d.Flag(f.Options.AnyOrder)
	d.Flag(f.Options.Compact)
	d.Text(f.Options.Whitespace)
	d.Text(string(f.Options.Documents))
}

// Add adds the format's rules to a grammar. control reports whether a text is a control
// token of the model.
func (f *Format) Add(b *grammar.Builder, control func(text string) bool) (start grammar.Symbol, ignored []schema.Ignored, err error) {
	switch f.Kind {
	case JSONObject:
		start, err = schema.AddObject(b, f.Options)
		return start, nil, err
	case Schema:
		start, report, err := schema.Add(b, f.Text, f.Options)
		return start, report.Ignored, err
	case Regex:
		r, err := regex.Parse(string(f.Text), regex.RE2)
		if err != nil {
			return 0, nil, err
		}
		return b.Regex(r), nil, nil
	case Choice:
		return b.Regex(regex.Words(f.Choices...)), nil, nil
	case Grammar:
		start, err = notation.Read(b, string(f.Text))
		return start, nil, err
	case Tag:
		return tag.Add(b, f.Text, tag.Options{Schema: f.Options, Control: control})
	}
	return 0, nil, fmt.Errorf("unknown kind of format %d", f.Kind)
}

// Code is that of what is wrong with the format's text.
func (f *Format) Code() string {
	if f.Kind > Schema {
		return "invalid_grammar"
	}
	return "invalid_schema"
}

// Size is about how many bytes the format keeps.
func (f *Format) Size() int {
	n := len(f.Text) + len(f.Options.Whitespace) + len(f.Options.Documents)
	for _, c := range f.Choices {
		n += len(c)
	}
	return n
}
