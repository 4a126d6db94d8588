package family

import (
	"bytes"
	"encoding/json"
	"slices"
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
	escaped    bool   // & and " in attributes are written &amp; and &quot;
	cdata      bool   // a value may stand between <![CDATA[ and ]]>
}

// tagged is the state of a parser inside of tagged arguments.
type tagged struct {
	tags *tags
	tagKey
	stops []string // what may end the open value: first the markers of its end, then those of what comes behind it
	ends  int      // how many of them are markers of its end
	some  bool     // an argument was written
	open  bool     // inside a string that streams
	calls []string
	props []property
	given []string // the names of the arguments so far, in families whose calls are read ahead
}

// tagKey is the head of an argument.
type tagKey struct {
	key   string
	types types
	json  bool // the tag says that the value is JSON
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
		h.name = p.undoubled(g.nameIn(text, "tool"))
	}
	if !g.valid(h.name) {
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
	if p.calls.whole && !p.options.Bound {
		q := p.ahead(h, rest[n:])
		tagBody(q)
		s := q.toEnd(final)
		if s == more && final { // the answer is cut: what there is of the call is completed
			s = done
		}
		h.broken = s == bad
		return h, n, s
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

// trailers are what may follow a value whose end is missing: the next argument, or the call's end.
func (g *tags) trailers() []string {
	return []string{g.key, "\n" + g.key, g.end, "\n" + g.end}
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

// tagKey reads the head of an argument.
func (p *Parser) tagKey(final bool) bool {
	g := p.tag.tags
	rest := p.rest()[len(g.key):]
	k, n, s := p.keyHead(rest[:min(len(rest), maxKey)], final)
	switch s {
	case more:
		return false
	case bad:
		return p.tagUnnamed(rest, final)
	case done:
	}
	p.at += len(g.key) + n
	p.tag.tagKey = k
	if p.calls.whole {
		if slices.Contains(p.tag.given, k.key) {
			p.endCall(true)
			p.breakOff(final)
			return true
		}
		p.tag.given = append(p.tag.given, k.key)
	}
	trailers := p.calls.trailers
	if p.options.Bound || g.nameIsTag() {
		trailers = nil
	}
	p.tag.stops, p.tag.ends = g.stops(k.key, trailers)
	p.state = (*Parser).tagValue
	return true
}

// tagUnnamed goes on behind the marker of an argument without a name. Where it has a value, the call breaks off, so that the value is not lost.
func (p *Parser) tagUnnamed(rest []byte, final bool) bool {
	g := p.tag.tags
	markers := append([]string{g.valueEnd}, p.tag.calls...)
	held := len(rest)
	if !final {
		held = heldFrom(rest, markers)
	}
	at, m := firstMarker(rest, markers)
	if (m < 0 || at >= held) && !final && len(rest) < headLimit {
		return false
	}
	if m == 0 && !g.nameIsTag() {
		p.endCall(true)
		p.breakOff(final)
		return true
	}
	p.at += len(g.key)
	return true
}

func (g *tags) nameIsTag() bool { return strings.HasSuffix(g.valueEnd, "</") }

// stops are what may end the value of a key: the first n are markers of its end. The others begin what follows a value whose end a model
// forgot.
func (g *tags) stops(key string, trailers []string) (stops []string, n int) {
	stops = g.ends(key)
	if g.trim {
		stops = append(stops, "\n"+stops[0])
	}
	return append(stops, trailers...), len(stops)
}

func (p *Parser) keyHead(rest []byte, final bool) (tagKey, int, status) {
	g := p.tag.tags
	at := bytes.Index(rest, []byte(g.keyEnd))
	if at < 0 {
		return tagKey{}, 0, unfinished(rest, final)
	}
	text := string(rest[:at])
	k := tagKey{key: trimName(text)}
	if g.attributes && !g.nameIsTag() {
		k.key = g.nameIn(text, "key")
	}
	if !g.valid(k.key) {
		return tagKey{}, 0, bad
	}
	n := at + len(g.keyEnd)
	if g.valueStart != "" {
		n += skipBlank(rest[n:])
		if s := prefix(rest[n:], g.valueStart, final); s != done {
			return tagKey{}, 0, s
		}
		n += len(g.valueStart)
	}
	k.types = typesOf(p.tag.props, k.key)
	if g.attributes && !g.nameIsTag() {
		k.byAttribute(text)
	}
	return k, n, done
}

// byAttribute reads string="true" and type="string". Where the schema knows better, it decides.
func (k *tagKey) byAttribute(tag string) {
	told := anyType
	switch {
	case attribute(tag, "string") == "true", attribute(tag, "type") == "string", attribute(tag, "type") == "raw":
		told = typeString
	case attribute(tag, "string") == "false", attribute(tag, "type") != "":
		told = anyType &^ typeString
		k.json = k.types == typeString
	}
	if both := told & k.types; both != 0 {
		k.types = both
	}
}

// tagValue reads a value: a string streams, anything else waits for its end.
func (p *Parser) tagValue(final bool) bool {
	g := p.tag.tags
	rest := p.rest()
	if len(rest) == 0 {
		return false
	}
	if g.cdata {
		const cdata, end = "<![CDATA[", "]]>"
		switch prefix(rest, cdata, final) {
		case more:
			return false
		case done:
			p.at += len(cdata)
			p.tag.stops, p.tag.ends = []string{end + g.valueEnd, end}, 2
		default:
		}
	}
	if p.tag.types != typeString || p.tag.json || p.mayWrap() {
		p.state = (*Parser).tagWhole
		return true
	}
	p.tagOpen()
	p.state = (*Parser).tagString
	if g.trim && rest[0] == '\n' {
		p.at++
	}
	return true
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
	n, marker, s := p.valueEnd(rest, final)
	if s != done && n == len(rest) && !final {
		n = wholeRunes(rest)
	}
	from := len(p.out)
	p.out = appendEscaped(p.out, rest[:n])
	p.at += n
	if s == done {
		p.at += marker
		p.out = append(p.out, '"')
		p.tag.open = false
		p.state = (*Parser).tagNext
	}
	p.arguments(from)
	return s == done
}

// valueEnd finds the end of the open value: its length, and that of the marker behind it. Where no end has come, the length is that of what
// certainly belongs to the value.
func (p *Parser) valueEnd(rest []byte, final bool) (n, marker int, s status) {
	if p.tag.tags.nameIsTag() && p.tag.types != typeString {
		return p.tag.tags.nestedEnd(p.tag.key, rest)
	}
	held := len(rest)
	if !final {
		held = heldFrom(rest, p.tag.stops)
	}
	for from := 0; ; {
		at, m := firstMarker(rest[from:], p.tag.stops)
		at += from
		if m < 0 || at >= held {
			return held, 0, more
		}
		if m < p.tag.ends {
			return at, len(p.tag.stops[m]), done
		}
		switch p.endForgotten(rest[at:], p.tag.stops[m], final) {
		case done:
			return at, 0, done
		case more:
			return at, 0, more
		default:
			from = at + 1
		}
	}
}

// endForgotten reports whether a text goes on behind a value whose end the model forgot: with the head of a further argument of the tool, or
// with the end of the call and what follows calls. Anything else is text of the value.
func (p *Parser) endForgotten(rest []byte, stop string, final bool) status {
	g := p.tag.tags
	behind := rest[len(stop):]
	if strings.HasSuffix(stop, g.key) {
		k, _, s := p.keyHead(behind[:min(len(behind), maxKey)], final)
		if s == done && !slices.ContainsFunc(p.tag.props, func(a property) bool { return a.name == k.key }) {
			return bad
		}
		return s
	}
	behind = behind[skipBlank(behind):]
	if len(behind) == 0 && final {
		return done
	}
	_, s := beginsWith(behind, p.calls.ends, final)
	return s
}

// tagWhole reads a value that is no string only.
func (p *Parser) tagWhole(final bool) bool {
	rest := p.rest()
	if len(rest) < p.retry && !final {
		return false
	}
	n, marker, s := p.valueEnd(rest, final)
	if s != done {
		p.wait(len(rest))
		return false
	}
	p.retry = 0
	raw := rest[:n]
	if p.tag.tags.trim {
		raw = bytes.TrimPrefix(raw, []byte("\n"))
	}
	from := len(p.out)
	p.out = p.tagJSON(p.out, raw)
	p.arguments(from)
	p.at += n + marker
	p.state = (*Parser).tagNext
	return true
}

// tagJSON appends a whole value with its name.
func (p *Parser) tagJSON(dst, raw []byte) []byte {
	switch {
	case p.tag.json: // the tag says JSON, the schema says string
		var text string
		if bytes.HasPrefix(bytes.TrimSpace(raw), []byte(`"`)) && json.Unmarshal(raw, &text) == nil {
			raw = []byte(text)
		}
		return appendQuoted(p.tagName(dst), raw)
	case p.tag.tags.nameIsTag():
		return p.tag.tags.appendNested(p.tagName(dst), raw, schemaOf(p.tag.props, p.tag.key))
	case p.isWrapper(raw):
		inner := bytes.TrimSpace(raw)
		if inner, ok := asJSON(inner, jsonSyntax); ok {
			inner = bytes.TrimSpace(inner[1 : len(inner)-1])
			p.tag.some = len(inner) > 0
			return append(dst, inner...)
		}
	}
	return appendTyped(p.tagName(dst), raw, p.tag.types)
}

// wrappers are names by which models write an object around all arguments as the only one.
var wrappers = []string{"arguments", "properties", "input"}

// mayWrap reports whether the first argument has such a name, and the tool none of it.
func (p *Parser) mayWrap() bool {
	return slices.Contains(wrappers, p.tag.key) && !p.tag.some && len(p.tag.props) > 0 &&
		!slices.ContainsFunc(p.tag.props, func(a property) bool { return a.name == p.tag.key })
}

// isWrapper reports whether a value is an object around all arguments.
func (p *Parser) isWrapper(raw []byte) bool {
	return p.mayWrap() && bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{"))
}
