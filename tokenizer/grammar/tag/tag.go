// Package tag reads structural tags, as XGrammar, vLLM and SGLang have them: answers whose parts are texts, schemas, patterns and grammars between
// markers, with free text up to a trigger. Both forms are read: {"format": …}, and {"structures": […], "triggers": […]} of before.
//
// What is not served is refused by its name: parts that are made of tokens rather than of text, and styles of arguments other than JSON.
package tag

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/notation"
	"weir/tokenizer/grammar/regex"
	"weir/tokenizer/grammar/schema"
)

// Options say how tags are read.
type Options struct {
	Schema  schema.Options         // of the schemas inside of tags
	Control func(text string) bool // whether a text is a control token of the vocabulary; nil: markers are plain text
}

// Error is a structural tag that is refused.
type Error struct {
	Pointer string // of the part, as an RFC 6901 pointer
	Reason  string
	cause   error
}

func (e *Error) Error() string { return fmt.Sprintf("structural tag: %q: %s", e.Pointer, e.Reason) }

// Unwrap is what made the tag an error, such as a *schema.Error.
func (e *Error) Unwrap() error { return e.cause }

// maxDepth bounds formats inside of formats.
const maxDepth = 32

// Add adds the rules of a structural tag to a builder and returns the symbol of its texts, and what its schemas do not enforce. Errors of the tag
// are of type *Error.
func Add(b *grammar.Builder, text []byte, o Options) (grammar.Symbol, []schema.Ignored, error) {
	r := &reader{b: b, o: o}
	s, err := r.root(text)
	return s, r.ignored, err
}

// reader adds the rules of one structural tag.
type reader struct {
	b       *grammar.Builder
	o       Options
	ignored []schema.Ignored
}

// part is a format with its place. Stops are the texts that end what stands around it: free text at its end holds none of them.
type part struct {
	raw   json.RawMessage
	at    string
	depth int
	stops []string
}

// inside is a part of a part.
func (p *part) inside(at string, raw json.RawMessage, stops []string) *part {
	return &part{raw, p.at + "/" + at, p.depth + 1, stops}
}

func (p *part) wrong(format string, args ...any) error {
	return &Error{Pointer: p.at, Reason: fmt.Sprintf(format, args...)}
}

// decode reads a part's fields; others than those of dst are refused.
func (p *part) decode(dst any) error {
	if len(p.raw) == 0 {
		return p.wrong("is missing")
	}
	d := json.NewDecoder(bytes.NewReader(p.raw))
	d.DisallowUnknownFields()
	if err := d.Decode(dst); err != nil {
		return &Error{Pointer: p.at, Reason: strings.TrimPrefix(err.Error(), "json: "), cause: err}
	}
	return nil
}

// root reads the whole, in either form.
func (r *reader) root(text []byte) (grammar.Symbol, error) {
	whole := &part{raw: text}
	var form struct {
		Type       string          `json:"type"`
		Format     json.RawMessage `json:"format"`
		Structures json.RawMessage `json:"structures"`
		Triggers   json.RawMessage `json:"triggers"`
	}
	if err := json.Unmarshal(text, &form); err != nil {
		return 0, &Error{Reason: "no JSON object: " + err.Error(), cause: err}
	}
	switch {
	case form.Structures != nil || form.Triggers != nil && form.Type != "triggered_tags":
		if err := whole.decode(&form); err != nil {
			return 0, err
		}
		return r.structures(whole.inside("structures", form.Structures, nil), whole.inside("triggers", form.Triggers, nil))
	case form.Format != nil:
		if err := whole.decode(&form); err != nil {
			return 0, err
		}
		return r.format(whole.inside("format", form.Format, nil))
	case form.Type == "structural_tag" || form.Type == "":
		return 0, whole.wrong("needs a format, or structures and triggers")
	}
	return r.format(whole)
}

