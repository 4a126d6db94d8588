package chat

import "slices"

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
		err = p.errorf("tag %s is not supported: a chat template cannot use other templates", quoted(t.text))
	default:
		err = p.errorf("unknown tag %s", quoted(t.text))
	}
	return []statement{s}, err
}

func (p *parser) ifStatement(line int) (statement, error) {
	p.conditions++
	defer func() { p.conditions-- }()
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
	conditions := p.conditions
	p.conditions = 0
	defer func() { p.conditions = conditions }()
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
func (p *expressions) signature(m *macroBody) error {
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
	loops, conditions := p.loops, p.conditions
	p.loops, p.conditions = 0, 0
	p.macros = append(p.macros, m)
	var err error
	m.body, err = p.lastFrame(end)
	p.macros = p.macros[:len(p.macros)-1]
	p.loops, p.conditions = loops, conditions
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

// reserved names cannot be assigned.
var reserved = []string{"true", "false", "none", "True", "False", "None"}

// target parses the left side of an assignment.
func (p *expressions) target(namespaces bool) (target, error) {
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

func (p *expressions) singleTarget(namespaces bool) (target, error) {
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
