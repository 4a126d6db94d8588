package notation

import (
	"fmt"
	"strings"

	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/regex"
)

// Lark adds the rules of a grammar in the part of Lark's notation that OpenAI's custom tools and llguidance use, and gives its rule start:
// rules, terminals, strings, regular expressions, ranges, groups, repetition, %ignore, %import of the library common, aliases (which say
// nothing here), and llguidance's control tokens <name> and <[id]>. The language is that of the rules: a terminal may end wherever it has
// matched, where Lark's own lexer would take the longest match. Templates, %declare, %override, %extend, %json, %regex, %lark, attributes
// and references to other grammars are refused by name; priorities are ignored.
func Lark(b *grammar.Builder, text string) (grammar.Symbol, error) {
	return LarkSpelled(b, text, nil)
}

// LarkSpelled is Lark for a text that stands inside another notation, as between the quotes of a JSON string: spell writes each of the
// terminals there. Control tokens, which no text holds, are refused. A nil spell changes nothing.
func LarkSpelled(b *grammar.Builder, text string, spell func(*regex.Regex) *regex.Regex) (grammar.Symbol, error) {
	s, err := newScanner(text)
	if err != nil {
		return 0, err
	}
	p := lark{scanner: s, names: map[string]int{}}
	for p.lines(); !p.done(); p.lines() {
		if err := p.statement(); err != nil {
			return 0, err
		}
	}
	start, ok := p.names["start"]
	if !ok {
		return 0, fmt.Errorf("%w: it has no rule named start", ErrSyntax)
	}
	if err := p.undefined(p.rules); err != nil {
		return 0, err
	}
	if start, err = p.finish(start); err != nil {
		return 0, err
	}
	if spell != nil {
		for _, r := range p.rules {
			if r.body.hasToken() {
				return 0, fmt.Errorf("%w: %s: a control token inside a text; leave it out", ErrUnsupported, r.name)
			}
		}
	}
	symbol := emit(b, p.rules, start, spell)
	return symbol, b.Err()
}

type lark struct {
	scanner
	rules   []definition
	names   map[string]int
	ignored []*expr
}

func isTerminal(name string) bool {
	return isUpper(strings.TrimLeft(name, "_")[0])
}

// blank skips blanks, and comments of // and #.
func (p *lark) blank() {
	for !p.done() {
		switch {
		case p.hasByte(" \t\f"):
			p.at++
		case p.has("\\\n"):
			p.at += 2
		case p.has("//"), p.has("#"):
			for !p.done() && !p.hasByte("\r\n") {
				p.at++
			}
		default:
			return
		}
	}
}

// lines skips ends of lines, too.
func (p *lark) lines() {
	for p.blank(); p.hasByte("\r\n"); p.blank() {
		p.at++
	}
}

// goesOn skips to the next line where it begins with |, or takes no notice of lines inside a group.
func (p *lark) goesOn() {
	if p.depth > 1 {
		p.lines()
		return
	}
	p.blank()
	at := p.at
	if p.lines(); !p.has("|") {
		p.at = at
	}
}

func (p *lark) name() string {
	return p.while(func(b byte) bool { return isDigit(b) || isLower(b) || isUpper(b) || b == '_' })
}

func (p *lark) refer(name string, at int) int {
	r, ok := p.names[name]
	if !ok {
		r = len(p.rules)
		p.names[name] = r
		p.rules = append(p.rules, definition{name: name, at: at})
	}
	return r
}

func (p *lark) define(name string, at int, body *expr) error {
	r := p.refer(name, at)
	if p.rules[r].body != nil {
		p.at = at
		return p.wrong(fmt.Sprintf("%q is defined twice", name))
	}
	p.rules[r].body = body
	return nil
}

func (p *lark) statement() error {
	if p.has("%") {
		return p.directive()
	}
	for p.hasByte("?!") {
		p.at++
	}
	at := p.at
	name := p.name()
	if strings.Trim(name, "_0123456789") == "" {
		return p.wrong("a rule, a terminal or a directive is due")
	}
	if p.skip(".") {
		p.skip("-")
		p.while(isDigit)
	}
	p.blank()
	switch {
	case p.has("{"):
		return p.refuse("a template")
	case p.has("["):
		return p.refuse("attributes of a rule")
	case !p.skip(":"):
		return p.wrong(": is due after the name of a rule or terminal")
	}
	p.goesOnAfterColon()
	body, err := p.alternatives()
	if err != nil {
		return err
	}
	if !p.done() && !p.hasByte("\r\n") {
		return p.wrong("an item, |, or the end of the line is due")
	}
	return p.define(name, at, body)
}

// goesOnAfterColon skips to the first alternative, which may lie on the next line behind a |.
func (p *lark) goesOnAfterColon() {
	p.blank()
	at := p.at
	if p.lines(); !p.skip("|") {
		p.at = at
	}
}

func (p *lark) directive() error {
	at := p.at
	p.at++
	word := p.name()
	p.blank()
	switch word {
	case "import":
		return p.imports()
	case "ignore":
		e, err := p.alternatives()
		if err == nil {
			p.ignored = append(p.ignored, e)
		}
		return err
	case "llguidance":
		if p.skip("{}") {
			return nil
		}
	}
	p.at = at
	return p.refuse("%" + word)
}

// imports reads common.NAME, with -> ALIAS, or common (A, B).
func (p *lark) imports() error {
	if !p.skip("common") {
		return p.refuse("an import of anything but common")
	}
	if p.skip(".") {
		at := p.at
		name := p.name()
		alias := name
		p.blank()
		if p.skip("->") {
			p.blank()
			alias = p.name()
		}
		return p.importOne(name, alias, at)
	}
	p.blank()
	if !p.skip("(") {
		return p.wrong("a . or ( is due after common")
	}
	for {
		p.lines()
		at := p.at
		name := p.name()
		if err := p.importOne(name, name, at); err != nil {
			return err
		}
		p.lines()
		if p.skip(")") {
			return nil
		}
		if !p.skip(",") {
			return p.wrong("a , or ) is due")
		}
	}
}

func (p *lark) importOne(name, alias string, at int) error {
	pattern, ok := commonTerminals[name]
	if !ok || strings.Trim(alias, "_0123456789") == "" {
		p.at = at
		return p.wrong(fmt.Sprintf("the library common has no terminal %q", name))
	}
	r, err := regex.Parse(pattern, regex.RE2)
	if err != nil {
		return err
	}
	return p.define(alias, at, leaf(r))
}
