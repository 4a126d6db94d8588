package chat

import "slices"

// The grammar of expressions, from the weakest binding to the strongest:
// a if b else c, or, and, not, comparisons, + -, ~, * / // %, **, signs,
// postfix (. [] ()) and filters and tests.

func (p *parser) expression() (expression, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	return p.condition()
}

func (p *parser) condition() (expression, error) {
	unknown := p.unknown
	e, err := p.or()
	if err != nil || !p.isName("if") {
		return e, err
	}
	p.unknown = unknown // what e names counts only when it is reached
	p.soft++
	defer func() { p.soft-- }()
	for p.skipName("if") {
		c := &condExpr{then: e}
		if c.test, err = p.or(); err != nil {
			return nil, err
		}
		if p.skipName("else") {
			if c.otherwise, err = p.expression(); err != nil {
				return nil, err
			}
		}
		e = c
	}
	return e, nil
}

// reportUnknown notes a filter or test that does not exist. As in Jinja that
// fails the template, but inside of conditions only the render that gets there.
func (p *parser) reportUnknown(what, name string) {
	if p.soft == 0 && p.unknown == nil {
		p.unknown = p.errorf("%s", noSuch(what, name))
	}
}

func noSuch(what, name string) string {
	if slices.Contains(unsupported, name) {
		return what + " " + quoted(name) + " is not supported"
	}
	return "no " + what + " named " + quoted(name)
}

// binary parses a left-associative chain of the given operators.
func (p *parser) binary(operand func() (expression, error), ops ...string) (expression, error) {
	left, err := operand()
	for err == nil && p.tok().kind == tokenOperator && slices.Contains(ops, p.tok().text) {
		op := p.next().text
		var right expression
		if right, err = operand(); err == nil {
			left = &binaryExpr{op, left, right}
		}
	}
	return left, err
}

func (p *parser) or() (expression, error) {
	left, err := p.and()
	for err == nil && p.skipName("or") {
		var right expression
		if right, err = p.and(); err == nil {
			left = &orExpr{left, right}
		}
	}
	return left, err
}

func (p *parser) and() (expression, error) {
	left, err := p.not()
	for err == nil && p.skipName("and") {
		var right expression
		if right, err = p.not(); err == nil {
			left = &andExpr{left, right}
		}
	}
	return left, err
}

func (p *parser) not() (expression, error) {
	if !p.isName("not") {
		return p.compare()
	}
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	p.next()
	operand, err := p.not()
	return &notExpr{operand}, err
}

func (p *parser) compare() (expression, error) {
	first, err := p.sum()
	if err != nil {
		return nil, err
	}
	var rest []comparison
	for {
		op, ok := p.comparison()
		if !ok {
			break
		}
		operand, err := p.sum()
		if err != nil {
			return nil, err
		}
		rest = append(rest, comparison{op, operand})
	}
	if rest == nil {
		return first, nil
	}
	return &compareExpr{first, rest}, nil
}

// comparison consumes a comparison operator.
func (p *parser) comparison() (string, bool) {
	switch t := p.tok(); {
	case t.kind == tokenOperator && slices.Contains([]string{"==", "!=", "<", "<=", ">", ">="}, t.text):
		return p.next().text, true
	case p.skipName("in"):
		return "in", true
	case p.isName("not") && p.peek().is(tokenName, "in"):
		p.next()
		p.next()
		return "not in", true
	}
	return "", false
}

func (p *parser) sum() (expression, error) { return p.binary(p.concat, "+", "-") }

