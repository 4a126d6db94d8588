package chat

import (
	"slices"
	"strings"
)

func (p *expressions) postfix(e expression) (expression, error) {
	var err error
	for err == nil {
		switch {
		case p.skipOp("."):
			e, err = p.attribute(e)
		case p.skipOp("["):
			e, err = p.subscript(e)
		case p.isOp("("):
			e, err = p.call(e)
		default:
			return e, nil
		}
	}
	return nil, err
}

func (p *expressions) attribute(object expression) (expression, error) {
	switch t := p.tok(); t.kind {
	case tokenName:
		p.next()
		return &attrExpr{object, t.text}, nil
	case tokenInteger:
		p.next()
		v, ok := t.constant()
		if ok {
			return &indexExpr{object, &constExpr{v}}, nil
		}
	}
	return nil, p.errorf("expected name or number, got %s", p.tok().describe())
}

func (p *expressions) subscript(object expression) (expression, error) {
	var items []expression
	for !p.isOp("]") {
		if len(items) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
		}
		var e expression
		var err error
		if !p.isOp(":") {
			if e, err = p.expression(); err != nil {
				return nil, err
			}
		}
		if p.isOp(":") {
			if len(items) > 0 {
				return nil, p.errorf("a slice must be the only item in brackets")
			}
			return p.slice(object, e)
		}
		items = append(items, e)
	}
	p.next()
	if len(items) == 1 {
		return &indexExpr{object, items[0]}, nil
	}
	return &indexExpr{object, &tupleExpr{items}}, nil
}

func (p *expressions) slice(object, from expression) (expression, error) {
	p.next() // the colon
	s := &sliceExpr{object: object, from: from}
	part := func() (expression, error) {
		if p.isOp(":") || p.isOp("]") {
			return nil, nil
		}
		return p.expression()
	}
	var err error
	if s.to, err = part(); err != nil {
		return nil, err
	}
	if p.skipOp(":") {
		if s.step, err = part(); err != nil {
			return nil, err
		}
	}
	return s, p.expectOp("]")
}

func (p *expressions) call(callee expression) (expression, error) {
	line := p.tok().line
	args, err := p.arguments()
	return &callExpr{callee, args, line}, err
}

// arguments parses (a, b=c, *d, **e).
func (p *expressions) arguments() (arguments, error) {
	var a arguments
	p.next() // the parenthesis
	for first := true; !p.skipOp(")"); first = false {
		if !first {
			if err := p.expectOp(","); err != nil {
				return a, err
			}
			if p.skipOp(")") {
				break
			}
		}
		if err := p.argument(&a); err != nil {
			return a, err
		}
	}
	return a, nil
}

func (p *expressions) argument(a *arguments) error {
	var err error
	switch {
	case a.star == nil && a.starStar == nil && p.skipOp("*"):
		a.star, err = p.expression()
	case a.starStar == nil && p.skipOp("**"):
		a.starStar, err = p.expression()
	case a.starStar == nil && p.tok().kind == tokenName && p.peek().is(tokenOperator, "="):
		name := p.next().text
		p.next()
		if slices.Contains(a.names, name) {
			return p.errorf("argument %s is given twice", quoted(name))
		}
		a.names = append(a.names, name)
		var e expression
		e, err = p.expression()
		a.named = append(a.named, e)
	case a.star == nil && a.starStar == nil && a.names == nil:
		var e expression
		e, err = p.expression()
		a.positional = append(a.positional, e)
	default:
		return p.errorf("positional argument follows named ones")
	}
	return err
}

func (p *expressions) filtersAndTests(e expression) (expression, error) {
	var err error
	for err == nil {
		switch {
		case p.isOp("|"):
			e, err = p.filters(e)
		case p.isName("is"):
			e, err = p.test(e)
		case p.isOp("("):
			e, err = p.call(e)
		default:
			return e, nil
		}
	}
	return nil, err
}

// filters parses | name(args) as often as it occurs.
func (p *expressions) filters(e expression) (expression, error) {
	var err error
	for err == nil && p.skipOp("|") {
		e, err = p.filter(e)
	}
	return e, err
}

// filter parses name(args).
func (p *expressions) filter(object expression) (expression, error) {
	name, line, err := p.dottedName()
	if err != nil {
		return nil, err
	}
	f := &filterExpr{object: object, name: name, filter: p.lib.filters[name], line: line}
	if f.filter == nil {
		p.reportUnknown("filter", name)
	}
	if p.isOp("(") {
		f.args, err = p.arguments()
	}
	return f, err
}

func (p *expressions) dottedName() (name string, line int, err error) {
	t, err := p.expectKind(tokenName)
	parts := []string{t.text}
	for err == nil && p.skipOp(".") {
		var part token
		part, err = p.expectKind(tokenName)
		parts = append(parts, part.text)
	}
	return strings.Join(parts, "."), t.line, err
}

func (p *expressions) test(object expression) (expression, error) {
	p.next() // is
	negated := p.skipName("not")
	name, line, err := p.dottedName()
	if err != nil {
		return nil, err
	}
	t := &testExpr{object: object, name: name, test: p.lib.tests[name], line: line}
	if t.test == nil {
		p.reportUnknown("test", name)
	}
	switch {
	case p.isOp("("):
		t.args, err = p.arguments()
	case p.isName("is"):
		err = p.errorf("tests cannot be chained with is")
	case p.testOperand():
		var e expression
		if e, err = p.primary(); err == nil {
			e, err = p.postfix(e)
		}
		t.args.positional = []expression{e}
	}
	if negated {
		return &notExpr{t}, err
	}
	return t, err
}

// testOperand reports whether an argument without parentheses follows.
func (p *expressions) testOperand() bool {
	switch t := p.tok(); t.kind {
	case tokenName:
		return t.text != "else" && t.text != "or" && t.text != "and"
	case tokenString, tokenInteger, tokenFloat:
		return true
	}
	return p.isOp("[") || p.isOp("{")
}
