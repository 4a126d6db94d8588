package openai

import (
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

// thought is how an answer's thought, which no format binds, stands before the answer.
type thought struct {
	open, end string // markers; no end is no thought
	opened    bool   // by the prompt
	control   bool   // the markers are control tokens, not text
}

// thoughtOf is what the job's answers may think before they answer.
func thoughtOf(j *job) thought {
	r := j.reading
	if r == nil || !r.thinks {
		return thought{}
	}
	t := thought{opened: r.options.Opening.Thinking}
	t.open, t.end = r.family.ThoughtMarkers()
	id, known := j.model.Tokenizer.ID(t.end)
	t.control = known && j.model.Tokenizer.IsControl(id)
	return t
}

// before is a rule of a thought that may stand before the answer, or, where the prompt has
// opened it, stands there.
func (t thought) before(b *grammar.Builder, answer grammar.Symbol) grammar.Symbol {
	if t.end == "" {
		return answer
	}
	marker := b.Literal
	if t.control {
		marker = b.Token
	}
	blanks := b.Regex(regex.Repeat(regex.Words(" ", "\n"), 0, maxThoughtBlanks))
	rest := []grammar.Symbol{b.Regex(regex.Without(t.end)), marker(t.end), blanks, answer}
	if t.opened {
		return b.Define("thought and answer", rest)
	}
	return b.Define("answer, thought over or not", []grammar.Symbol{answer}, append([]grammar.Symbol{marker(t.open)}, rest...))
}

const maxThoughtBlanks = 4 // between a thought and the answer

// hash is over all that decides on the compiled grammar.
func (f *format) hash(t thought) replay.Hash {
	d := newDigest()
	d.text(t.open)
	d.text(t.end)
	d.flag(t.opened)
	d.flag(t.control)
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
func (f *format) compile(t thought) (*compiledFormat, *api.Error) {
	b := grammar.NewBuilder(grammar.Limits{})
	start, ignored, err := f.add(b)
	if err != nil {
		return nil, f.refuse(err)
	}
	c := &compiledFormat{}
	if c.grammar, err = b.Compile(t.before(b, start)); err != nil {
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
