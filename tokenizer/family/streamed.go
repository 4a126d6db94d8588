package family

import "bytes"

// streamedCalls are calls without markers that begin an answer. Such a call is one from its first argument on: an object that has the name of a
// tool and, next, arguments, the first of which the tool's schema names and whose value may begin so. Its arguments then stream, whatever
// follows. Where a grammar binds the answer, calls behind text are read so, too.
type streamedCalls struct {
	fence *fence // that is open; nil: none
	list  bool   // a list is open
}

// begin reads the front of the first call, or of a further one, and goes on with its arguments.
func (c *streamedCalls) begin(p *Parser, rest []byte) status {
	at := *c
	n, s := at.front(&p.request, rest)
	if s != done {
		return s
	}
	h, used, s := p.callBegun(rest[n:min(len(rest), headLimit)])
	if s == done && p.bound && bytes.IndexByte(rest[:n+used], '\'') >= 0 {
		s = bad // a grammar binds JSON's quotes only
	}
	if s != done {
		return s
	}
	*c = at
	p.streamed = c
	p.in.skip(n + used)
	p.begun(h)
	return done
}

// front reads what stands before the object of a call: a fence's beginning, and a list's.
func (c *streamedCalls) front(r *request, rest []byte) (n int, s status) {
	n = skipBlank(rest)
	if n < len(rest) && c.fence == nil && (rest[n] == '`' || rest[n] == '<') {
		f, used, s := r.calls.fenceAt(rest[n:])
		if s != done {
			return 0, s
		}
		c.fence = f
		n += used
		n += skipBlank(rest[n:])
	}
	if n < len(rest) && rest[n] == '[' && !c.list {
		c.list = true
		n++
		n += skipBlank(rest[n:])
	}
	switch {
	case n == len(rest):
		return 0, more
	case rest[n] != '{':
		return 0, bad
	}
	return n, done
}

// next reads what follows a call: the end of what it stands in, a further call, or text.
func (c *streamedCalls) next(p *Parser, final bool) bool {
	rest := p.in.rest()
	n := skipBlank(rest)
	if n == len(rest) {
		p.in.skip(n)
		return false
	}
	switch {
	case rest[n] == '}' || rest[n] == ']' && c.list: // of braces that were doubled, or of the list
		c.list = c.list && rest[n] == '}'
		p.in.skip(n + 1)
		return true
	case c.fence != nil:
		switch s := prefix(rest[n:], c.fence.close, final); s {
		case done:
			p.in.skip(n + len(c.fence.close))
			*c = streamedCalls{}
			return true
		case more:
			return false
		default:
		}
	}
	return c.further(p, rest, n, final)
}

// further reads a call behind another, at n, or behind the comma there. What is none is text.
func (c *streamedCalls) further(p *Parser, rest []byte, n int, final bool) bool {
	if p.retry.early(len(rest), final) {
		return false
	}
	at := n
	if rest[n] == ',' || rest[n] == ';' {
		at++
	}
	s := c.begin(p, rest[at:])
	if s == done {
		return true
	}
	w := objectCalls{request: &p.request, rest: rest, n: at + skipBlank(rest[at:])}
	if s == bad && w.n < len(rest) {
		s = w.block()
	}
	switch {
	case s == done || final && w.ended:
		p.retry.reset()
		p.in.skip(w.n)
		w.give(&p.out, true)
		return true
	case s == more && !final && len(rest) < headLimit:
		p.retry.wait(len(rest))
		return false
	}
	p.retry.reset()
	p.streamed = nil
	p.out.begun = p.out.begun || final && s == more
	p.in.skip(n)
	p.state = (*Parser).content
	return true
}
