package family

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

const (
	blankLimit = 16      // bytes of white space held back before a marker, so that they are no content
	headLimit  = 1 << 16 // bytes from the opener of a call to its arguments; an opener without a call in so many is text
)

// Parser reads one answer. It is fed the bytes that the decoder gives, with control tokens made visible, in any split: the
// parts, with neighbours of one kind joined, are the same as for the whole answer at once. It is for one answer and one
// goroutine, and allocates nothing per token outside tool calls.
//
// What it holds back while text streams is at most a beginning of one of the family's markers and 16 bytes of white space.
// Parts refer to the parser's memory until its next call.
type Parser struct {
	family  *Family
	options Options
	tools   map[string]*Tool
	calls   *markup // nil where the answer may not call tools

	buf       []byte // bytes that were not read
	at        int    // buf[at:] is to be read
	out       []byte // JSON that the parts of this Append refer to
	parts     []Part
	state     func(p *Parser, final bool) bool // reads on; false when it needs more bytes
	index     int                              // calls that were started
	inCall    bool                             // the last of them is not ended
	retry     int                              // unread bytes from which a head is worth reading again
	skip      int                              // white space in front of the opener that a head is read from
	inThought bool
	after     bool // a thought or a call has just ended: white space is dropped
	said      bool // text was given
	whole     bool // the answer was calls and nothing else, which only its end showed
	// unreadable counts the calls of which not everything could be read.
	unreadable int
	unread     bool // the answer has ended inside the head of a call: what is left are pieces of it

	head  head
	form  form
	value value
	tag   tagged
	list  pythonList
	echo  echo
}

// NewParser makes the parser of one answer.
func (f *Family) NewParser(o Options) *Parser {
	p := &Parser{family: f, options: o, state: (*Parser).lead}
	if o.Choice.Mode != None && len(o.Tools) > 0 {
		p.calls = f.calls
		p.tools = make(map[string]*Tool, len(o.Tools))
		for i := range o.Tools {
			p.tools[o.Tools[i].Name] = &o.Tools[i]
		}
	}
	if f.calls.start != nil {
		p.state = f.calls.start
	}
	if o.Opening.Thinking && f.thought != nil {
		p.state = (*Parser).thoughtStart
	}
	p.Append(nil, []byte(o.Opening.Markup), false)
	return p
}

// Append reads more of the answer and appends its parts. control says that text is the whole text of one control token: it
// is dropped unless it belongs to a marker of the family.
func (p *Parser) Append(dst []Part, text []byte, control bool) []Part {
	if control && !p.family.knows(text) {
		return dst
	}
	p.begin(dst)
	p.buf = append(p.buf, text...)
	for p.state(p, false) {
	}
	return p.given()
}

// Close ends the answer: held text is given, an open call is completed. What it gives of calls is there only because the answer
// has ended, so it is marked as repaired.
func (p *Parser) Close(dst []Part) []Part {
	p.begin(dst)
	for p.state(p, true) {
	}
	p.endCall(true)
	p.state = (*Parser).ended
	for i := range p.parts[len(dst):] {
		part := &p.parts[len(dst)+i]
		part.Repaired = part.Kind >= CallStart && !p.whole
	}
	return p.given()
}

// Thinking reports whether what was read so far ends inside a thought.
func (p *Parser) Thinking() bool { return p.inThought }

// Unreadable is how many calls could not be read to their end. What was not read of them is text of the answer.
func (p *Parser) Unreadable() int { return p.unreadable }

// Calls is how many calls were started.
func (p *Parser) Calls() int { return p.index }

func (p *Parser) begin(dst []Part) {
	p.echo.keep(p.buf, p.at)
	p.buf = p.buf[:copy(p.buf, p.buf[p.at:])]
	p.at, p.out, p.parts = 0, p.out[:0], dst
}

func (p *Parser) given() []Part {
	dst := p.parts
	p.parts = nil
	return dst
}

func (p *Parser) rest() []byte { return p.buf[p.at:] }

// take gives the next n bytes as text.
func (p *Parser) take(k Kind, n int) {
	if n > 0 {
		p.said = p.said || k == Content
		p.parts = append(p.parts, Part{Kind: k, Bytes: p.buf[p.at : p.at+n : p.at+n], Begun: p.unread})
		p.at += n
	}
}

// lead is where an answer starts, or goes on after a thought or a call: text, a thought or a call without an opener may follow.
func (p *Parser) lead(final bool) bool {
	rest := p.rest()
	n := skipBlank(rest)
	if p.after {
		p.at += n
		rest, n = p.rest(), 0
		if used, s := p.leftover(rest, final); s != bad {
			p.at += used
			return s == done
		}
		if used, s := p.echoed(rest, final); s != bad {
			p.at += used
			return s == done
		}
		if final {
			_, s := p.leftover(rest, false)
			p.unread = p.unread || s == more
		}
	}
	if n > blankLimit {
		p.state = (*Parser).content
		return true
	}
	if n == len(rest) {
		if !final {
			return false
		}
		p.take(Content, n)
		return false
	}
	if t := p.family.thought; t != nil {
		if s := p.anchored(t, n, final); s != bad {
			return s == done
		}
	}
	p.state = p.unmarked()
	if p.calls != nil && p.calls.bare != nil {
		p.skip, p.retry = n, 0
		p.state = (*Parser).bareHead
	}
	return true
}

// unmarked is the state where text begins, and calls without markers might.
func (p *Parser) unmarked() func(*Parser, bool) bool {
	if p.calls != nil && !p.said && p.index == 0 && p.family.showsObjects() {
		p.retry = 0
		return (*Parser).wholeAnswer
	}
	return (*Parser).content
}

