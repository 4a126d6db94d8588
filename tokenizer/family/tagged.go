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

// tagReader reads arguments that are tagged.
type tagReader struct {
	in    *source
	out   *output
	calls *markup
	tags  *tags
	state func(t *tagReader, final bool) status // reads a step on
	tagKey
	stops []string // what may end the open value: first the markers of its end, then those of what comes behind it
	ends  int      // how many of them are markers of its end
	retry patience // with a value that is not whole
	some  bool     // an argument was written
	open  bool     // inside a string that streams
	ended bool
	bound bool     // a grammar of the family binds the answer
	marks []string // what may follow an argument: another one, the call's end, and what may end a broken call
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
func readTagged(r *request, _ string, rest []byte, final bool) (head, int, status) {
	g := r.calls.tags
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
		h.name = r.undoubled(g.nameIn(text, "tool"))
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
	if r.calls.whole && !r.bound {
		s := r.ahead(h, rest[n:], final)
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
func tagBody(r *request, h head, in *source, out *output) arguments {
	out.raw("{")
	g := r.calls.tags
	return &tagReader{in: in, out: out, calls: r.calls, tags: g, state: (*tagReader).argument, bound: r.bound,
		marks: append([]string{g.key, g.end}, r.calls.ends...), props: r.properties(h.name)}
}

func (t *tagReader) read(final bool) status {
	for !t.ended {
		if s := t.state(t, final); s != done {
			return s
		}
	}
	return done
}

func (t *tagReader) complete(dst []byte) []byte {
	if t.open {
		dst = append(dst, '"')
	}
	return append(dst, '}')
}

func (t *tagReader) then(p *Parser) { p.endOfCall() }

// argument looks for the next argument or the call's end, and drops what is neither.
func (t *tagReader) argument(final bool) status {
	rest := t.in.rest()
	at, m := firstMarker(rest, t.marks)
	held := len(rest)
	if !final {
		held = heldFrom(rest, t.marks)
	}
	if m < 0 || at >= held {
		t.in.skip(held)
		return more
	}
	t.in.skip(at)
	if m == 0 {
		return t.name(final)
	}
	if m == 1 {
		t.in.skip(len(t.tags.end))
	}
	t.out.raw("}")
	t.ended = true
	return done
}

// name reads the head of an argument.
func (t *tagReader) name(final bool) status {
	g := t.tags
	rest := t.in.rest()[len(g.key):]
	k, n, s := t.keyHead(rest[:min(len(rest), maxKey)], final)
	switch s {
	case more:
		return more
	case bad:
		return t.unnamed(rest, final)
	case done:
	}
	t.in.skip(len(g.key) + n)
	t.tagKey = k
	if t.calls.whole {
		if slices.Contains(t.given, k.key) {
			return bad
		}
		t.given = append(t.given, k.key)
	}
	trailers := t.calls.trailers
	if t.bound || g.nameIsTag() {
		trailers = nil
	}
	t.stops, t.ends = g.stops(k.key, trailers)
	t.state = (*tagReader).value
	return done
}

// unnamed goes on behind the marker of an argument without a name. Where it has a value, the call breaks off, so that the value is not lost.
func (t *tagReader) unnamed(rest []byte, final bool) status {
	g := t.tags
	markers := append([]string{g.valueEnd}, t.marks...)
	held := len(rest)
	if !final {
		held = heldFrom(rest, markers)
	}
	at, m := firstMarker(rest, markers)
	if (m < 0 || at >= held) && !final && len(rest) < headLimit {
		return more
	}
	if m == 0 && !g.nameIsTag() {
		return bad
	}
	t.in.skip(len(g.key))
	return done
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

func (t *tagReader) keyHead(rest []byte, final bool) (tagKey, int, status) {
	g := t.tags
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
	k.types = typesOf(t.props, k.key)
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

// value reads a value: a string streams, anything else waits for its end.
func (t *tagReader) value(final bool) status {
	g := t.tags
	rest := t.in.rest()
	if len(rest) == 0 {
		return more
	}
	if g.cdata {
		const cdata, end = "<![CDATA[", "]]>"
		switch prefix(rest, cdata, final) {
		case more:
			return more
		case done:
			t.in.skip(len(cdata))
			t.stops, t.ends = []string{end + g.valueEnd, end}, 2
		default:
		}
	}
	if t.types != typeString || t.json || t.mayWrap() {
		t.state = (*tagReader).whole
		return done
	}
	t.begin()
	t.state = (*tagReader).text
	if g.trim && rest[0] == '\n' {
		t.in.skip(1)
	}
	return done
}

// begin begins a string.
func (t *tagReader) begin() {
	from := len(t.out.json)
	t.out.json = append(t.named(t.out.json), '"')
	t.out.arguments(from)
	t.open = true
}

func (t *tagReader) named(dst []byte) []byte {
	if t.some {
		dst = append(dst, ',', ' ')
	}
	t.some = true
	return append(appendQuoted(dst, []byte(t.key)), ':', ' ')
}

func (t *tagReader) text(final bool) status {
	rest := t.in.rest()
	n, marker, s := t.valueEnd(rest, final)
	if s != done && n == len(rest) && !final {
		n = wholeRunes(rest)
	}
	from := len(t.out.json)
	t.out.json = appendEscaped(t.out.json, rest[:n])
	t.in.skip(n)
	if s == done {
		t.in.skip(marker)
		t.out.json = append(t.out.json, '"')
		t.open = false
		t.state = (*tagReader).argument
	}
	t.out.arguments(from)
	return s
}

// valueEnd finds the end of the open value: its length, and that of the marker behind it. Where no end has come, the length is that of what
// certainly belongs to the value.
func (t *tagReader) valueEnd(rest []byte, final bool) (n, marker int, s status) {
	if t.tags.nameIsTag() && t.types != typeString {
		return t.tags.nestedEnd(t.key, rest)
	}
	held := len(rest)
	if !final {
		held = heldFrom(rest, t.stops)
	}
	for from := 0; ; {
		at, m := firstMarker(rest[from:], t.stops)
		at += from
		if m < 0 || at >= held {
			return held, 0, more
		}
		if m < t.ends {
			return at, len(t.stops[m]), done
		}
		switch t.endForgotten(rest[at:], t.stops[m], final) {
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
func (t *tagReader) endForgotten(rest []byte, stop string, final bool) status {
	g := t.tags
	behind := rest[len(stop):]
	if strings.HasSuffix(stop, g.key) {
		k, _, s := t.keyHead(behind[:min(len(behind), maxKey)], final)
		if s == done && !slices.ContainsFunc(t.props, func(a property) bool { return a.name == k.key }) {
			return bad
		}
		return s
	}
	behind = behind[skipBlank(behind):]
	if len(behind) == 0 && final {
		return done
	}
	_, s := beginsWith(behind, t.calls.ends, final)
	return s
}

// whole reads a value that is no string only.
func (t *tagReader) whole(final bool) status {
	rest := t.in.rest()
	if t.retry.early(len(rest), final) {
		return more
	}
	n, marker, s := t.valueEnd(rest, final)
	if s != done {
		t.retry.wait(len(rest))
		return more
	}
	t.retry.reset()
	raw := rest[:n]
	if t.tags.trim {
		raw = bytes.TrimPrefix(raw, []byte("\n"))
	}
	from := len(t.out.json)
	t.out.json = t.appendWhole(t.out.json, raw)
	t.out.arguments(from)
	t.in.skip(n + marker)
	t.state = (*tagReader).argument
	return done
}

// appendWhole appends a whole value with its name.
func (t *tagReader) appendWhole(dst, raw []byte) []byte {
	switch {
	case t.json: // the tag says JSON, the schema says string
		var text string
		if bytes.HasPrefix(bytes.TrimSpace(raw), []byte(`"`)) && json.Unmarshal(raw, &text) == nil {
			raw = []byte(text)
		}
		return appendQuoted(t.named(dst), raw)
	case t.tags.nameIsTag():
		return t.tags.appendNested(t.named(dst), raw, schemaOf(t.props, t.key))
	case t.isWrapper(raw):
		inner := bytes.TrimSpace(raw)
		if inner, ok := asJSON(inner, jsonSyntax); ok {
			inner = bytes.TrimSpace(inner[1 : len(inner)-1])
			t.some = len(inner) > 0
			return append(dst, inner...)
		}
	}
	return appendTyped(t.named(dst), raw, t.types)
}

// wrappers are names by which models write an object around all arguments as the only one.
var wrappers = []string{"arguments", "properties", "input"}

// mayWrap reports whether the first argument has such a name, and the tool none of it.
func (t *tagReader) mayWrap() bool {
	return slices.Contains(wrappers, t.key) && !t.some && len(t.props) > 0 &&
		!slices.ContainsFunc(t.props, func(a property) bool { return a.name == t.key })
}

// isWrapper reports whether a value is an object around all arguments.
func (t *tagReader) isWrapper(raw []byte) bool {
	return t.mayWrap() && bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{"))
}
