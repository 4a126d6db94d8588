package chat

import (
	"slices"
)

// parser builds the tree from tokens by recursive descent.
type parser struct {
	expressions
	loops int // enclosing loops inside the current macro
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
