package notation

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/regex"
)

// Lark adds the rules of a grammar in the part of Lark's notation that OpenAI's custom tools and llguidance use, and gives its rule start:
// rules, terminals, strings, regular expressions, ranges, groups, repetition, %ignore, %import of the library common, aliases (which say
// nothing here), and llguidance's control tokens <name> and <[id]>. The language is that of the rules: a terminal may end wherever it has
// matched, where Lark's own lexer would take the longest match. Templates, %declare, %override, %extend, %json, %regex, %lark, attributes
// and references to other grammars are refused by name; priorities are ignored.
func Lark(b *grammar.Builder, text string) (grammar.Symbol, error) {
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
	if err := undefined(p.rules); err != nil {
		return 0, err
	}
	if start, err = p.finish(start); err != nil {
		return 0, err
	}
	symbol := emit(b, p.rules, start)
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
		p.rules = append(p.rules, definition{name: name, place: p.place(at)})
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

// finish checks the terminals and, where something is ignored, puts it behind every terminal of a rule and before the first.
func (p *lark) finish(start int) (int, error) {
	for _, r := range p.rules {
		if isTerminal(r.name) {
			if err := p.checkTerminal(&r, r.body); err != nil {
				return 0, err
			}
		}
	}
	if err := p.checkLoops(); err != nil {
		return 0, err
	}
	if len(p.ignored) == 0 {
		return start, nil
	}
	for _, e := range p.ignored {
		if err := p.checkTerminal(&definition{name: "%ignore"}, e); err != nil {
			return 0, err
		}
	}
	gap := repeat(alt(p.ignored), 0, regex.Unbounded)
	for i := range p.rules {
		if !isTerminal(p.rules[i].name) {
			p.rules[i].body = p.spaced(p.rules[i].body, gap)
		}
	}
	p.rules = append(p.rules, definition{name: "answer", body: seq([]*expr{gap, {kind: exprRef, rule: start}})})
	return len(p.rules) - 1, nil
}

// checkTerminal refuses rules and control tokens inside a terminal.
func (p *lark) checkTerminal(d *definition, e *expr) error {
	if e.kind == exprRef && !isTerminal(p.rules[e.rule].name) {
		return fmt.Errorf("%w: the terminal %s uses the rule %q; terminals are made of terminals", ErrSyntax, d.name, p.rules[e.rule].name)
	}
	if e.kind == exprToken {
		return fmt.Errorf("%w: %s: a control token inside a terminal; use it in a rule", ErrUnsupported, d.name)
	}
	for _, k := range e.kids {
		if err := p.checkTerminal(d, k); err != nil {
			return err
		}
	}
	return nil
}

// checkLoops refuses terminals that use themselves.
func (p *lark) checkLoops() error {
	const unseen, open, done = 0, 1, 2
	state := make([]int, len(p.rules))
	var visit func(r int) error
	var walk func(e *expr) error
	walk = func(e *expr) error {
		if e.kind == exprRef {
			return visit(e.rule)
		}
		for _, k := range e.kids {
			if err := walk(k); err != nil {
				return err
			}
		}
		return nil
	}
	visit = func(r int) error {
		switch {
		case !isTerminal(p.rules[r].name) || state[r] == done:
			return nil
		case state[r] == open:
			return fmt.Errorf("%w: the terminal %s uses itself; make it a rule", ErrSyntax, p.rules[r].name)
		}
		state[r] = open
		err := walk(p.rules[r].body)
		state[r] = done
		return err
	}
	for r := range p.rules {
		if err := visit(r); err != nil {
			return err
		}
	}
	return nil
}

// spaced puts the gap behind every terminal.
func (p *lark) spaced(e *expr, gap *expr) *expr {
	switch {
	case e.kind == exprLeaf, e.kind == exprToken, e.kind == exprRef && isTerminal(p.rules[e.rule].name):
		return &expr{kind: exprSeq, kids: []*expr{e, gap}}
	case e.kind == exprRef:
		return e
	}
	c := *e
	c.kids = make([]*expr, len(e.kids))
	for i, k := range e.kids {
		c.kids[i] = p.spaced(k, gap)
	}
	return &c
}
