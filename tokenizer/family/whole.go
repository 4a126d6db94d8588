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

// fence is what models put around calls when they forget the family's markers.
type fence struct {
	open, close string
	named       bool // a word may follow open: the name of a language
}

// fences are code blocks, and the tags that llama.cpp takes from models that were taught Hermes's.
var fences = []fence{
	{"```", "```", true}, {"<tools>", "</tools>", false}, {"<tool>", "</tool>", false},
	{"<function_call>", "</function_call>", false}, {"<json>", "</json>", false},
}

// unmarkedFences are the fences that calls without markers may have, and the beginnings of lines where such calls may stand behind text: none
// that a marker of the family begins with.
func unmarkedFences(m *markup) (list []fence, lines []string) {
	free := func(begin string) bool {
		return !slices.ContainsFunc(m.allMarkers, func(marker string) bool { return strings.HasPrefix(strings.TrimPrefix(marker, "\n"), begin) })
	}
	for _, f := range fences {
		if free(f.open) {
			list = append(list, f)
			lines = append(lines, "\n"+f.open)
		}
	}
	for _, begin := range [...]string{"{", "["} {
		if free(begin) {
			lines = append(lines, "\n"+begin)
		}
	}
	return list, lines
}

// unmarked is the state where text begins, and calls without markers might.
func (p *Parser) unmarked() func(*Parser, bool) bool {
	if p.calls == nil || p.out.said || p.out.calls > 0 || len(p.calls.fences) == 0 {
		return (*Parser).content
	}
	p.skip = 0
	p.retry.reset()
	return (*Parser).unmarkedCalls
}

// unmarkedBehind reads the rest of an answer next as calls without markers. The line that may begin them stands unread after blanks
// bytes of white space.
func (p *Parser) unmarkedBehind(line string, blanks int) {
	p.skip = blanks + len(line)
	p.retry.reset()
	p.state = (*Parser).unmarkedCalls
}

// unmarkedCalls reads calls without markers. One that begins the answer streams as soon as it is one (streamedCalls). Else the rest of the
// answer is held back while it may still be such calls, and nothing else: objects with the name of a tool and arguments that its schema
// takes, a list of them, or either in a fence. Anything else is text; p.skip bytes of it are looked at no more.
func (p *Parser) unmarkedCalls(final bool) bool {
	rest := p.in.rest()
	if p.retry.early(len(rest), final) {
		return false
	}
	if !p.out.said || p.bound {
		c := &streamedCalls{}
		switch s := c.begin(p, rest); {
		case s == done:
			return true
		case s == more && len(rest) < headLimit && !final:
			p.retry.wait(len(rest))
			return false
		}
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
		p.take(Content, p.skip)
		return true
	}
	if !final {
		p.retry.wait(len(rest))
		return false
	}
	p.in.skip(len(rest))
	p.whole = true
	w.give(&p.out, p.parallel)
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

// give gives the calls that were read: the first, or all of them.
func (w *objectCalls) give(out *output, all bool) {
	for _, c := range w.calls {
		out.start(c.Name, "")
		out.raw(string(c.Arguments))
		out.end()
		if !all {
			break
		}
	}
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
	case '`', '<':
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

// fence reads a fence with calls.
func (w *objectCalls) fence() status {
	f, n, s := w.request.calls.fenceAt(w.rest[w.n:])
	if s != done {
		return s
	}
	w.n += n
	return w.fenced(f)
}

// fenceAt reads the beginning of a fence, with the name of a language.
func (m *markup) fenceAt(rest []byte) (*fence, int, status) {
	all := bad
	for i := range m.fences {
		f := &m.fences[i]
		switch prefix(rest, f.open, false) {
		case done:
			n := len(f.open)
			for f.named && n < len(rest) && isWord(rest[n]) && n < maxWord {
				n++
			}
			if n < len(rest) && !isBlank(rest[n]) && rest[n] != '{' && rest[n] != '[' {
				return nil, 0, bad
			}
			return f, n, done
		case more:
			all = more
		default:
		}
	}
	return nil, 0, all
}

// fenced reads the calls in a fence, and its end.
func (w *objectCalls) fenced(f *fence) status {
	for {
		w.n += skipBlank(w.rest[w.n:])
		switch s := prefix(w.rest[w.n:], f.close, false); {
		case s == more: // an answer may end without the fence's end
			w.ended = len(w.calls) > 0
			return more
		case s == done && len(w.calls) > 0:
			w.n += len(f.close)
			return done
		case s == done:
			return bad
		}
		if w.rest[w.n] == '<' || w.rest[w.n] == '`' {
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

// object reads one call. Its braces may be doubled, as the templates of Qwen2.5-Coder show them; those behind it then match nothing.
func (w *objectCalls) object() status {
	rest := w.rest[w.n:]
	if s := w.request.namesTool(rest, false); s != done {
		return s
	}
	w.named = true
	doubled := rest[1] == '{'
	o := cursor{src: rest}
	if doubled {
		o.n++
	}
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
	for doubled && w.n < len(w.rest) && w.rest[w.n] == '}' {
		w.n++
	}
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
