package family

import (
	"bytes"
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
	family *Family
	request
	parallel bool // the answer may have more than one call

	in    source
	out   output
	state func(p *Parser, final bool) bool // reads on; false when it needs more bytes
	retry patience                         // with heads of calls that are not whole

	skip      int // white space in front of the opener that a head is read from
	inThought bool
	after     bool // a thought or a call has just ended: white space is dropped
	whole     bool // the answer ended with calls without markers, which only its end showed

	streamed   *streamedCalls // those without markers that have begun; nil: none
	args       arguments      // of the open call
	array      bool           // the call is an item of a list of objects
	around     value          // what is left of the objects that the arguments stand in
	echo       echo
	unreadable int // calls of which not everything could be read
}

// arguments reads those of one call, as a model writes them, to the parser's output.
type arguments interface {
	// read reads on. It is done behind the last argument, and bad where the arguments break off.
	read(final bool) status
	// complete appends what the JSON that was written lacks.
	complete(dst []byte) []byte
	// then sets what is read behind the arguments.
	then(p *Parser)
}

// NewParser makes the parser of one answer.
func (f *Family) NewParser(o Options) *Parser {
	p := &Parser{family: f, request: newRequest(f.calls, &o), parallel: o.Choice.Parallel, state: (*Parser).lead}
	p.out.shortIDs, p.out.ids = f.calls.shortIDs, o.IDs
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
	if control && !p.family.calls.knows(text) {
		return dst
	}
	p.begin(dst)
	p.in.buf = append(p.in.buf, text...)
	for p.state(p, false) {
	}
	return p.out.given()
}

// Close ends the answer: held text is given, an open call is completed. What it gives of calls is there only because the answer
// has ended, so it is marked as repaired.
func (p *Parser) Close(dst []Part) []Part {
	p.begin(dst)
	for p.state(p, true) {
	}
	p.endCall()
	p.state = (*Parser).ended
	for i := range p.out.parts[len(dst):] {
		part := &p.out.parts[len(dst)+i]
		part.Repaired = part.Kind >= CallStart && !p.whole
	}
	return p.out.given()
}

// Thinking reports whether what was read so far ends inside a thought.
func (p *Parser) Thinking() bool { return p.inThought }

// Unreadable is how many calls could not be read to their end. What was not read of them is text of the answer.
func (p *Parser) Unreadable() int { return p.unreadable }

// Calls is how many calls were started.
func (p *Parser) Calls() int { return p.out.calls }

func (p *Parser) begin(dst []Part) {
	p.echo.keep(p.in.buf, p.in.at)
	p.in.compact()
	p.out.begin(dst)
}

// take gives the next n bytes as text.
func (p *Parser) take(k Kind, n int) { p.out.text(k, p.in.next(n)) }

// lead is where an answer starts, or goes on after a thought or a call: text, a thought or a call without an opener may follow.
func (p *Parser) lead(final bool) bool {
	rest := p.in.rest()
	n := skipBlank(rest)
	if p.after {
		p.in.skip(n)
		rest, n = p.in.rest(), 0
		if used, s := p.behindCall(rest, final); s != bad {
			p.in.skip(used)
			return s == done
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
		p.skip = n
		p.state = (*Parser).bareHead
	}
	return true
}

// behindCall reads what may follow a call and is no text.
func (p *Parser) behindCall(rest []byte, final bool) (int, status) {
	if p.out.calls == 0 {
		return 0, bad
	}
	if n, s := p.calls.leftover(rest, final); s != bad {
		return n, s
	}
	n, s := p.echo.again(rest, p.calls.closers, final)
	if s == bad && final {
		_, open := p.calls.leftover(rest, false)
		p.out.begun = p.out.begun || open == more
	}
	return n, s
}

// content is text after its first byte that is not white space. An opener of a call is left unread for callHead, with the white
// space before it.
func (p *Parser) content(final bool) bool {
	p.after = false
	markers := p.family.calls.textMarkers
	if p.calls != nil {
		markers = p.calls.allMarkers
		if p.out.calls == 0 {
			markers = p.calls.lineMarkers
		}
	}
	m, blanks := p.scan(Content, markers, false, final)
	if m < 0 {
		return false
	}
	if p.calls != nil && m >= len(p.calls.allMarkers) {
		p.unmarkedBehind(markers[m], blanks)
		return true
	}
	if p.markOfThought(blanks) {
		return true
	}
	if d, s := beginsWith(p.in.rest()[blanks:], p.family.calls.dropped, true); s == done {
		p.in.skip(blanks + len(d))
		p.after = true
		p.state = (*Parser).lead
		return true
	}
	p.callBehind(blanks)
	return true
}

// scan gives text up to the first marker, and which marker that is; -1 when none has come. White space right before the marker
// is left unread and counted, or dropped.
func (p *Parser) scan(k Kind, markers []string, drop, final bool) (marker, blanks int) {
	rest := p.in.rest()
	at, m := firstMarker(rest, markers)
	held := len(rest)
	if !final {
		held = heldFrom(rest, markers)
	}
	if m >= 0 && at < held {
		blanks = trailingBlank(rest[:at])
		p.take(k, at-blanks)
		if drop {
			p.in.skip(blanks)
			blanks = 0
		}
		return m, blanks
	}
	n := held
	if final && k == Content && p.out.calls > 0 { // behind a call, a marker that has begun is no text
		n = heldFrom(rest, markers)
		p.take(k, n)
		p.out.begun = true
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

// endOfCall is the state after a call: further calls, or the end of all of them.
func (p *Parser) endOfCall() {
	p.after = true
	p.state = (*Parser).lead
	if p.calls.start != nil {
		p.state = p.calls.start
	}
	if p.streamed != nil {
		p.state = p.streamed.next
	}
	if !p.parallel {
		p.state = (*Parser).ended
	}
}

// ended drops what follows the only call of an answer.
func (p *Parser) ended(bool) bool {
	p.in.skip(len(p.in.rest()))
	return false
}
