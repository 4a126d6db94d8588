package chat

import (
	"slices"
	"strings"
)

// expressions parses expressions, with the grammar and precedences of Jinja2.
type expressions struct {
	cursor
	symbolTable
	lib     *library
	unknown error // the first filter or test that does not exist
}

// The grammar of expressions, from the weakest binding to the strongest:
// a if b else c, or, and, not, comparisons, + -, ~, * / // %, **, signs,
// postfix (. [] ()) and filters and tests.

func (p *expressions) expression() (expression, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	return p.condition()
}

func (p *expressions) condition() (expression, error) {
	unknown := p.unknown
	e, err := p.or()
	if err != nil || !p.isName("if") {
		return e, err
	}
	p.unknown = unknown // a filter that e names need not exist before a render reaches e
	p.conditions++
	defer func() { p.conditions-- }()
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

// reportUnknown notes a filter or test that does not exist. As in Jinja the
// template then does not parse; where the name stands inside of a condition,
// only a render that reaches the filter or test fails.
func (p *expressions) reportUnknown(what, name string) {
	if p.conditions == 0 && p.unknown == nil {
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
func (p *expressions) binary(operand func() (expression, error), ops ...string) (expression, error) {
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

func (p *expressions) or() (expression, error) {
	left, err := p.and()
	for err == nil && p.skipName("or") {
		var right expression
		if right, err = p.and(); err == nil {
			left = &orExpr{left, right}
		}
	}
	return left, err
}

func (p *expressions) and() (expression, error) {
	left, err := p.not()
	for err == nil && p.skipName("and") {
		var right expression
		if right, err = p.not(); err == nil {
			left = &andExpr{left, right}
		}
	}
	return left, err
}

func (p *expressions) not() (expression, error) {
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

func (p *expressions) compare() (expression, error) {
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
func (p *expressions) comparison() (string, bool) {
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

func (p *expressions) sum() (expression, error) { return p.binary(p.concat, "+", "-") }

func (p *expressions) concat() (expression, error) {
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

func (p *expressions) product() (expression, error) { return p.binary(p.power, "*", "/", "//", "%") }

func (p *expressions) power() (expression, error) {
	return p.binary(func() (expression, error) { return p.unary(true) }, "**")
}

// unary parses a sign or a primary with what follows it. As in Jinja a sign
// binds stronger than the filters after its operand.
func (p *expressions) unary(withFilter bool) (expression, error) {
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

func (p *expressions) primary() (expression, error) {
	t := p.tok()
	switch t.kind {
	case tokenName:
		p.next()
		return p.name(t.text), nil
	case tokenString:
		p.next()
		var text strings.Builder // adjacent literals are one string, as in Python
		text.WriteString(t.text)
		for p.tok().kind == tokenString {
			text.WriteString(p.next().text)
		}
		return &constExpr{literal(text.String())}, nil
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

func (p *expressions) name(name string) expression {
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
	end         string // a name that ends the tuple
	parentheses bool   // inside of (): the tuple may be empty
}

// tuple parses an expression, or a tuple where commas follow.
func (p *expressions) tuple(rule tupleRule) (expression, error) {
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

func (p *expressions) tupleEnd(end string) bool {
	k := p.tok().kind
	return k == tokenPrintEnd || k == tokenBlockEnd || p.isOp(")") || end != "" && p.isName(end)
}

// items parses expressions up to the closing bracket.
func (p *expressions) items(end string) ([]expression, error) {
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

func (p *expressions) dictLiteral() (expression, error) {
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
