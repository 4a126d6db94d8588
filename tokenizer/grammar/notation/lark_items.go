package notation

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"weir/tokenizer/grammar/regex"
)

func (p *lark) alternatives() (*expr, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	var all []*expr
	for {
		a, err := p.sequence()
		if err != nil {
			return nil, err
		}
		all = append(all, a)
		p.goesOn()
		if !p.skip("|") {
			return alt(all), nil
		}
		p.blank()
	}
}

func (p *lark) sequence() (*expr, error) {
	var items []*expr
	for p.gap(); !p.done(); p.gap() {
		item, err := p.item()
		if err != nil {
			return nil, err
		}
		if item == nil {
			break
		}
		if item, err = p.repeated(item); err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	if p.skip("->") { // an alias names a branch of Lark's tree
		p.blank()
		if p.name() == "" {
			return nil, p.wrong("a name is due after ->")
		}
	}
	return seq(items), nil
}

// gap skips what may stand between items: ends of lines inside groups only.
func (p *lark) gap() {
	if p.depth > 1 {
		p.lines()
		return
	}
	p.blank()
}

// item reads one item, or nothing where none begins.
func (p *lark) item() (*expr, error) {
	switch c := p.text[p.at]; c {
	case '"':
		return p.literalOrRange()
	case '/':
		return p.pattern()
	case '(', '[':
		p.at++
		group, err := p.alternatives()
		if err != nil {
			return nil, err
		}
		if p.lines(); c == '(' && !p.skip(")") || c == '[' && !p.skip("]") {
			return nil, p.wrong("a group without its end")
		}
		if c == '[' {
			group = repeat(group, 0, 1)
		}
		return group, nil
	case '<':
		return p.controlToken()
	case '@':
		return nil, p.refuse("a reference to another grammar")
	case '%':
		return nil, p.refuse("a grammar inside a rule")
	case '&', '~':
		return nil, p.refuse("intersection and complement (& and ~)")
	}
	at := p.at
	name := p.name()
	if name == "" {
		return nil, nil
	}
	if strings.Trim(name, "_0123456789") == "" {
		p.at = at
		return nil, p.wrong("a name has a letter")
	}
	if p.has("{") {
		if _, _, ok := p.braces(); !ok {
			return nil, p.refuse("a template")
		}
	}
	return &expr{kind: exprRef, rule: p.refer(name, at)}, nil
}

// quoted reads the text between quotation marks, escapes resolved.
func (p *lark) quoted() (string, error) {
	from := p.at
	p.at++
	for !p.done() && !p.hasByte("\"\n") {
		if p.skip(`\`) && p.done() {
			break
		}
		p.rune()
	}
	if !p.skip(`"`) {
		p.at = from
		return "", p.wrong(`a " without its end`)
	}
	inner := p.text[from+1 : p.at-1]
	if !strings.Contains(inner, `\`) {
		return inner, nil
	}
	var text []byte
	for inner != "" {
		r, _, rest, err := strconv.UnquoteChar(inner, '"')
		switch {
		case err != nil && inner[0] == '\\' && len(inner) > 1: // Python keeps escapes that it does not know; Lark's are a character each
			text = append(text, inner[1])
			inner = inner[2:]
			continue
		case err != nil:
			p.at = from
			return "", p.wrong("an escape that is none")
		default:
			text = utf8.AppendRune(text, r)
		}
		inner = rest
	}
	return string(text), nil
}

func (p *lark) literalOrRange() (*expr, error) {
	text, err := p.quoted()
	if err != nil {
		return nil, err
	}
	at := p.at
	p.blank()
	if p.skip("..") {
		p.blank()
		if !p.has(`"`) {
			return nil, p.wrong("a range ends with a string")
		}
		last, err := p.quoted()
		if err != nil {
			return nil, err
		}
		if utf8.RuneCountInString(text) != 1 || utf8.RuneCountInString(last) != 1 {
			return nil, p.wrong("a range is from one character to another")
		}
		from, _ := utf8.DecodeRuneInString(text)
		to, _ := utf8.DecodeRuneInString(last)
		if from > to {
			return nil, p.wrong("a range in the wrong order")
		}
		return leaf(regex.Runes(regex.RuneRange{First: from, Last: to})), nil
	}
	p.at = at
	if p.has("i") && !isNameByte(p.text, p.at+1) {
		p.at++
		letters := make([]*regex.Regex, 0, len(text))
		for _, r := range text {
			letters = append(letters, regex.Fold(r))
		}
		return leaf(regex.Concat(letters...)), nil
	}
	return leaf(regex.Literal(text)), nil
}

func isNameByte(text string, at int) bool {
	return at < len(text) && (isDigit(text[at]) || isLower(text[at]) || isUpper(text[at]) || text[at] == '_')
}

// pattern reads /expression/ and its flags.
func (p *lark) pattern() (*expr, error) {
	from := p.at
	p.at++
	for !p.has("/") { // a / ends a pattern wherever it stands, unless a \ stands before it
		if p.done() || p.has("\n") {
			p.at = from
			return nil, p.wrong("a / without its end")
		}
		if p.rune() == '\\' && !p.done() {
			p.rune()
		}
	}
	source := strings.ReplaceAll(p.text[from+1:p.at], `\/`, `/`)
	p.at++
	syntax := regex.Syntax{Flavor: regex.RE2}
	for {
		switch {
		case p.skip("i"):
			syntax.IgnoreCase = true
		case p.skip("s"):
			syntax.DotAll = true
		case p.skip("x"):
			syntax.Extended = true
		case p.skip("u"), p.skip("l"):
		case p.has("m"):
			return nil, p.refuse("the flag m, anchors at line ends")
		default:
			r, err := syntax.Parse(source)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.place(from), err)
			}
			return leaf(r), nil
		}
	}
}