func (p *parser) concat() (expression, error) {
	first, err := p.product()
	if err != nil || !p.isOp("~") {
		return first, err
	}
	items := []expression{first}
	for p.skipOp("~") {
		item, err := p.product()
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return &concatExpr{items}, nil
}

func (p *parser) product() (expression, error) { return p.binary(p.power, "*", "/", "//", "%") }

func (p *parser) power() (expression, error) {
	return p.binary(func() (expression, error) { return p.unary(true) }, "**")
}

// unary parses a sign or a primary with what follows it. As in Jinja a sign
// binds stronger than the filters behind its operand.
func (p *parser) unary(withFilter bool) (expression, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	var e expression
	var err error
	switch {
	case p.isOp("-") || p.isOp("+"):
		minus := p.next().text == "-"
		if e, err = p.unary(false); err == nil {
			e = &signExpr{e, minus}
		}
	default:
		e, err = p.primary()
	}
	if err == nil {
		e, err = p.postfix(e)
	}
	if err == nil && withFilter {
		e, err = p.filtersAndTests(e)
	}
	return e, err
}

func (p *parser) primary() (expression, error) {
	t := p.tok()
	switch t.kind {
	case tokenName:
		p.next()
		return p.name(t.text), nil
	case tokenString:
		p.next()
		text := t.text
		for p.tok().kind == tokenString {
			text += p.next().text
		}
		return &constExpr{literal(text)}, nil
	case tokenInteger, tokenFloat:
		v, ok := t.constant()
		if !ok {
			return nil, p.errorf("invalid number %s", quoted(t.text))
		}
		p.next()
		return &constExpr{v}, nil
	}
	switch {
	case p.skipOp("("):
		e, err := p.tuple(tupleRule{parentheses: true})
		if err != nil {
			return nil, err
		}
		return e, p.expectOp(")")
	case p.skipOp("["):
		items, err := p.items("]")
		return &listExpr{items}, err
	case p.skipOp("{"):
		return p.dictLiteral()
	}
	return nil, p.errorf("unexpected %s", t.describe())
}

func (p *parser) name(name string) expression {
	switch name {
	case "true", "True":
		return &constExpr{boolean(true)}
	case "false", "False":
		return &constExpr{boolean(false)}
	case "none", "None":
		return &constExpr{None()}
	}
	return &nameExpr{p.use(name)}
}

// tupleRule says where a tuple without brackets may stand.
type tupleRule struct {
	noCondition bool   // a if b else c is not part of it
	end         string // a name that ends it
	parentheses bool   // in (): may be empty
}

// tuple parses an expression, or a tuple where commas follow.
func (p *parser) tuple(rule tupleRule) (expression, error) {
	var items []expression
	comma := false
	for !p.tupleEnd(rule.end) {
		parse := p.expression
		if rule.noCondition {
			parse = p.or
		}
		e, err := parse()
		if err != nil {
			return nil, err
		}
		items = append(items, e)
		if !p.skipOp(",") {
			break
		}
		comma = true
	}
	if !comma && len(items) == 1 {
		return items[0], nil
	}
	if len(items) == 0 && !rule.parentheses {
		return nil, p.errorf("expected an expression, got %s", p.tok().describe())
	}
	return &tupleExpr{items}, nil
}

func (p *parser) tupleEnd(end string) bool {
	k := p.tok().kind
	return k == tokenPrintEnd || k == tokenBlockEnd || p.isOp(")") || end != "" && p.isName(end)
}

// items parses expressions up to the closing bracket.
func (p *parser) items(end string) ([]expression, error) {
	items := []expression{}
	for !p.skipOp(end) {
		if len(items) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
			if p.skipOp(end) {
				break
			}
		}
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		items = append(items, e)
	}
	return items, nil
}

func (p *parser) dictLiteral() (expression, error) {
	d := &dictExpr{}
	for !p.skipOp("}") {
		if len(d.keys) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
			if p.skipOp("}") {
				break
			}
		}
		key, err := p.expression()
		if err != nil {
			return nil, err
		}
		if err := p.expectOp(":"); err != nil {
			return nil, err
		}
		value, err := p.expression()
		if err != nil {
			return nil, err
		}
		d.keys, d.values = append(d.keys, key), append(d.values, value)
	}
	return d, nil
}

func (p *parser) postfix(e expression) (expression, error) {
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

func (p *parser) attribute(object expression) (expression, error) {
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

func (p *parser) subscript(object expression) (expression, error) {
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
				return nil, p.errorf("a slice stands alone in brackets")
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

func (p *parser) slice(object, from expression) (expression, error) {
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

func (p *parser) call(callee expression) (expression, error) {
	line := p.tok().line
	args, err := p.arguments()
	return &callExpr{callee, args, line}, err
}

// arguments parses (a, b=c, *d, **e).
func (p *parser) arguments() (arguments, error) {
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

func (p *parser) argument(a *arguments) error {
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

func (p *parser) filtersAndTests(e expression) (expression, error) {
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
func (p *parser) filters(e expression) (expression, error) {
	var err error
	for err == nil && p.skipOp("|") {
		e, err = p.filter(e)
	}
	return e, err
}

// filter parses name(args).
func (p *parser) filter(object expression) (expression, error) {
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

func (p *parser) dottedName() (name string, line int, err error) {
	t, err := p.expectKind(tokenName)
	name = t.text
	for err == nil && p.skipOp(".") {
		var part token
		part, err = p.expectKind(tokenName)
		name += "." + part.text
	}
	return name, t.line, err
}

func (p *parser) test(object expression) (expression, error) {
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
func (p *parser) testOperand() bool {
	switch t := p.tok(); t.kind {
	case tokenName:
		return t.text != "else" && t.text != "or" && t.text != "and"
	case tokenString, tokenInteger, tokenFloat:
		return true
	}
	return p.isOp("[") || p.isOp("{")
}
