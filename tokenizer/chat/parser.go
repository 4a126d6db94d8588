package chat

import (
	"fmt"
	"slices"
)

// parser builds the tree from tokens by recursive descent, with the grammar
// and precedences of Jinja2.
type parser struct {
	tokens     []token
	pos        int
	lib        *library
	symbols    map[string]int
	names      []string
	depth      int
	loops      int   // enclosing loops inside the current macro
	conditions int   // enclosing conditions: inside, an unknown filter is an error only when a render reaches it
	unknown    error // the first filter or test that does not exist
	macros     []*macroBody
	frames     int          // enclosing blocks that have a scope of their own
	seen       map[int]bool // symbols mentioned outside of frames so far
	hidden     []symbol     // of seen: assigned before they were read
}

// maxNesting bounds blocks in blocks and brackets in brackets.
const maxNesting = 200

func (p *parser) errorf(format string, args ...any) error {
	return &Error{Reason: Syntax, Line: p.tok().line, Message: fmt.Sprintf(format, args...)}
}

func (p *parser) enter() error {
	p.depth++
	if p.depth > maxNesting {
		return p.errorf("nesting deeper than %d levels", maxNesting)
	}
	return nil
}

func (p *parser) leave() { p.depth-- }

func (p *parser) tok() token { return p.tokens[p.pos] }

func (p *parser) peek() token { return p.tokens[min(p.pos+1, len(p.tokens)-1)] }

// next consumes a token, but never the one at the end of the template.
func (p *parser) next() token {
	t := p.tokens[p.pos]
	if p.pos < len(p.tokens)-1 {
		p.pos++
	}
	return t
}

func (t token) is(kind tokenKind, text string) bool { return t.kind == kind && t.text == text }

func (p *parser) isOp(text string) bool { return p.tok().is(tokenOperator, text) }

func (p *parser) isName(text string) bool { return p.tok().is(tokenName, text) }

func (p *parser) skipOp(text string) bool {
	if p.isOp(text) {
		p.next()
		return true
	}
	return false
}

func (p *parser) skipName(text string) bool {
	if p.isName(text) {
		p.next()
		return true
	}
	return false
}

func (p *parser) expectOp(text string) error {
	if !p.skipOp(text) {
		return p.errorf("expected %s, got %s", quoted(text), p.tok().describe())
	}
	return nil
}

func (p *parser) expectName(text string) error {
	if !p.skipName(text) {
		return p.errorf("expected %s, got %s", quoted(text), p.tok().describe())
	}
	return nil
}

func (p *parser) expectKind(kind tokenKind) (token, error) {
	if p.tok().kind != kind {
		return token{}, p.errorf("expected %s, got %s", token{kind: kind, text: "a name"}.describe(), p.tok().describe())
	}
	return p.next(), nil
}

// symbol numbers a variable's name, and notes the implicit parameters of the
// macros around.
func (p *parser) symbol(name string) symbol {
	id, ok := p.symbols[name]
	if !ok {
		id = len(p.names)
		p.symbols[name] = id
		p.names = append(p.names, name)
	}
	return symbol{name, id}
}

func (p *parser) use(name string) symbol {
	for _, m := range p.macros {
		m.useCaller = m.useCaller || name == "caller"
		m.useVarargs = m.useVarargs || name == "varargs"
		m.useKwargs = m.useKwargs || name == "kwargs"
	}
	sym := p.symbol(name)
	p.mention(sym, false)
	return sym
}

// mention notes a variable of the template's outermost block. Where the first
// mention assigns it, and not only under a condition, Jinja takes the name for
// a local one from the beginning: inner blocks that run before the assignment
// do not see an input of that name.
func (p *parser) mention(sym symbol, assigned bool) {
	if p.frames > 0 || p.seen[sym.id] {
		return
	}
	p.seen[sym.id] = true
	if assigned && p.conditions == 0 {
		p.hidden = append(p.hidden, sym)
	}
}

// mentionTarget notes the names that an assignment sets.
func (p *parser) mentionTarget(t target) {
	if t.tuple == nil {
		p.mention(t.symbol, t.attribute == "")
	}
	for _, part := range t.tuple {
		p.mentionTarget(part)
	}
}

// frame parses a block that has a scope of its own.
func (p *parser) frame(end ...string) ([]statement, error) {
	p.frames++
	defer func() { p.frames-- }()
	return p.block(end...)
}

// lastFrame is lastBlock for a block with a scope of its own.
func (p *parser) lastFrame(end string) ([]statement, error) {
	p.frames++
	defer func() { p.frames-- }()
	return p.lastBlock(end)
}

// template parses the whole source.
func (p *parser) template() ([]statement, error) {
	body, err := p.statements()
	if err == nil && p.tok().kind != tokenEOF {
		err = p.errorf("unexpected %s", p.tok().describe())
	}
	if err == nil {
		err = p.unknown
	}
	return body, err
}

// statements parses up to a block that begins with one of ends, whose name is
// then the current token; without ends up to the end of the template.
func (p *parser) statements(ends ...string) ([]statement, error) {
	var body []statement
	for {
		t := p.next()
		switch t.kind {
		case tokenEOF:
			if len(ends) > 0 {
				return nil, p.errorf("unexpected end of template, expected %s", quoted(ends[len(ends)-1]))
			}
			return body, nil
		case tokenData:
			body = append(body, &textStmt{t.text})
		case tokenPrintBegin:
			value, err := p.tuple(tupleRule{})
			if err != nil {
				return nil, err
			}
			if _, err := p.expectKind(tokenPrintEnd); err != nil {
				return nil, err
			}
			body = append(body, &printStmt{value, t.line})
		case tokenBlockBegin:
			if p.tok().kind == tokenName && slices.Contains(ends, p.tok().text) {
				return body, nil
			}
			s, err := p.statement()
			if err != nil {
				return nil, err
			}
			body = append(body, s...)
			if _, err := p.expectKind(tokenBlockEnd); err != nil {
				return nil, err
			}
		}
	}
}

// block parses the body of a statement from the end of its head on: {% end %}
// is left as the current token's name.
func (p *parser) block(ends ...string) ([]statement, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	p.skipOp(":")
	if _, err := p.expectKind(tokenBlockEnd); err != nil {
		return nil, err
	}
	return p.statements(ends...)
}

// lastBlock is block with the end's name consumed.
func (p *parser) lastBlock(end string) ([]statement, error) {
	body, err := p.block(end)
	p.next()
	return body, err
}
