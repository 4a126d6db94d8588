package family

import (
	"encoding/json"
	"slices"
	"strings"
)

// showsObjects reports whether calls are JSON objects with a name and arguments. The family's models write such an object at times and
// forget the markers around it.
func (l *layout) showsObjects() bool {
	return l.style == styleJSON && strings.Contains(l.open, `name": "`)
}

// wholeAnswer holds an answer back while it may still be calls without markers, and nothing else: objects with the name of a tool and arguments
// that its schema takes, a list of them, or either in a fence. Anything else is text.
func (p *Parser) wholeAnswer(final bool) bool {
	rest := p.in.rest()
	if p.retry.early(len(rest), final) {
		return false
	}
	w := objectCalls{request: &p.request, rest: rest}
	s := w.read()
	if s == more && len(rest) < headLimit && !final {
		p.retry.wait(len(rest))
		return false
	}
	p.retry.reset()
	if s == bad || !w.ended {
		p.out.begun = p.out.begun || final && s == more && w.named
		p.state = (*Parser).content
		return true
	}
	if !final {
		p.retry.wait(len(rest))
		return false
	}
	p.in.skip(len(rest))
	p.whole = true
	for _, c := range w.calls {
		p.out.start(c.Name, "")
		p.out.raw(string(c.Arguments))
		p.out.end()
		if !p.parallel {
			break
		}
	}
	p.state = (*Parser).ended
	return false
}

// objectCalls reads calls without markers.
type objectCalls struct {
	request *request
	rest    []byte
	n       int
	calls   []Call
	named   bool // a tool of the request was named
	ended   bool // what was read is whole, and nothing follows
}

// read reads as much as there is. It is done, and ended, where the text is calls and nothing else so far.
func (w *objectCalls) read() status {
	for {
		w.n += skipBlank(w.rest[w.n:])
		if w.n == len(w.rest) {
			w.ended = len(w.calls) > 0
			if w.ended {
				return done
			}
			return more
		}
		if s := w.block(); s != done {
			return s
		}
	}
}

// block reads a fenced block, a list, or an object.
func (w *objectCalls) block() status {
	switch w.rest[w.n] {
	case '`':
		return w.fence()
	case '[':
		return w.list()
	case '{':
		return w.object()
	case ',', ';':
		if len(w.calls) == 0 {
			return bad
		}
		w.n++
		return done
	}
	return bad
}

func (w *objectCalls) fence() status {
	const fence = "```"
	if s := prefix(w.rest[w.n:], fence, false); s != done {
		return s
	}
	n := w.n + len(fence)
	for n < len(w.rest) && isWord(w.rest[n]) && n-w.n < maxWord {
		n++
	}
	if n < len(w.rest) && !isBlank(w.rest[n]) && w.rest[n] != '{' && w.rest[n] != '[' {
		return bad
	}
	for w.n = n; ; {
		w.n += skipBlank(w.rest[w.n:])
		switch s := prefix(w.rest[w.n:], fence, false); {
		case s == more:
			return more
		case s == done && len(w.calls) > 0:
			w.n += len(fence)
			return done
		case s == done:
			return bad
		}
		if s := w.block(); s != done {
			return s
		}
	}
}

func (w *objectCalls) list() status {
	for w.n++; ; w.n++ {
		w.n += skipBlank(w.rest[w.n:])
		if w.n == len(w.rest) {
			return more
		}
		if w.rest[w.n] != '{' {
			return bad
		}
		if s := w.object(); s != done {
			return s
		}
		w.n += skipBlank(w.rest[w.n:])
		switch {
		case w.n == len(w.rest):
			return more
		case w.rest[w.n] == ']':
			w.n++
			return done
		case w.rest[w.n] != ',':
			return bad
		}
	}
}

// object reads one call.
func (w *objectCalls) object() status {
	rest := w.rest[w.n:]
	if s := w.request.namesTool(rest, false); s != done {
		return s
	}
	w.named = true
	o := cursor{src: rest}
	raw, ok := o.value(false)
	if !ok {
		return o.failed(false)
	}
	c, ok := w.request.offered(raw)
	if !ok {
		return bad
	}
	w.calls = append(w.calls, c)
	w.n += o.n
	return done
}

// offered is the call that an object stands for: of a tool that may be called, with arguments that its schema takes.
func (r *request) offered(object []byte) (Call, bool) {
	var c Call
	arguments := []byte("{}")
	for _, m := range members(object) {
		switch m.name {
		case "name", "tool_name", "function":
			if m.value[0] == '{' {
				return r.offered(m.value)
			}
			if json.Unmarshal(m.value, &c.Name) != nil {
				return Call{}, false
			}
		case "arguments", "parameters":
			arguments = asArguments(m.value)
		case "type", "id":
		default:
			return Call{}, false
		}
	}
	tool := r.tools[c.Name]
	if tool == nil || len(r.names) > 0 && !slices.Contains(r.names, c.Name) || arguments[0] != '{' || !fits(arguments, tool.Parameters) {
		return Call{}, false
	}
	c.Arguments = arguments
	return c, true
}
