package family

import "bytes"

// pythonList is the state of a parser inside of a list of Python calls.
type pythonList struct {
	props   []property
	given   int  // arguments so far, by position or name
	inValue bool // the value of an argument is open
	bare    bool // the call stands alone, without a list around it
}

var pythonSyntax = &syntax{}

// readPython reads the first call of a list: [name(
func readPython(_ *Parser, _ string, rest []byte, final bool) (head, int, status) {
	n := skipBlank(rest)
	if n == len(rest) {
		return head{}, 0, more
	}
	if rest[n] != '[' {
		return head{}, 0, bad
	}
	n++
	h, used, s := readPythonName(rest[n:], final)
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
		p.endOfCall()
		return true
	}
	h, n, s := readPythonName(rest[1:], final)
	switch s {
	case more:
		return false
	case bad:
		p.unread = final
		p.endOfCall()
		return true
	case done:
	}
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
	if s == done && p.tools[h.name] == nil {
		return head{}, 0, bad
	}
	return h, n, s
}
