package family

import (
	"bytes"
	"strings"
)

// pythonList is the state of a parser inside of a list of Python calls.
type pythonList struct {
	props   []property
	given   int  // arguments so far, by position or name
	inValue bool // the value of an argument is open
	bare    bool // the call stands alone, without a list around it
}

var pythonSyntax = &syntax{python: true}

// pythonSet stands for the brace of a set on a stack of open containers. JSON has it as a list.
const pythonSet = 's'

// braces tells a set from a dictionary by what follows its first item.
func braces(src []byte, final bool) (kind byte, s status) {
	n := 1 + skipBlank(src[1:])
	if n == len(src) {
		return '{', unless(final)
	}
	if src[n] == '}' {
		return '{', done
	}
	var item value
	item.reset(pythonSyntax)
	item.at = beforeItem
	item.stack = append(item.stack, '[')
	for item.at != afterValue || len(item.stack) > 1 {
		if n == len(src) {
			return '{', unless(final)
		}
		_, used, s := item.step(nil, src[n:], final)
		if s != done {
			return '{', s
		}
		n += used
	}
	n += skipBlank(src[n:])
	switch {
	case n == len(src):
		return '{', unless(final)
	case src[n] == ':':
		return '{', done
	}
	return pythonSet, done
}

// unless is the status of a text that is too short to tell.
func unless(final bool) status {
	if final {
		return bad
	}
	return more
}

// quoteOf is the delimiter of the string that begins here.
func (v *value) quoteOf(src []byte, final bool) (string, status) {
	if v.syntax.python {
		three := strings.Repeat(string(src[0]), 3)
		if s := prefix(src, three, final); s != bad {
			return three, s
		}
	}
	return string(src[0]), done
}

// closes reports whether the quote in front of rest ends its string. Models forget to escape quotes in the strings of Python calls: one is
// the end only where the list goes on behind it.
func (v *value) closes(rest []byte, final bool) status {
	if !v.syntax.python || v.bound || len(v.quote) != 1 {
		return done
	}
	n := skipBlank(rest)
	if n == len(rest) {
		if final {
			return done
		}
		return more
	}
	c := rest[n]
	if len(v.stack) > 0 {
		if bytes.IndexByte([]byte(",:]})"), c) >= 0 {
			return done
		}
		return bad
	}
	n++
	n += skipBlank(rest[n:])
	switch {
	case c == ')' && v.alone:
		return done
	case c == ')' && n == len(rest), c == ',' && n == len(rest):
		if final {
			return done
		}
		return more
	case c == ')':
		if bytes.IndexByte([]byte("],;<"), rest[n]) >= 0 {
			return done
		}
	case c == ',' && v.named:
		if rest[n] == ')' {
			return done
		}
		_, _, s := keyword(rest[n:], final)
		return s
	case c == ',':
		return done
	}
	return bad
}

// pythonCall reads a name and its bracket where the arguments behind them can be read to their end: a call of which a part is missing is
// worse than none. Calls too long to look ahead stream.
func (p *Parser) pythonCall(rest []byte, alone, final bool) (head, int, status) {
	h, n, s := readPythonName(rest, final)
	if s != done {
		return h, n, s
	}
	h.name = strings.TrimSuffix(h.name, ".call")
	if !p.options.Bound && (!alone || p.tools[h.name] != nil) {
		q := p.ahead(h, rest[n:])
		q.list.bare = alone
		pythonBody(q)
		if s = q.toEnd(final); s == more && final {
			s = bad
		}
		h.broken = s == bad
	}
	return h, n, s
}

// ahead is a parser of the arguments of a call that has not begun.
func (p *Parser) ahead(h head, rest []byte) *Parser {
	q := &Parser{family: p.family, calls: p.calls, tools: p.tools, buf: rest, head: h}
	q.startCall(h.name, "-")
	return q
}

// toEnd reads up to the end of the call. It is done, too, where the call is too long to read ahead.
func (p *Parser) toEnd(final bool) status {
	for p.inCall && p.state(p, final) {
	}
	switch {
	case p.unreadable > 0:
		return bad
	case p.inCall && (final || len(p.buf) < headLimit-2*maxKey):
		return more
	}
	return done
}

// readPython reads the first call of a list: [name(
func readPython(p *Parser, _ string, rest []byte, final bool) (head, int, status) {
	n := skipBlank(rest)
	if n == len(rest) {
		return head{}, 0, more
	}
	if rest[n] != '[' {
		return head{}, 0, bad
	}
	n++
	h, used, s := p.pythonCall(rest[n:], false, final)
	return h, n + used, s
}

// readPythonName reads name( with dots in the name.
func readPythonName(rest []byte, final bool) (head, int, status) {
	start := skipBlank(rest)
	n := start
	for n < len(rest) && n < maxKey && isIdentifier(rest[n]) {
		n++
	}
	name := string(rest[start:n])
	if n < len(rest) && n == start {
		return head{}, 0, bad
	}
	n += skipBlank(rest[n:])
	if n == len(rest) {
		return head{}, 0, unfinished(rest[:min(n, maxKey)], final)
	}
	if rest[n] != '(' {
		return head{}, 0, bad
	}
	return head{name: name}, n + 1, done
}