// repeated reads * + ? ~n ~n..m {n} {n,m} after an item.
func (p *lark) repeated(item *expr) (*expr, error) {
	for !p.done() {
		at := p.at
		switch {
		case p.skip("*"):
			item = repeat(item, 0, regex.Unbounded)
			continue
		case p.skip("+"):
			item = repeat(item, 1, regex.Unbounded)
			continue
		case p.skip("?"):
			item = repeat(item, 0, 1)
			continue
		}
		if p.has("{") {
			text, size, ok := p.braces()
			if !ok {
				return nil, p.wrong("counts are {n}, {n,} or {n,m}")
			}
			p.at += size
			counts := gbnf{scanner: scanner{text: text}}
			least, most, err := counts.counts()
			if err != nil {
				p.at = at
				return nil, fmt.Errorf("%s: %w", p.place(at), err)
			}
			item = repeat(item, least, most)
			continue
		}
		p.blank()
		if !p.skip("~") {
			p.at = at
			return item, nil
		}
		p.blank()
		least, ok, err := p.number()
		if err != nil || !ok {
			return nil, orWrong(err, p.wrong("a count is due after ~"))
		}
		most := least
		if p.skip("..") {
			if most, ok, err = p.number(); err != nil || !ok {
				return nil, orWrong(err, p.wrong("a count is due after .."))
			}
		}
		if least > most {
			return nil, p.wrong("counts in the wrong order")
		}
		item = repeat(item, least, most)
	}
	return item, nil
}

func orWrong(err, wrong error) error {
	if err != nil {
		return err
	}
	return wrong
}

// braces gives what looks like counts in braces, and its size.
func (p *lark) braces() (text string, size int, ok bool) {
	end := strings.IndexByte(p.text[p.at:], '}')
	if end < 2 || strings.Trim(p.text[p.at+1:p.at+end], "0123456789, \t") != "" {
		return "", 0, false
	}
	return p.text[p.at : p.at+end+1], end + 1, true
}
