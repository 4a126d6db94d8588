package notation

import (
	"fmt"
	"unicode/utf8"

	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/regex"
)

var grammarTooLarge = grammar.ErrLimit

// GBNF adds the rules of a grammar in llama.cpp's notation and gives its rule root. Left recursion, which llama.cpp refuses, is served, and
// repetition has no limit but regex.MaxCount. Names may have underscores, as in XGrammar's dialect. Not served: tokens that are excluded
// (!<name>).
func GBNF(b *grammar.Builder, text string) (grammar.Symbol, error) {
	s, err := newScanner(text)
	if err != nil {
		return 0, err
	}
	p := gbnf{scanner: s, names: map[string]int{}}
	for p.blank(true); !p.done(); p.blank(true) {
		if err := p.rule(); err != nil {
			return 0, err
		}
	}
	root, ok := p.names["root"]
	if !ok {
		return 0, fmt.Errorf("%w: it has no rule named root", ErrSyntax)
	}
	if err := p.undefined(p.rules); err != nil {
		return 0, err
	}
	symbol := emit(b, p.rules, root, nil)
	return symbol, b.Err()
}

type gbnf struct {
	scanner
	rules []definition
	names map[string]int
}

// blank skips blanks and comments, and ends of lines where they count as such.
func (p *gbnf) blank(lines bool) {
	for !p.done() {
		switch c := p.text[p.at]; {
		case c == ' ' || c == '\t':
		case c == '#':
			for !p.done() && !p.hasByte("\r\n") {
				p.at++
			}
			continue
		case lines && (c == '\n' || c == '\r'):
		default:
			return
		}
		p.at++
	}
}

func (p *gbnf) name() string {
	return p.while(func(b byte) bool { return isDigit(b) || isLower(b) || isUpper(b) || b == '-' || b == '_' })
}

// refer gives the number of a rule, a new one where the name comes up the first time.
func (p *gbnf) refer(name string, at int) int {
	r, ok := p.names[name]
	if !ok {
		r = len(p.rules)
		p.names[name] = r
		p.rules = append(p.rules, definition{name: name, at: at})
	}
	return r
}

func (p *gbnf) rule() error {
	at := p.at
	name := p.name()
	if name == "" {
		return p.wrong("the name of a rule is due")
	}
	p.blank(false)
	if !p.skip("::=") {
		return p.wrong("::= is due after the name of a rule")
	}
	r := p.refer(name, at)
	if p.rules[r].body != nil {
		p.at = at
		return p.wrong(fmt.Sprintf("the rule %q is defined twice", name))
	}
	p.blank(true)
	body, err := p.alternatives(false)
	if err != nil {
		return err
	}
	if !p.done() && !p.hasByte("\r\n") {
		return p.wrong("an item, |, or the end of the line is due")
	}
	p.rules[r].body = body
	return nil
}

func (p *gbnf) alternatives(nested bool) (*expr, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	var all []*expr
	for {
		a, err := p.sequence(nested)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
		at := p.at
		p.blank(true) // XGrammar's grammars begin a line with |, too
		if !p.skip("|") {
			if !nested {
				p.at = at
			}
			return alt(all), nil
		}
		p.blank(true)
	}
}

func (p *gbnf) sequence(nested bool) (*expr, error) {
	var items []*expr
	for !p.done() {
		at := p.at
		item, err := p.item()
		if err != nil {
			return nil, err
		}
		if item == nil {
			break
		}
		p.blank(nested)
		for p.hasByte("*+?{") {
			if item, err = p.repeated(item, nested); err != nil {
				return nil, err
			}
		}
		if p.at == at {
			return nil, p.wrong("an item is due")
		}
		items = append(items, item)
	}
	return seq(items), nil
}

// item reads one item, or nothing where none begins.
func (p *gbnf) item() (*expr, error) {
	switch c := p.text[p.at]; c {
	case '"':
		return p.literal()
	case '[':
		return p.class()
	case '(':
		p.at++
		p.blank(true)
		group, err := p.alternatives(true)
		if err == nil && !p.skip(")") {
			err = p.wrong("a ( without its )")
		}
		return group, err
	case '.':
		p.at++
		return leaf(regex.AnyRune()), nil
	case '<':
		return p.controlToken()
	case '!':
		return nil, p.refuse("tokens that are excluded (!<name>)")
	case '*', '+', '?', '{':
		return nil, p.wrong("a repetition of nothing")
	}
	at := p.at
	name := p.name()
	if name == "" {
		return nil, nil
	}
	return &expr{kind: exprRef, rule: p.refer(name, at)}, nil
}

func (p *gbnf) literal() (*expr, error) {
	p.at++
	var text []byte
	for !p.skip(`"`) {
		r, err := p.letter()
		if err != nil {
			return nil, err
		}
		text = utf8.AppendRune(text, r)
	}
	return leaf(regex.Literal(string(text))), nil
}

// letter reads one character of a literal or a class.
func (p *gbnf) letter() (rune, error) {
	if p.done() {
		return 0, p.wrong("the grammar ends inside a literal or a class")
	}
	if !p.skip(`\`) {
		return p.rune(), nil
	}
	if p.done() {
		return 0, p.wrong(`a \ at the end`)
	}
	switch c := p.rune(); c {
	case 'x':
		return p.hex(2)
	case 'u':
		return p.hex(4)
	case 'U':
		return p.hex(8)
	case 'n':
		return '\n', nil
	case 'r':
		return '\r', nil
	case 't':
		return '\t', nil
	case '\\', '"', '[', ']', '-', '^', '\'', '/':
		return c, nil
	default:
		p.at -= utf8.RuneLen(c)
		return 0, p.wrong("an unknown escape")
	}
}

func (p *gbnf) class() (*expr, error) {
	p.at++
	negated := p.skip("^")
	var set []regex.RuneRange
	for !p.skip("]") {
		first, err := p.letter()
		if err != nil {
			return nil, err
		}
		last := first
		if p.has("-") && !p.has("-]") {
			p.at++
			if last, err = p.letter(); err != nil {
				return nil, err
			}
			if last < first {
				return nil, p.wrong("a range in the wrong order")
			}
		}
		set = append(set, regex.RuneRange{First: first, Last: last})
	}
	if negated {
		return leaf(regex.Except(set...)), nil
	}
	return leaf(regex.Runes(set...)), nil
}

// repeated reads one of * + ? {m} {m,} {m,n} {,n} and the blanks after it.
func (p *gbnf) repeated(item *expr, nested bool) (*expr, error) {
	least, most, err := p.counts()
	if err != nil {
		return nil, err
	}
	p.blank(nested)
	return repeat(item, least, most), nil
}

func (p *gbnf) counts() (least, most int, err error) {
	most = regex.Unbounded
	switch c := p.text[p.at]; c {
	case '*', '+', '?':
		p.at++
		switch c {
		case '+':
			least = 1
		case '?':
			most = 1
		}
		return least, most, nil
	}
	p.at++
	p.blank(false)
	least, first, err := p.number()
	if err != nil {
		return 0, 0, err
	}
	p.blank(false)
	if p.skip(",") {
		p.blank(false)
		n, second, err := p.number()
		if err != nil {
			return 0, 0, err
		}
		if second {
			most = n
		} else if !first {
			return 0, 0, p.wrong("a count is due")
		}
		p.blank(false)
	} else if most = least; !first {
		return 0, 0, p.wrong("a count is due")
	}
	if !p.skip("}") {
		return 0, 0, p.wrong("a } is due")
	}
	if most >= 0 && least > most {
		return 0, 0, p.wrong("counts in the wrong order")
	}
	return least, most, nil
}