func isIdentifier(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '.' || c == '-' || c >= 0x80
}

// pythonBody begins the arguments of a call.
func pythonBody(p *Parser) {
	p.form = formList
	p.list = pythonList{bare: p.list.bare}
	if t := p.tools[p.head.name]; t != nil {
		p.list.props = properties(t.Parameters)
	}
	p.raw("{")
	p.state = (*Parser).pythonArgument
}

// pythonArgument reads up to the value of the next argument, or the call's end.
func (p *Parser) pythonArgument(final bool) bool {
	p.at += skipBlank(p.rest())
	rest := p.rest()
	if len(rest) == 0 {
		return false
	}
	if rest[0] == ')' {
		p.at++
		p.pythonEnd()
		return true
	}
	if rest[0] == ',' && p.list.given > 0 {
		p.at++
		return true
	}
	name, n, s := keyword(rest, final)
	if s == more {
		return false
	}
	if s == bad {
		if name = p.position(); name == "" {
			p.endCall(true)
			p.breakOff(final)
			return true
		}
	}
	p.at += n
	from := len(p.out)
	if p.list.given > 0 {
		p.out = append(p.out, ',', ' ')
	}
	p.list.given++
	p.out = append(appendQuoted(p.out, []byte(name)), ':', ' ')
	p.arguments(from)
	p.list.inValue = true
	p.value.reset(pythonSyntax)
	p.value.bound = p.options.Bound
	p.value.named, p.value.alone = s == done, p.list.bare
	p.state = (*Parser).pythonValue
	return true
}

// keyword reads name= before a value; bad means that the value has no name.
func keyword(rest []byte, final bool) (string, int, status) {
	n := 0
	for n < len(rest) && n < maxKey && isIdentifier(rest[n]) {
		n++
	}
	end := n
	n += skipBlank(rest[n:])
	if n == len(rest) && !final && n < maxKey {
		return "", 0, more
	}
	if n == len(rest) || end == 0 || rest[n] != '=' {
		return "", 0, bad
	}
	return string(rest[:end]), n + 1, done
}

// position names an argument by its place in the tool's schema.
func (p *Parser) position() string {
	if p.list.given < len(p.list.props) {
		return p.list.props[p.list.given].name
	}
	return ""
}

func (p *Parser) pythonValue(final bool) bool {
	from := len(p.out)
	out, n, s := p.value.read(p.out, p.rest(), final)
	p.out = out
	p.at += n
	p.arguments(from)
	switch s {
	case more:
		return false
	case bad:
		p.endCall(true)
		p.breakOff(final)
		return true
	default:
	}
	p.list.inValue = false
	p.state = (*Parser).pythonAfter
	return true
}

// pythonAfter reads what follows an argument: a comma or the call's end.
func (p *Parser) pythonAfter(final bool) bool {
	p.at += skipBlank(p.rest())
	rest := p.rest()
	if len(rest) == 0 {
		return false
	}
	if bytes.IndexByte([]byte(",)"), rest[0]) < 0 {
		p.endCall(true)
		p.breakOff(final)
		return true
	}
	p.state = (*Parser).pythonArgument
	return true
}

func (p *Parser) pythonEnd() {
	p.raw("}")
	p.endCall(false)
	p.endOfCall()
	if !p.list.bare && p.options.Choice.Parallel {
		p.state = (*Parser).pythonNext
	}
}

// pythonNext reads what follows a call in a list.
func (p *Parser) pythonNext(final bool) bool {
	p.at += skipBlank(p.rest())
	rest := p.rest()
	if len(rest) == 0 {
		return false
	}
	if rest[0] != ',' {
		if rest[0] == ']' {
			p.at++
		}
		p.echo.ends(p.buf, p.at)
		p.endOfCall()
		return true
	}
	if len(rest) < p.retry && !final {
		return false
	}
	h, n, s := p.pythonCall(rest[1:], false, final)
	switch s {
	case more:
		p.wait(len(rest))
		return false
	case bad:
		if h.broken {
			p.unreadable++
		}
		p.retry = 0
		p.unread = final
		p.echo.drop()
		p.endOfCall()
		return true
	case done:
	}
	p.retry = 0
	p.at += 1 + n
	p.begun(h)
	return true
}

// barePython reads a list of calls that stands without an opener: the first name must be a tool's.
func barePython(p *Parser, rest []byte, final bool) (head, int, status) {
	if len(rest) == 0 {
		return head{}, 0, more
	}
	h, n, s := readPython(p, "", rest, final)
	if s != more && p.tools[h.name] == nil {
		return head{}, 0, bad
	}
	return h, n, s
}