// structures is the form of before: text with tags whose contents have a schema.
func (r *reader) structures(list, triggers *part) (grammar.Symbol, error) {
	var structures []json.RawMessage
	var d dispatch
	if err := list.decode(&structures); err != nil {
		return 0, err
	}
	if err := triggers.decode(&d.triggers); err != nil {
		return 0, err
	}
	for i, raw := range structures {
		p := list.inside(strconv.Itoa(i), raw, nil)
		var s struct {
			Begin  string          `json:"begin"`
			Schema json.RawMessage `json:"schema"`
			End    string          `json:"end"`
		}
		if err := p.decode(&s); err != nil {
			return 0, err
		}
		content, err := r.schema(p.inside("schema", s.Schema, nil), r.o.Schema)
		if err != nil {
			return 0, err
		}
		if err := d.add(p, s.Begin, r.b.Define("tag", slices.Concat(r.text(s.Begin), []grammar.Symbol{content}, r.text(s.End)))); err != nil {
			return 0, err
		}
	}
	return r.dispatch(list, &d)
}

func (r *reader) schema(p *part, o schema.Options) (grammar.Symbol, error) {
	if len(p.raw) == 0 {
		return 0, p.wrong("is missing; it must be a JSON Schema")
	}
	s, report, err := schema.Add(r.b, p.raw, o)
	for _, i := range report.Ignored {
		i.Pointer = p.at + i.Pointer
		r.ignored = append(r.ignored, i)
	}
	if err != nil {
		return 0, &Error{Pointer: p.at, Reason: err.Error(), cause: err}
	}
	return s, nil
}

// text is markers as terminals: control tokens where the vocabulary has them, and the text between them.
func (r *reader) text(markup string) []grammar.Symbol {
	var list []grammar.Symbol
	for markup != "" {
		at, n := grammar.FindControl(markup, r.o.Control)
		if at > 0 {
			list = append(list, r.b.Literal(markup[:at]))
		}
		if n > 0 {
			list = append(list, r.b.Token(markup[at:at+n]))
		}
		markup = markup[at+n:]
	}
	return list
}

// free is text that holds none of some texts.
func (r *reader) free(p *part, excludes ...string) (grammar.Symbol, error) {
	excludes = slices.Concat(excludes, p.stops)
	if slices.Contains(excludes, "") {
		return 0, p.wrong("free text cannot hold what is empty; give triggers, excludes and the end of a tag at least one character")
	}
	return r.b.Regex(regex.Without(excludes...)), nil
}

// dispatch is free text with what its triggers begin.
type dispatch struct {
	triggers, excludes []string
	first              bool // it begins with the first of them
	once               bool // it ends behind the first of them
	what               [][]grammar.Symbol
}

// add takes in a tag, which must begin with a trigger.
func (d *dispatch) add(p *part, begin string, s grammar.Symbol) error {
	if !slices.ContainsFunc(d.triggers, func(t string) bool { return strings.HasPrefix(begin, t) }) {
		return p.wrong("%.100q begins with none of the triggers", begin)
	}
	d.what = append(d.what, []grammar.Symbol{s})
	return nil
}

func (r *reader) dispatch(p *part, d *dispatch) (grammar.Symbol, error) {
	if len(d.what) == 0 || len(d.triggers) == 0 {
		return 0, p.wrong("needs at least one trigger and one tag")
	}
	free, err := r.free(p, slices.Concat(d.triggers, d.excludes)...)
	if err != nil {
		return 0, err
	}
	one := r.b.Define("tag", d.what...)
	more := r.b.Repeat(r.b.Define("text and tag", []grammar.Symbol{free, one}), 0, -1)
	switch {
	case d.first && d.once:
		return one, nil
	case d.once:
		return r.b.Define("tags", []grammar.Symbol{free}, []grammar.Symbol{free, one}), nil
	case d.first:
		return r.b.Define("tags", []grammar.Symbol{one, more, free}), nil
	}
	return r.b.Define("tags", []grammar.Symbol{more, free}), nil
}

// grammar reads a grammar in GBNF or Lark.
func (r *reader) grammar(p *part, text string) (grammar.Symbol, error) {
	s, err := notation.Read(r.b, text)
	if err != nil {
		return 0, &Error{Pointer: p.at, Reason: err.Error(), cause: err}
	}
	return s, nil
}
