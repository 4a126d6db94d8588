package chat

import "fmt"

// cursor is the place in a template's tokens.
type cursor struct {
	tokens []token
	pos    int
	depth  int // of blocks and brackets
}

// maxNesting bounds blocks in blocks and brackets in brackets.
const maxNesting = 200

func (c *cursor) errorf(format string, args ...any) error {
	return &Error{Reason: Syntax, Line: c.tok().line, Message: fmt.Sprintf(format, args...)}
}

func (c *cursor) enter() error {
	c.depth++
	if c.depth > maxNesting {
		return c.errorf("nesting deeper than %d levels", maxNesting)
	}
	return nil
}

func (c *cursor) leave() { c.depth-- }

func (c *cursor) tok() token { return c.tokens[c.pos] }

func (c *cursor) peek() token { return c.tokens[min(c.pos+1, len(c.tokens)-1)] }

// next consumes a token, but never the one at the end of the template.
func (c *cursor) next() token {
	t := c.tokens[c.pos]
	if c.pos < len(c.tokens)-1 {
		c.pos++
	}
	return t
}

func (t token) is(kind tokenKind, text string) bool { return t.kind == kind && t.text == text }

func (c *cursor) isOp(text string) bool { return c.tok().is(tokenOperator, text) }

func (c *cursor) isName(text string) bool { return c.tok().is(tokenName, text) }

func (c *cursor) skipOp(text string) bool {
	if c.isOp(text) {
		c.next()
		return true
	}
	return false
}

func (c *cursor) skipName(text string) bool {
	if c.isName(text) {
		c.next()
		return true
	}
	return false
}

func (c *cursor) expectOp(text string) error {
	if !c.skipOp(text) {
		return c.errorf("expected %s, got %s", quoted(text), c.tok().describe())
	}
	return nil
}

func (c *cursor) expectName(text string) error {
	if !c.skipName(text) {
		return c.errorf("expected %s, got %s", quoted(text), c.tok().describe())
	}
	return nil
}

func (c *cursor) expectKind(kind tokenKind) (token, error) {
	if c.tok().kind != kind {
		return token{}, c.errorf("expected %s, got %s", token{kind: kind, text: "a name"}.describe(), c.tok().describe())
	}
	return c.next(), nil
}
