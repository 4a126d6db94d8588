package family

import (
	"bytes"
	"strings"
)

const maxKey = 512 // bytes of the head of a call or of an argument

// tags are the markers of families that write each argument between tags of its own. The value is raw text; its type comes from the
// tool's schema, or from an attribute of the tag.
type tags struct {
	nameEnd    string // ends the name of the call; empty where the name ends at the first tag or line
	key        string // opens an argument
	keyEnd     string // ends its name
	valueStart string // opens the value, after white space; empty where keyEnd does
	valueEnd   string // ends the value; after keyed tags the key and > follow
	end        string // ends the call
	trim       bool   // one newline after the beginning of a value and one before its end are markup
	whole      string // instead of arguments, one JSON object follows this; empty where that cannot be
	attributes bool   // names of calls and arguments are attributes: name="k" string="true"
}

// tagged is the state of a parser inside of tagged arguments.
type tagged struct {
	tags  *tags
	ends  [2]string // what ends the open value
	key   string
	types types
	some  bool // an argument was written
	open  bool // inside a string that streams
	calls []string
	props []property
}

// readTagged reads the name of a call whose arguments are tagged.
func readTagged(p *Parser, _ string, rest []byte, final bool) (head, int, status) {
	g := p.calls.tags
	short := rest[:min(len(rest), maxKey)]
	if g.nameEnd == "" {
		return readLooseName(g, short, final)
	}
	at := bytes.Index(short, []byte(g.nameEnd))
	if at < 0 {
		return head{}, 0, unfinished(short, final)
	}
	text := string(short[:at])
	h := head{name: trimName(text)}
	if g.attributes {
		h.name = attribute(text, "name")
		if h.name == "" {
			h.name = attribute(text, "tool")
		}
	}
	if !validName(h.name) {
		return head{}, 0, bad
	}
	n := at + len(g.nameEnd)
	if g.whole != "" {
		n += skipBlank(rest[n:])
		switch prefix(rest[n:], g.whole, final) {
		case more:
			return head{}, 0, more
		case done:
			h.plain = true
			return objectAt(h, rest, n+len(g.whole), final)
		default:
		}
	}
	return h, n, done
}

// readLooseName reads a name that a tag or a newline ends; only a name with arguments or the call's end behind it is one.
func readLooseName(g *tags, rest []byte, final bool) (head, int, status) {
	at := bytes.IndexByte(rest, '<')
	if at < 0 {
		return head{}, 0, unfinished(rest, final)
	}
	name := strings.TrimSpace(string(rest[:at]))
	if !validName(name) {
		return head{}, 0, bad
	}
	if _, s := beginsWith(rest[at:], []string{g.key, g.end}, final); s != done {
		return head{}, 0, s
	}
	return head{name: name}, at, done
}

// unfinished is the status of a head whose end has not come.
func unfinished(rest []byte, final bool) status {
	if final || len(rest) == maxKey {
		return bad
	}
	return more
}

func trimName(text string) string { return strings.Trim(strings.TrimSpace(text), `"'`) }

// validName reports whether a text can be a tool's or an argument's name.
func validName(name string) bool {
	return name != "" && len(name) <= 256 && !strings.ContainsAny(name, "<>{}\"\n\r")
}

// attribute is the value of name="value" in a tag.
func attribute(tag, name string) string {
	_, rest, ok := strings.Cut(" "+tag, " "+name+`="`)
	if !ok {
		return ""
	}
	value, _, ok := strings.Cut(rest, `"`)
	if !ok {
		return ""
	}
	return value
}

// tagBody begins the arguments.
func tagBody(p *Parser) {
	g := p.calls.tags
	p.form = formTags
	p.tag = tagged{tags: g, calls: append([]string{g.key, g.end}, p.calls.ends...)}
	if t := p.tools[p.head.name]; t != nil {
		p.tag.props = properties(t.Parameters)
	}
	p.raw("{")
	p.state = (*Parser).tagNext
}

// raw gives a piece of JSON as arguments.
func (p *Parser) raw(json string) {
	from := len(p.out)
	p.out = append(p.out, json...)
	p.arguments(from)
}

// tagNext looks for the next argument or the call's end, and drops what is neither.
func (p *Parser) tagNext(final bool) bool {
	rest := p.rest()
	at, m := firstMarker(rest, p.tag.calls)
	held := len(rest)
	if !final {
		held = heldFrom(rest, p.tag.calls)
	}
	if m < 0 || at >= held {
		p.at += held
		return false
	}
	p.at += at
	if m == 0 {
		return p.tagKey(final)
	}
	if m == 1 {
		p.at += len(p.tag.tags.end)
	}
	p.raw("}")
	p.endCall(false)
	p.endOfCall()
	return true
}

