// Package schema turns JSON Schema into rules of a grammar: the texts that the grammar lets through are JSON values that the schema holds
// for, with properties in the schema's order, or in any order as an option.
//
// The way has three parts. A schema is decoded with its order kept and its numbers exact. Sets of schemas that hold for the same place
// (a property of two members of an allOf, say) become shapes: each a list of forms, one for a kind of value and a way through anyOf and
// oneOf, which share what they refer to, so that recursion closes. Shapes that have no finite value are dropped, and the others become rules.
//
// Nothing that the grammar lets through breaks the schema, where the report lists nothing as ignored. The other way it is narrower: names,
// constants and texts with a pattern or a format have one spelling, whole numbers no fraction, and unbounded numbers a bounded length.
package schema

import (
	"errors"
	"fmt"

	"weir/tokenizer/grammar"
)

// Options say how a schema is read.
type Options struct {
	// Strict refuses what cannot be enforced, with its keyword and place. Without it such keywords are ignored and listed in the report.
	Strict bool
	// Closed reads objects that name properties and say nothing of others as if additionalProperties were false. An object is what all schemas
	// that hold for one place make of it: allOf, references and the branch that holds of anyOf, oneOf, if and the like.
	Closed bool
	// AnyOrder lets the properties of an object come in any order; without it they come in the schema's order, which takes less to follow.
	AnyOrder bool
	// Compact allows no blanks between the parts of a value.
	Compact bool
	// Whitespace is a pattern of the blanks between parts, vLLM's whitespace_pattern; "" is nothing, one space, or up to two newlines
	// with up to 20 blanks. Compact wins over it.
	Whitespace string
	// Documents is a JSON object of schemas by their address, that references may name beside those of the schema itself; nil is none. It counts
	// in Limits.Bytes.
	Documents []byte
	// Limits bound the work; zero fields have defaults.
	Limits Limits
}

// Served are the options that requests have: objects are closed, since a model that may invent properties goes on and on. What is published of
// coverage is measured with them.
func Served(strict bool) Options { return Options{Strict: strict, Closed: true} }

// Limits bound a schema and the work that it costs. Zero fields mean the defaults.
type Limits struct {
	Bytes  int // of the document: 1 MiB
	Depth  int // of nested JSON values: 64
	Work   int // steps of merging: 200,000
	Shapes int // distinct sets of schemas: 20,000
}

func (l Limits) orDefault() Limits {
	fill := func(n *int, standard int) {
		if *n <= 0 {
			*n = standard
		}
	}
	fill(&l.Bytes, 1<<20)
	fill(&l.Depth, 64)
	fill(&l.Work, 200_000)
	fill(&l.Shapes, 20_000)
	return l
}

// Ignored is a keyword that a lenient grammar does not enforce.
type Ignored struct {
	Pointer string // of the keyword
	Keyword string
	Reason  string
}

// Report lists what the grammar does not enforce, in the order of discovery. For strict options it has formats alone that JSON Schema does not
// define.
type Report struct {
	Ignored []Ignored
}

// Error is a schema that is refused. Pointer and Keyword are empty where the document as a whole is meant.
type Error struct {
	Pointer string // of the keyword, or of the schema where no keyword is to blame
	Keyword string
	Reason  string

	cause error // that Reason tells of, nil for most
}

// Unwrap is what made the schema an error, such as regex.ErrPattern.
func (e *Error) Unwrap() error { return e.cause }

func (e *Error) Error() string {
	switch {
	case e.Keyword != "":
		return fmt.Sprintf("json schema: %q (keyword %q): %s", e.Pointer, e.Keyword, e.Reason)
	case e.Pointer != "":
		return fmt.Sprintf("json schema: %q: %s", e.Pointer, e.Reason)
	}
	return "json schema: " + e.Reason
}

// Add adds the rules of a schema to a builder and returns the symbol of its values. Errors of the schema are of type *Error.
func Add(b *grammar.Builder, json []byte, o Options) (grammar.Symbol, Report, error) {
	limits := o.Limits.orDefault()
	root, documents, err := decode(json, o.Documents, limits)
	if err != nil {
		return 0, Report{}, err
	}
	return add(b, root, documents, o, limits)
}

// AddObject adds the rules of any JSON object, the meaning of response_format json_object.
func AddObject(b *grammar.Builder, o Options) (grammar.Symbol, error) {
	o.Closed = false
	symbol, _, err := Add(b, []byte(`{"type":"object"}`), o)
	return symbol, err
}

func add(b *grammar.Builder, root, documents *value, o Options, limits Limits) (grammar.Symbol, Report, error) {
	d, unknown := draftOf(root)
	doc := newDocument(root, documents, d)
	var c *compiler
	var start *shape
	for _, ways := range contraryWays {
		c = newCompiler(newReader(doc, o, &spending{limits: limits, meter: b.Meter(), room: b.Room()}), ways)
		var err error
		if unknown != nil {
			err = c.orIgnore(unknown)
		}
		if err == nil {
			start, err = c.compile(root)
		}
		if err == nil {
			break
		}
		if !c.expander.contraries || !errors.Is(err, grammar.ErrLimit) || ways == 1 {
			return 0, Report{}, err
		}
	}
	e, err := newEmitter(b, o)
	if err != nil {
		return 0, Report{}, err
	}
	symbol, err := e.value(start)
	return symbol, c.report, err
}
