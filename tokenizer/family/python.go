package family

import (
	"bytes"
	"strings"
)

// pythonList reads the arguments of a call as Python writes them.
type pythonList struct {
	in      *source
	out     *output
	state   func(l *pythonList, final bool) status // reads a step on
	props   []property
	value   value // of an argument
	given   int   // arguments so far, by position or name
	inValue bool  // the value of an argument is open
	alone   bool  // the call stands alone, without a list around it
	bound   bool  // a grammar of the family binds the answer
	ended   bool
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
func (r *request) pythonCall(rest []byte, alone, final bool) (head, int, status) {
	h, n, s := readPythonName(rest, final)
	if s != done {
		return h, n, s
	}
	h.name = strings.TrimSuffix(h.name, ".call")
	h.alone = alone
	if !r.bound && (!alone || r.tools[h.name] != nil) {
		if s = r.ahead(h, rest[n:], final); s == more && final {
			s = bad
		}
		h.broken = s == bad
	}
	return h, n, s
}

// readPython reads the first call of a list: [name(
func readPython(r *request, _ string, rest []byte, final bool) (head, int, status) {
	n := skipBlank(rest)
	if n == len(rest) {
		return head{}, 0, more
	}
	if rest[n] != '[' {
		return head{}, 0, bad
	}
	n++
	h, used, s := r.pythonCall(rest[n:], false, final)
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
func pythonBody(r *request, h head, in *source, out *output) arguments {
	out.raw("{")
	return &pythonList{in: in, out: out, state: (*pythonList).argument, props: r.properties(h.name), alone: h.alone, bound: r.bound}
}

func (l *pythonList) read(final bool) status {
	for !l.ended {
		if s := l.state(l, final); s != done {
			return s
		}
	}
	return done
}

func (l *pythonList) complete(dst []byte) []byte {
	if l.inValue {
		dst = l.value.close(dst)
	}
	return append(dst, '}')
}

func (l *pythonList) then(p *Parser) {
	p.endOfCall()
	if !l.alone && p.parallel {
		p.state = (*Parser).pythonNext
	}
}

// argument reads up to the value of the next argument, or the call's end.
func (l *pythonList) argument(final bool) status {
	l.in.skipBlank()
	rest := l.in.rest()
	if len(rest) == 0 {
		return more
	}
	if rest[0] == ')' {
		l.in.skip(1)
		l.out.raw("}")
		l.ended = true
		return done
	}
	if rest[0] == ',' && l.given > 0 {
		l.in.skip(1)
		return done
	}
	name, n, s := keyword(rest, final)
	if s == more {
		return more
	}
	if s == bad {
		if name = l.position(); name == "" {
			return bad
		}
	}
	l.in.skip(n)
	from := len(l.out.json)
	if l.given > 0 {
		l.out.json = append(l.out.json, ',', ' ')
	}
	l.given++
	l.out.json = append(appendQuoted(l.out.json, []byte(name)), ':', ' ')
	l.out.arguments(from)
	l.inValue = true
	l.value.reset(pythonSyntax)
	l.value.bound = l.bound
	l.value.named, l.value.alone = s == done, l.alone
	l.state = (*pythonList).valueOf
	return done
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
func (l *pythonList) position() string {
	if l.given < len(l.props) {
		return l.props[l.given].name
	}
	return ""
}

// valueOf reads the value of an argument.
func (l *pythonList) valueOf(final bool) status {
	s := l.out.value(&l.value, l.in, final)
	if s == done {
		l.inValue = false
		l.state = (*pythonList).behind
	}
	return s
}

// behind reads what follows an argument: a comma or the call's end.
func (l *pythonList) behind(bool) status {
	l.in.skipBlank()
	rest := l.in.rest()
	if len(rest) == 0 {
		return more
	}
	if bytes.IndexByte([]byte(",)"), rest[0]) < 0 {
		return bad
	}
	l.state = (*pythonList).argument
	return done
}

// barePython reads a list of calls that stands without an opener: the first name must be a tool's.
func barePython(r *request, rest []byte, final bool) (head, int, status) {
	if len(rest) == 0 {
		return head{}, 0, more
	}
	h, n, s := readPython(r, "", rest, final)
	if s != more && r.tools[h.name] == nil {
		return head{}, 0, bad
	}
	return h, n, s
}
