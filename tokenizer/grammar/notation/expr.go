// Package notation reads grammars that people write, GBNF and a subset of Lark's, into the rules of a grammar.Builder.
package notation

import (
	"errors"
	"fmt"
	"slices"

	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/regex"
)

// Errors of grammars, wrapped with the place.
var (
	// ErrSyntax is a text that is no grammar.
	ErrSyntax = errors.New("the grammar is not valid")
	// ErrUnsupported is a construct that is refused by name.
	ErrUnsupported = errors.New("the grammar has what is not served")
)

const (
	// MaxBytes is the most bytes of a grammar's text.
	MaxBytes = 1 << 20

	maxNesting = 200
)

type exprKind uint8

const (
	exprLeaf   exprKind = iota // a regular expression
	exprToken                  // a control token
	exprRef                    // a rule
	exprSeq                    // kids one after the other
	exprAlt                    // one of the kids
	exprRepeat                 // kids[0], least to most times
)

// expr is the right side of a rule.
type expr struct {
	kind        exprKind
	kids        []*expr
	regex       *regex.Regex
	token       string // of a control token; empty where id counts
	id          int32
	rule        int
	least, most int
}

func leaf(r *regex.Regex) *expr { return &expr{kind: exprLeaf, regex: r} }

func seq(kids []*expr) *expr {
	if len(kids) == 1 {
		return kids[0]
	}
	return &expr{kind: exprSeq, kids: kids}
}

func alt(kids []*expr) *expr {
	if len(kids) == 1 {
		return kids[0]
	}
	return &expr{kind: exprAlt, kids: kids}
}

func repeat(e *expr, least, most int) *expr {
	return &expr{kind: exprRepeat, kids: []*expr{e}, least: least, most: most}
}

// hasToken reports whether the expression itself, without the rules in it, has a control token.
func (e *expr) hasToken() bool {
	return e.kind == exprToken || slices.ContainsFunc(e.kids, (*expr).hasToken)
}

// definition is a rule; body is nil until the rule is defined.
type definition struct {
	name string
	at   int // where it is first named: a byte of the text
	body *expr
}

// foldLimit is how many leaves a rule may have, those of the rules in it included, to become one terminal. A terminal is fast where its
// states recur, as inside a string, and slow where every place of a long text is a state of its own.
const foldLimit = 60

// emitter writes definitions into a Builder. Rules that are regular and small become terminals: no row of the parser is needed inside.
type emitter struct {
	b       *grammar.Builder
	spell   func(*regex.Regex) *regex.Regex // writes each terminal in another notation; nil: as it is
	rules   []definition
	weights []int          // by rule: its leaves; 0 is not known yet, negative is not regular
	open    []bool         // by rule: its weight is being worked out
	regexes []*regex.Regex // by rule
	symbols []grammar.Symbol
	written []bool
}

// emit adds a rule and all that it needs.
func emit(b *grammar.Builder, rules []definition, root int, spell func(*regex.Regex) *regex.Regex) grammar.Symbol {
	e := emitter{
		b: b, spell: spell, rules: rules, weights: make([]int, len(rules)), open: make([]bool, len(rules)), regexes: make([]*regex.Regex, len(rules)),
		symbols: make([]grammar.Symbol, len(rules)), written: make([]bool, len(rules)),
	}
	todo := []int{root}
	e.declare(root)
	for len(todo) > 0 {
		r := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		body := e.rules[r].body
		alternatives := []*expr{body}
		if body.kind == exprAlt {
			alternatives = body.kids
		}
		if e.weight(body) > 0 {
			e.b.Add(e.symbols[r], []grammar.Symbol{e.symbol(body, &todo)})
			continue
		}
		for _, a := range alternatives {
			items := []*expr{a}
			if a.kind == exprSeq {
				items = a.kids
			}
			symbols := make([]grammar.Symbol, len(items))
			for i, x := range items {
				symbols[i] = e.symbol(x, &todo)
			}
			e.b.Add(e.symbols[r], symbols)
		}
	}
	return e.symbols[root]
}

func (e *emitter) declare(rule int) {
	e.written[rule] = true
	e.symbols[rule] = e.b.Rule(e.rules[rule].name)
}

// symbol gives a symbol for a part of a rule; rules that come up the first time are put on the list.
func (e *emitter) symbol(x *expr, todo *[]int) grammar.Symbol {
	if e.weight(x) > 0 {
		return e.terminal(e.regular(x))
	}
	switch x.kind {
	case exprToken:
		if x.token == "" {
			return e.b.TokenID(x.id)
		}
		return e.b.Token(x.token)
	case exprRef:
		if !e.written[x.rule] {
			e.declare(x.rule)
			*todo = append(*todo, x.rule)
		}
		return e.symbols[x.rule]
	case exprRepeat:
		return e.b.Repeat(e.symbol(x.kids[0], todo), x.least, x.most)
	case exprAlt:
		group := e.b.Rule("group")
		for _, k := range x.kids {
			e.b.Add(group, []grammar.Symbol{e.symbol(k, todo)})
		}
		return group
	case exprSeq:
		group := e.b.Rule("group")
		symbols := make([]grammar.Symbol, len(x.kids))
		for i, k := range x.kids {
			symbols[i] = e.symbol(k, todo)
		}
		e.b.Add(group, symbols)
		return group
	default:
		return e.terminal(x.regex)
	}
}

func (e *emitter) terminal(r *regex.Regex) grammar.Symbol {
	if e.spell != nil {
		r = e.spell(r)
	}
	return e.b.Regex(r)
}

const notRegular = -1

// weight counts the leaves of an expression that may become one terminal, and is negative for others.
func (e *emitter) weight(x *expr) int {
	switch x.kind {
	case exprLeaf:
		return 1
	case exprToken:
		return notRegular
	case exprRef:
		r := x.rule
		if e.weights[r] == 0 {
			if e.open[r] {
				return notRegular
			}
			e.open[r] = true
			e.weights[r] = e.weight(e.rules[r].body)
			e.open[r] = false
		}
		return e.weights[r]
	default: // groups and repetitions, below
	}
	total := 1
	for _, k := range x.kids {
		if k.kind == exprLeaf && x.kind == exprAlt {
			if _, literal := k.regex.Text(); literal {
				continue // any number of literals is one node
			}
		}
		w := e.weight(k)
		if w < 0 || total+w > foldLimit {
			return notRegular
		}
		total += w
	}
	return total
}

// regular is the expression of a part whose weight is known to be positive.
func (e *emitter) regular(x *expr) *regex.Regex {
	switch x.kind {
	case exprLeaf:
		return x.regex
	case exprRef:
		if e.regexes[x.rule] == nil {
			e.regexes[x.rule] = e.regular(e.rules[x.rule].body)
		}
		return e.regexes[x.rule]
	case exprRepeat:
		return regex.Repeat(e.regular(x.kids[0]), x.least, x.most)
	default: // groups, below
	}
	kids := make([]*regex.Regex, len(x.kids))
	for i, k := range x.kids {
		kids[i] = e.regular(k)
	}
	if x.kind == exprAlt {
		return regex.Or(kids...)
	}
	return regex.Concat(kids...)
}

// undefined is the error of the first rule that is named and not defined.
func (s *scanner) undefined(rules []definition) error {
	for _, r := range rules {
		if r.body == nil {
			return fmt.Errorf("%w: %s: the rule %q is not defined", ErrSyntax, s.place(r.at), r.name)
		}
	}
	return nil
}
