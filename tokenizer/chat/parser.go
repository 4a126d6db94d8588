package chat

import (
	"fmt"
	"slices"
)

// parser builds the tree from tokens by recursive descent, with the grammar
// and precedences of Jinja2.
type parser struct {
	tokens  []token
	pos     int
	lib     *library
	symbols map[string]int
	names   []string
	depth   int
	loops   int   // enclosing loops inside the current macro
	soft    int   // enclosing conditions: unknown filters are an error only when reached
	unknown error // the first filter or test that does not exist
	macros  []*macroBody
	frames  int          // enclosing blocks that have a scope of their own
	seen    map[int]bool // symbols mentioned outside of frames so far
	hidden  []symbol     // of those the ones that were assigned before they were read
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

// next consumes a token; the end of the template stays.
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
	if assigned && p.soft == 0 {
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

// template parses everything.
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

// statement parses one {% ... %} up to, not with, its %}.
func (p *parser) statement() ([]statement, error) {
	t, err := p.expectKind(tokenName)
	if err != nil {
		return nil, err
	}
	var s statement
	switch t.text {
	case "if":
		s, err = p.ifStatement(t.line)
	case "for":
		s, err = p.forStatement(t.line)
	case "set":
		s, err = p.setStatement(t.line)
	case "macro":
		s, err = p.macroStatement(t.line)
	case "call":
		s, err = p.callStatement(t.line)
	case "filter":
		s, err = p.filterStatement(t.line)
	case "with":
		s, err = p.withStatement(t.line)
	case "generation":
		s, err = p.generationStatement()
	case "print":
		return p.printStatement(t.line)
	case "break", "continue":
		s, err = p.loopControl(t.text)
	case "block", "extends", "include", "import", "from", "autoescape":
		err = p.errorf("tag %s is not supported: a chat template stands alone", quoted(t.text))
	default:
		err = p.errorf("unknown tag %s", quoted(t.text))
	}
	return []statement{s}, err
}

func (p *parser) ifStatement(line int) (statement, error) {
	p.soft++
	defer func() { p.soft-- }()
	s := &ifStmt{line: line}
	for {
		test, err := p.tuple(tupleRule{noCondition: true})
		if err != nil {
			return nil, err
		}
		body, err := p.block("elif", "else", "endif")
		if err != nil {
			return nil, err
		}
		s.branches = append(s.branches, branch{test, body})
		switch p.next().text {
		case "elif":
			continue
		case "else":
			s.otherwise, err = p.lastBlock("endif")
		}
		return s, err
	}
}

func (p *parser) forStatement(line int) (statement, error) {
	soft := p.soft
	p.soft = 0
	defer func() { p.soft = soft }()
	s := &forStmt{line: line, loop: p.symbol("loop")}
	var err error
	if s.target, err = p.target(false); err != nil {
		return nil, err
	}
	if err := p.expectName("in"); err != nil {
		return nil, err
	}
	if s.iterable, err = p.tuple(tupleRule{noCondition: true, end: "recursive"}); err != nil {
		return nil, err
	}
	if p.skipName("if") {
		p.frames++
		s.test, err = p.expression()
		p.frames--
		if err != nil {
			return nil, err
		}
	}
	s.recursive = p.skipName("recursive")
	p.loops++
	s.body, err = p.frame("endfor", "else")
	p.loops--
	if err != nil {
		return nil, err
	}
	if p.next().text == "else" {
		s.otherwise, err = p.lastFrame("endfor")
	}
	return s, err
}

func (p *parser) loopControl(name string) (statement, error) {
	if p.loops == 0 {
		return nil, p.errorf("%s outside of a loop", quoted(name))
	}
	if name == "break" {
		return breakStmt{}, nil
	}
	return continueStmt{}, nil
}

func (p *parser) setStatement(line int) (statement, error) {
	to, err := p.target(true)
	if err != nil {
		return nil, err
	}
	if p.skipOp("=") {
		value, err := p.tuple(tupleRule{})
		p.mentionTarget(to)
		return &setStmt{to, value, line}, err
	}
	p.mentionTarget(to)
	s := &setBlockStmt{target: to, line: line}
	if p.isOp("|") {
		if s.filter, err = p.filters(capturedExpr{}); err != nil {
			return nil, err
		}
	}
	s.body, err = p.lastFrame("endset")
	return s, err
}

// reserved names cannot be assigned.
var reserved = []string{"true", "false", "none", "True", "False", "None"}

// target parses the left side of an assignment.
func (p *parser) target(namespaces bool) (target, error) {
	var all []target
	for {
		t, err := p.singleTarget(namespaces)
		if err != nil {
			return target{}, err
		}
		all = append(all, t)
		if !p.skipOp(",") {
			break
		}
		if p.tok().kind != tokenName && !p.isOp("(") || p.isName("in") {
			return target{tuple: all}, nil // a comma at the end
		}
	}
	if len(all) == 1 {
		return all[0], nil
	}
	return target{tuple: all}, nil
}

func (p *parser) singleTarget(namespaces bool) (target, error) {
	if err := p.enter(); err != nil {
		return target{}, err
	}
	defer p.leave()
	if p.skipOp("(") {
		t, err := p.target(namespaces)
		if err != nil {
			return target{}, err
		}
		return t, p.expectOp(")")
	}
	name, err := p.expectKind(tokenName)
	if err != nil {
		return target{}, err
	}
	if slices.Contains(reserved, name.text) {
		return target{}, p.errorf("cannot assign to %s", quoted(name.text))
	}
	t := target{symbol: p.symbol(name.text)}
	if namespaces && p.skipOp(".") {
		attr, err := p.expectKind(tokenName)
		t.attribute = attr.text
		return t, err
	}
	return t, nil
}

func (p *parser) macroStatement(line int) (statement, error) {
	name, err := p.expectKind(tokenName)
	if err != nil {
		return nil, err
	}
	m := &macroBody{name: name.text, line: line}
	sym := p.symbol(name.text)
	p.mention(sym, true)
	if err := p.signature(m); err != nil {
		return nil, err
	}
	return &macroStmt{sym, m}, p.macroBody(m, "endmacro")
}

// signature parses (a, b=1).
func (p *parser) signature(m *macroBody) error {
	if err := p.expectOp("("); err != nil {
		return err
	}
	for !p.isOp(")") {
		if len(m.params) > 0 {
			if err := p.expectOp(","); err != nil {
				return err
			}
		}
		name, err := p.expectKind(tokenName)
		if err != nil {
			return err
		}
		m.params = append(m.params, p.symbol(name.text))
		if p.skipOp("=") {
			p.frames++
			value, err := p.expression()
			p.frames--
			if err != nil {
				return err
			}
			m.defaults = append(m.defaults, value)
		} else if len(m.defaults) > 0 {
			return p.errorf("parameter without default follows one with a default")
		}
	}
	return p.expectOp(")")
}

// macroBody parses the body; loops and conditions around do not count inside.
func (p *parser) macroBody(m *macroBody, end string) error {
	loops, soft := p.loops, p.soft
	p.loops, p.soft = 0, 0
	p.macros = append(p.macros, m)
	var err error
	m.body, err = p.lastFrame(end)
	p.macros = p.macros[:len(p.macros)-1]
	p.loops, p.soft = loops, soft
	m.caller, m.varargs, m.kwargs = p.symbol("caller"), p.symbol("varargs"), p.symbol("kwargs")
	for _, param := range m.params {
		m.useVarargs = m.useVarargs && param.name != "varargs"
		m.useKwargs = m.useKwargs && param.name != "kwargs"
	}
	return err
}

func (p *parser) callStatement(line int) (statement, error) {
	m := &macroBody{line: line}
	if p.isOp("(") {
		if err := p.signature(m); err != nil {
			return nil, err
		}
	}
	e, err := p.expression()
	if err != nil {
		return nil, err
	}
	call, ok := e.(*callExpr)
	if !ok {
		return nil, p.errorf("expected a call")
	}
	return &callStmt{call, m, line}, p.macroBody(m, "endcall")
}

func (p *parser) generationStatement() (statement, error) {
	m := &macroBody{}
	err := p.macroBody(m, "endgeneration")
	return &scopeStmt{m.body}, err
}

func (p *parser) filterStatement(line int) (statement, error) {
	f, err := p.filter(capturedExpr{})
	if err != nil {
		return nil, err
	}
	if f, err = p.filters(f); err != nil {
		return nil, err
	}
	body, err := p.lastFrame("endfilter")
	return &filterStmt{f, body, line}, err
}

func (p *parser) withStatement(line int) (statement, error) {
	s := &withStmt{line: line}
	for p.tok().kind != tokenBlockEnd {
		if len(s.targets) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
		}
		to, err := p.singleTarget(false)
		if err != nil {
			return nil, err
		}
		if err := p.expectOp("="); err != nil {
			return nil, err
		}
		value, err := p.expression()
		if err != nil {
			return nil, err
		}
		s.targets, s.values = append(s.targets, to), append(s.values, value)
	}
	var err error
	s.body, err = p.lastFrame("endwith")
	return s, err
}

func (p *parser) printStatement(line int) ([]statement, error) {
	var out []statement
	for p.tok().kind != tokenBlockEnd {
		if len(out) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
		}
		value, err := p.expression()
		if err != nil {
			return nil, err
		}
		out = append(out, &printStmt{value, line})
	}
	return out, nil
}
