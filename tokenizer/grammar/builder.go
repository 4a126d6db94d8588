// Package grammar says which token may come next where an answer has to fit a grammar: a context-free grammar whose terminals are regular
// expressions over bytes and control tokens. The language is exactly that of the rules: terminals are neither greedy nor lazy, and
// ambiguity is allowed.
//
// A Builder collects rules and compiles them to a Grammar, which knows no vocabulary; a Matcher follows one answer through it. Matchers
// of one Grammar and Vocabulary share what they have worked out: Earley rows and the places of an answer are hash-consed, so that after a
// while a step is a look-up. All but Builder and Matcher may be used by several goroutines at once.
package grammar

import (
	"errors"
	"fmt"

	"weir/internal/work"
	"weir/tokenizer/grammar/regex"
)

// Symbol is a terminal or a rule of one Builder.
type Symbol int32

// Builder collects the rules of one grammar. Errors are kept and given by Compile.
type Builder struct {
	limits   Limits
	symbols  []symbol
	literals map[string]Symbol
	regexes  map[*regex.Regex]Symbol
	tokens   map[controlToken]Symbol
	size     int
	counted  int // of size, by the meter
	most     int // of size
	err      error
}

// builderSize is about how many bytes a symbol takes in a builder.
const builderSize = 128

// symbolWork is about what a symbol takes to add and to compile, in units.
const symbolWork = 16

type kind uint8

const (
	kindRule kind = iota
	kindRegex
	kindToken
	kindRepeat
	kindAnyOrder
)

type symbol struct {
	kind         kind
	name         string       // of a rule
	alternatives [][]Symbol   // of a rule
	regex        *regex.Regex // of a lexeme
	item         itemKind     // of a lexeme
	token        controlToken // of a control token
	child        Symbol       // of a repetition; the separator of a list in any order
	least, most  int32        // of a repetition or a list in any order; most is negative where unbounded
	members      []Member     // of a list in any order
}

// controlToken is a token by its text, or by its id where it has none.
type controlToken struct {
	text string
	id   int32
}

// NewBuilder starts a grammar.
func NewBuilder(l Limits) *Builder {
	l = l.orDefault()
	return &Builder{
		limits: l, most: int(max(0, min(int64(l.Symbols), l.Account.Room()/builderSize))), literals: map[string]Symbol{}, regexes: map[*regex.Regex]Symbol{}, tokens: map[controlToken]Symbol{},
	}
}

// Regex is a terminal: any text that r matches.
func (b *Builder) Regex(r *regex.Regex) Symbol {
	if text, ok := r.Text(); ok {
		return b.Literal(text)
	}
	s, ok := b.regexes[r]
	if !ok {
		s = b.add(symbol{kind: kindRegex, regex: r})
		b.regexes[r] = s
	}
	return s
}

// Literal is a terminal: one text, byte by byte, whatever tokens it is cut into.
func (b *Builder) Literal(text string) Symbol {
	s, ok := b.literals[text]
	if !ok {
		s = b.add(symbol{kind: kindRegex, regex: regex.Literal(text)})
		b.literals[text] = s
	}
	return s
}

// Token is a terminal: a control token by its text. Matchers over a vocabulary that has no such token are refused.
func (b *Builder) Token(text string) Symbol {
	return b.controlToken(controlToken{text: text, id: none})
}

// TokenID is a terminal: a token by its id in the vocabulary, whatever its text.
func (b *Builder) TokenID(id int32) Symbol {
	if id < 0 {
		b.fail(fmt.Errorf("token id %d: ids are not negative", id))
	}
	return b.controlToken(controlToken{id: id})
}

func (b *Builder) controlToken(t controlToken) Symbol {
	s, ok := b.tokens[t]
	if !ok {
		s = b.add(symbol{kind: kindToken, token: t})
		b.tokens[t] = s
	}
	return s
}

// Rule declares a rule, which Add defines; its name is for errors only.
func (b *Builder) Rule(name string) Symbol { return b.add(symbol{kind: kindRule, name: name}) }

// Add gives a rule further alternatives. An empty alternative is the empty text. Rules may be recursive in any way.
func (b *Builder) Add(rule Symbol, alternatives ...[]Symbol) {
	if !b.valid(rule) || b.symbols[rule].kind != kindRule {
		b.fail(fmt.Errorf("symbol %d is no rule of this builder", rule))
		return
	}
	for _, a := range alternatives {
		b.size += len(a) + 1
		for _, s := range a {
			if !b.valid(s) {
				b.fail(fmt.Errorf("rule %q: symbol %d is not of this builder", b.symbols[rule].name, s))
				return
			}
		}
	}
	if !b.fits() {
		return
	}
	s := &b.symbols[rule]
	s.alternatives = append(s.alternatives, alternatives...)
}

// Define is a new rule with its alternatives.
func (b *Builder) Define(name string, alternatives ...[]Symbol) Symbol {
	s := b.Rule(name)
	b.Add(s, alternatives...)
	return s
}

// Repeat is least to most times s, one after the other; a negative most is unbounded. Counts stay numbers, whatever their size.
func (b *Builder) Repeat(s Symbol, least, most int) Symbol {
	if !b.valid(s) {
		b.fail(fmt.Errorf("symbol %d is not of this builder", s))
		return s
	}
	least, most = max(least, 0), min(most, regex.MaxCount)
	if least > regex.MaxCount || most >= 0 && least > most {
		b.fail(fmt.Errorf("a repetition of %d to %d times: the first must not exceed the second, nor %d", least, most, regex.MaxCount))
		return s
	}
	return b.add(symbol{kind: kindRepeat, child: s, least: int32(least), most: int32(max(most, -1))})
}

// fits reports whether what was added is within the limits, and counts it.
func (b *Builder) fits() bool {
	if b.size > b.most {
		wayOut := "make the schema or grammar smaller"
		if b.most < b.limits.Symbols {
			wayOut = "other grammars of its account take the room for more: retry when their answers are over, or " + wayOut
		}
		b.fail(limitError("symbols in its rules", b.most, wayOut))
		return false
	}
	if err := b.limits.Meter.Spend(symbolWork * (b.size - b.counted)); err != nil {
		b.fail(compileError(err))
	}
	b.counted = b.size
	return b.err == nil
}

// Meter counts the work of front ends, too; nil is none.
func (b *Builder) Meter() *work.Meter { return b.limits.Meter }

// Room is how many bytes there are for what front ends make.
func (b *Builder) Room() int64 { return min(int64(b.limits.Bytes), b.limits.Account.Room()) }

// Err is the first error so far, which Compile gives, too.
func (b *Builder) Err() error { return b.err }

// Fail makes Compile fail with err, for front ends that find out late; the first error stays.
func (b *Builder) Fail(err error) { b.fail(err) }

func (b *Builder) add(s symbol) Symbol {
	b.size++
	if !b.fits() && len(b.symbols) > 0 {
		return 0
	}
	b.symbols = append(b.symbols, s)
	return Symbol(len(b.symbols) - 1)
}

func (b *Builder) valid(s Symbol) bool { return s >= 0 && int(s) < len(b.symbols) }

func (b *Builder) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

var errNoStart = errors.New("the start symbol is not of this builder")