// tagKey reads the head of an argument. A head that is none is dropped.
func (p *Parser) tagKey(final bool) bool {
	g := p.tag.tags
	rest := p.rest()[len(g.key):]
	rest = rest[:min(len(rest), maxKey)]
	n, s := p.keyHead(rest, final)
	switch s {
	case more:
		return false
	case bad:
		p.at += len(g.key)
		return true
	case done:
	}
	p.at += len(g.key) + n
	p.tag.ends = [2]string{g.valueEnd, "\n" + g.valueEnd}
	if g.nameIsTag() {
		p.tag.ends = [2]string{g.valueEnd + p.tag.key + ">", "\n" + g.valueEnd + p.tag.key + ">"}
	}
	p.state = (*Parser).tagValue
	return true
}

func (g *tags) nameIsTag() bool { return strings.HasSuffix(g.valueEnd, "</") }

func (p *Parser) keyHead(rest []byte, final bool) (int, status) {
	g := p.tag.tags
	at := bytes.Index(rest, []byte(g.keyEnd))
	if at < 0 {
		return 0, unfinished(rest, final)
	}
	text := string(rest[:at])
	p.tag.key = trimName(text)
	if g.attributes && !g.nameIsTag() {
		if p.tag.key = attribute(text, "name"); p.tag.key == "" {
			p.tag.key = attribute(text, "key")
		}
	}
	if !validName(p.tag.key) {
		return 0, bad
	}
	n := at + len(g.keyEnd)
	if g.valueStart != "" {
		n += skipBlank(rest[n:])
		if s := prefix(rest[n:], g.valueStart, final); s != done {
			return 0, s
		}
		n += len(g.valueStart)
	}
	p.tag.types = typesOf(p.tag.props, p.tag.key)
	if g.attributes && !g.nameIsTag() {
		p.tag.types = typesByAttribute(text, p.tag.types)
	}
	return n, done
}

// typesByAttribute reads string="true" and type="string".
func typesByAttribute(tag string, types types) types {
	switch {
	case attribute(tag, "string") == "true", attribute(tag, "type") == "string", attribute(tag, "type") == "raw":
		return typeString
	case attribute(tag, "string") == "false", attribute(tag, "type") != "":
		return anyType &^ typeString
	}
	return types
}

// tagValue reads a value: a string streams, anything else waits for its end.
func (p *Parser) tagValue(final bool) bool {
	g := p.tag.tags
	rest := p.rest()
	if g.trim && !p.tag.open {
		if len(rest) == 0 {
			return false
		}
	}
	if p.tag.types == typeString {
		if !p.tag.open {
			p.tagOpen()
		}
		p.state = (*Parser).tagString
		if g.trim && len(rest) > 0 && rest[0] == '\n' {
			p.at++
		}
		return true
	}
	return p.tagWhole(final)
}

// tagOpen begins a string.
func (p *Parser) tagOpen() {
	from := len(p.out)
	p.out = append(p.tagName(p.out), '"')
	p.arguments(from)
	p.tag.open = true
}

func (p *Parser) tagName(dst []byte) []byte {
	if p.tag.some {
		dst = append(dst, ',', ' ')
	}
	p.tag.some = true
	return append(appendQuoted(dst, []byte(p.tag.key)), ':', ' ')
}

func (p *Parser) tagString(final bool) bool {
	rest := p.rest()
	ends := p.valueEnds()
	at, m := firstMarker(rest, ends)
	held := len(rest)
	if !final {
		held = heldFrom(rest, ends)
		if held == len(rest) {
			held = wholeRunes(rest)
		}
	}
	found := m >= 0 && at < held
	n := held
	if found {
		n = at
	}
	from := len(p.out)
	p.out = appendEscaped(p.out, rest[:n])
	p.at += n
	if found {
		p.at += len(ends[m])
		p.out = append(p.out, '"')
		p.tag.open = false
		p.state = (*Parser).tagNext
	}
	p.arguments(from)
	return found
}

// valueEnds are the markers that end the open value.
func (p *Parser) valueEnds() []string {
	if p.tag.tags.trim {
		return p.tag.ends[:]
	}
	return p.tag.ends[:1]
}

// tagWhole reads a value that is no string only.
func (p *Parser) tagWhole(final bool) bool {
	rest := p.rest()
	if len(rest) < p.retry && !final {
		return false
	}
	ends := p.valueEnds()
	at, m := firstMarker(rest, ends)
	if m < 0 || !final && at >= heldFrom(rest, ends) {
		p.wait(len(rest))
		return false
	}
	p.retry = 0
	raw := rest[:at]
	if p.tag.tags.trim {
		raw = bytes.TrimPrefix(raw, []byte("\n"))
	}
	from := len(p.out)
	p.out = appendTyped(p.tagName(p.out), raw, p.tag.types)
	p.arguments(from)
	p.at += at + len(ends[m])
	p.state = (*Parser).tagNext
	return true
}