// leftover reads what may follow a call and is no text: closing markers, and stray brackets.
func (p *Parser) leftover(rest []byte, final bool) (int, status) {
	if p.calls == nil || p.index == 0 {
		return 0, bad
	}
	waits := false
	for _, c := range p.calls.closers {
		switch prefix(rest, c, final) {
		case done:
			return len(c), done
		case more:
			waits = len(rest) > 0 || waits
		default:
		}
	}
	if waits {
		return 0, more
	}
	if len(rest) > 0 && bytes.IndexByte([]byte(p.calls.crumbs), rest[0]) >= 0 {
		return 1, done
	}
	return 0, bad
}

// content is text after its first byte that is not white space. An opener of a call is left unread for callHead, with the white
// space before it.
func (p *Parser) content(final bool) bool {
	p.after = false
	m, blanks := p.scan(Content, p.markers(), false, final)
	if m < 0 {
		return false
	}
	if p.markOfThought(blanks) {
		return true
	}
	if d, s := beginsWith(p.rest()[blanks:], p.family.calls.dropped, true); s == done {
		p.at += blanks + len(d)
		p.after = true
		p.state = (*Parser).lead
		return true
	}
	p.skip, p.retry = blanks, 0
	p.state = (*Parser).callHead
	return true
}

// markers are the texts that may end content.
func (p *Parser) markers() []string {
	if p.calls == nil {
		return p.family.calls.textMarkers
	}
	return p.family.calls.allMarkers
}

// scan gives text up to the first marker, and which marker that is; -1 when none has come. White space right before the marker
// is left unread and counted, or dropped.
func (p *Parser) scan(k Kind, markers []string, drop, final bool) (marker, blanks int) {
	rest := p.rest()
	at, m := firstMarker(rest, markers)
	held := len(rest)
	if !final {
		held = heldFrom(rest, markers)
	}
	if m >= 0 && at < held {
		blanks = trailingBlank(rest[:at])
		p.take(k, at-blanks)
		if drop {
			p.at += blanks
			blanks = 0
		}
		return m, blanks
	}
	n := held
	if final && k == Content && p.index > 0 { // behind a call, a marker that has begun is no text
		n = heldFrom(rest, markers)
		p.take(k, n)
		p.unread = true
		n = len(rest) - n
	}
	if !final {
		if n == len(rest) {
			n = wholeRunes(rest)
		}
		if len(markers) > 0 {
			n -= trailingBlank(rest[:n])
		}
	}
	p.take(k, n)
	return -1, 0
}

// firstMarker finds the marker that begins first, the longest of those that begin there.
func firstMarker(text []byte, markers []string) (at, marker int) {
	at, marker = len(text), -1
	for i, m := range markers {
		j := bytes.Index(text[:min(len(text), at+len(m))], []byte(m))
		if j >= 0 && (j < at || len(m) > len(markers[marker])) {
			at, marker = j, i
		}
	}
	return at, marker
}

// heldFrom is where the first beginning of a marker stands that the end of the text cuts.
func heldFrom(text []byte, markers []string) int {
	from := len(text)
	for _, m := range markers {
		for n := min(len(m)-1, len(text)); n > len(text)-from; n-- {
			if string(text[len(text)-n:]) == m[:n] {
				from = len(text) - n
				break
			}
		}
	}
	return from
}

// trailingBlank counts the white space at the end of a text, at most blankLimit bytes.
func trailingBlank(text []byte) int {
	n := 0
	for n < len(text) && n < blankLimit && isBlank(text[len(text)-1-n]) {
		n++
	}
	return n
}

// wholeRunes is the length of a text without the rune that its end cuts.
func wholeRunes(text []byte) int {
	for n := 1; n <= min(len(text), utf8.UTFMax-1); n++ {
		if c := text[len(text)-n]; utf8.RuneStart(c) {
			if !utf8.FullRune(text[len(text)-n:]) {
				return len(text) - n
			}
			break
		}
	}
	return len(text)
}

// startCall gives the first part of a call.
func (p *Parser) startCall(name, id string) {
	if id == "" {
		id = p.newID()
	}
	p.parts = append(p.parts, Part{Kind: CallStart, Call: p.index, ID: id, Name: name})
	p.index++
	p.inCall = true
}

func (p *Parser) newID() string {
	n, front := 24, "call_"
	if p.calls.shortIDs {
		n, front = 9, ""
	}
	if p.options.IDs != nil {
		return front + p.options.IDs(n)
	}
	digits := strconv.Itoa(p.index)
	id := append(make([]byte, 0, len(front)+n), front...)
	for range n - len(digits) {
		id = append(id, '0')
	}
	return string(append(id, digits...))
}

// arguments gives what was written to p.out since a length.
func (p *Parser) arguments(from int) {
	if from < len(p.out) {
		p.parts = append(p.parts, Part{Kind: CallArguments, Call: p.index - 1, Bytes: p.out[from:len(p.out):len(p.out)]})
	}
}

// endCall ends the call that is open. cut says that the answer ended inside it, or that its arguments broke off.
func (p *Parser) endCall(cut bool) {
	if !p.inCall {
		return
	}
	if cut {
		from := len(p.out)
		p.out = p.complete(p.out)
		p.arguments(from)
	}
	p.parts = append(p.parts, Part{Kind: CallEnd, Call: p.index - 1})
	p.inCall = false
}

// endOfCall is the state after a call: further calls, or the end of all of them.
func (p *Parser) endOfCall() {
	p.after = true
	p.state = (*Parser).lead
	if p.calls.start != nil {
		p.state = p.calls.start
	}
	if !p.options.Choice.Parallel {
		p.state = (*Parser).ended
	}
}

// ended drops what follows the only call of an answer.
func (p *Parser) ended(bool) bool {
	p.at = len(p.buf)
	return false
}
