package family

import (
	"bytes"
	"slices"
)

// markup is how a family writes calls.
type markup struct {
	sections []string // open a list of calls; an opener follows
	openers  []string // open a call
	closers  []string // may follow a call; dropped
	dropped  []string // stand around text and say nothing
	texts    []string // those of them that begin text, so that they end a thought, too
	crumbs   string   // bytes that models leave behind a call by mistake; dropped
	syntax   *syntax  // of arguments; nil is JSON
	listing  string   // stands in a prompt that lists tools, for templates that write no calls themselves
	shortIDs bool     // ids are 9 letters and digits
	noise    bool     // what stands between a section's marker and its first call says nothing
	echoes   bool     // models write a list of calls twice at times, each time with a closing marker behind it
	whole    bool     // calls are read to their end before they begin, and those that name an argument twice are none

	// read reads what follows an opener up to the arguments. tools are those of the request.
	read func(p *Parser, opener string, rest []byte, final bool) (head, int, status)
	// item reads one call of a list of JSON objects.
	item func(rest []byte, final bool) (head, int, status)
	// bare reads a call that has no opener, where the answer's text would begin.
	bare func(p *Parser, rest []byte, final bool) (head, int, status)
	// lines are the first bytes of such a call where it may stand behind text, with the newline that must be before it.
	lines []string
	// body begins to read arguments that are not one value.
	body func(p *Parser)
	// messages are those that an answer is a list of; nil: it is one text.
	messages *messages
	// start is the first state of an answer, nil for lead.
	start func(p *Parser, final bool) bool
	// opening reads the prompt's tail, nil for families whose only state is the thought.
	opening func(tail string) Opening

	tags *tags // of tagged arguments

	control                 []string // control tokens that belong to markers and are no marker themselves
	textMarkers, allMarkers []string // what may end content, without and with calls
	thoughtEnds             []string // what may end a thought: its closing marker, the beginnings of text, and of calls
	trailers                []string // what may follow a tagged value whose end is missing
	ends                    []string // what may end a broken call
	known                   []string // every text whose pieces may be control tokens
}

// form is how the arguments of the open call stand.
type form uint8

const (
	formValue form = iota
	formTags
	formList
)

// head is what stands before a call's arguments.
type head struct {
	name, id string
	args     []byte // the whole arguments, where they stood before the name or are no object; nil: they follow
	nest     int    // objects that the arguments stand in
	array    bool   // the call is an item of a list
	plain    bool   // the arguments are one value, in a family where they mostly are not
	broken   bool   // of a head that is none: a call begins there whose arguments cannot be read
}

// knows reports whether a control token's text is a piece of one of the family's markers.
func (f *Family) knows(token []byte) bool {
	for _, k := range f.calls.known {
		if bytes.Contains([]byte(k), token) {
			return true
		}
	}
	return false
}

// callHead reads a call from its opener, which stands unread after p.skip bytes of white space. Where no call can be read, the
// opener is text.
func (p *Parser) callHead(final bool) bool {
	rest := p.rest()[p.skip:]
	if len(rest) < p.retry && !final {
		return false
	}
	opener := p.opener(rest)
	h, n, s := p.headFrom(opener, rest[:min(len(rest), headLimit)], final)
	if s == more && (final || len(rest) >= headLimit) {
		s = bad
	}
	if s == bad && final && len(rest) < headLimit {
		_, _, open := p.headFrom(opener, rest, false)
		p.unread = p.unread || open == more
	}
	switch s {
	case more:
		p.wait(len(rest))
		return false
	case bad:
		if h.broken {
			p.unreadable++
		}
		p.noCall(p.skip + len(opener))
		return true
	default:
	}
	if p.inThought {
		switch p.thoughtGoesOn(final) {
		case more:
			return false
		case done:
			p.noCall(p.skip + len(opener))
			return true
		default:
		}
	}
	if p.calls.echoes {
		from := p.skip + len(opener)
		p.echo.begins(p.at + from + skipBlank(p.rest()[from:]))
	}
	p.at += p.skip + n
	p.begun(h)
	return true
}

// noCall gives n bytes that were thought to begin a call as what they are: text, or a piece of a thought.
func (p *Parser) noCall(n int) {
	kind := Content
	p.state = (*Parser).content
	switch {
	case p.calls.messages != nil:
		p.state = (*Parser).messageText
	case p.inThought:
		kind = Reasoning
		p.state = (*Parser).thinking
	}
	p.take(kind, n)
}

// wait sets when a head is read again: at every byte while it is short, as heads are, and less often when it grows.
func (p *Parser) wait(have int) {
	p.retry = have + 1
	if have > 1024 {
		p.retry = have + have/4
	}
}

// opener is the section or opener that rest begins with.
func (p *Parser) opener(rest []byte) string {
	_, m := firstMarker(rest, p.calls.allMarkers)
	return p.calls.allMarkers[m]
}

// headFrom reads section, opener and head.
func (p *Parser) headFrom(opener string, rest []byte, final bool) (head, int, status) {
	if slices.Contains(p.calls.lines, opener) {
		at := skipBlank([]byte(opener))
		h, n, s := p.calls.bare(p, rest[at:], final)
		return h, n + at, s
	}
	n := len(opener)
	for _, section := range p.calls.sections {
		if section != opener {
			continue
		}
		n += skipBlank(rest[n:])
		next, s := beginsWith(rest[n:], p.calls.openers, final)
		if s == bad && p.calls.noise {
			var used int
			next, used, s = p.calls.behindNoise(rest[n:], final)
			n += used
		}
		if s == bad && p.calls.item != nil { // models trained on tags fall back to JSON at times
			h, used, s := readObject(p, section, rest[n:], final)
			return h, n + used, s
		}
		if s != done {
			return head{}, 0, s
		}
		opener = next
		n += len(opener)
		break
	}
	h, used, s := p.calls.read(p, opener, rest[n:], final)
	return h, n + used, s
}

// behindNoise finds the first opener within maxKey bytes, where no closing marker comes before it.
func (m *markup) behindNoise(rest []byte, final bool) (opener string, at int, s status) {
	short := rest[:min(len(rest), maxKey)]
	at, i := firstMarker(short, slices.Concat(m.openers, m.closers))
	switch {
	case i < 0:
		return "", 0, unfinished(short, final)
	case i >= len(m.openers):
		return "", 0, bad
	}
	return m.openers[i], at, done
}

// beginsWith finds the text, of several, that src begins with.
func beginsWith(src []byte, texts []string, final bool) (string, status) {
	s := bad
	for _, t := range texts {
		switch prefix(src, t, final) {
		case done:
			return t, done
		case more:
			s = more
		default:
		}
	}
	return "", s
}

// bareHead reads a call that has no opener.
func (p *Parser) bareHead(final bool) bool {
	rest := p.rest()[p.skip:]
	h, n, s := p.calls.bare(p, rest[:min(len(rest), headLimit)], final)
	if s == more && (final || len(rest) >= headLimit) {
		s = bad
	}
	if s == bad && final {
		p.unread = p.unread || len(rest) > 0 && rest[0] == '{' && p.namesTool(rest, false) == done
	}
	switch s {
	case more:
		return false
	case bad:
		if _, again := beginsWith(rest, p.calls.lines, true); h.broken && again != done { // else callHead finds it once more
			p.unreadable++
		}
		p.state = p.unmarked()
		return true
	default:
	}
	p.at += p.skip + n
	p.begun(h)
	return true
}

// begun starts the call of a head.
func (p *Parser) begun(h head) {
	p.head = h
	p.inThought = false
	p.startCall(h.name, h.id)
	if h.args != nil {
		from := len(p.out)
		p.out = append(p.out, h.args...)
		p.arguments(from)
		p.value.reset(jsonSyntax)
		p.value.at = afterValue
		p.endCall(false)
		p.state = (*Parser).restOfObject
		return
	}
	if p.calls.body != nil && !h.plain && !h.array && h.nest == 0 {
		p.calls.body(p)
		return
	}
	s := p.calls.syntax
	if s == nil {
		s = jsonSyntax
	}
	p.value.reset(s)
	p.form = formValue
	p.state = (*Parser).argumentValue
}

// argumentValue streams the arguments.
func (p *Parser) argumentValue(final bool) bool {
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
	p.endCall(false)
	p.state = (*Parser).restOfObject
	return true
}

// breakOff goes on after a call whose end cannot be read: what is left of it is text, up to the next closing marker where the family has any.
func (p *Parser) breakOff(final bool) {
	p.echo.drop()
	p.unread = p.unread || final
	p.unreadable++
	p.endOfCall()
	if len(p.calls.closers) > 0 && p.options.Choice.Parallel {
		p.state = (*Parser).broken
	}
}

// broken gives as text what a call has left up to its closing marker or the next call.
func (p *Parser) broken(final bool) bool {
	rest := p.rest()
	at, m := firstMarker(rest, p.calls.ends)
	held := len(rest)
	if !final {
		held = heldFrom(rest, p.calls.ends)
	}
	found := m >= 0 && at < held
	n := held
	if found {
		n = at
	}
	blanks := trailingBlank(rest[:n])
	if !found && !final {
		n = min(n-blanks, wholeRunes(rest[:n]))
		blanks = 0
	}
	p.take(Content, n-blanks)
	if found {
		p.at += blanks
		p.endOfCall()
	}
	return found
}

// complete appends what the open call's arguments lack.
func (p *Parser) complete(dst []byte) []byte {
	switch p.form {
	case formTags:
		if p.tag.open {
			dst = append(dst, '"')
		}
		return append(dst, '}')
	case formList:
		if p.list.inValue {
			dst = p.value.close(dst)
		}
		return append(dst, '}')
	default:
	}
	if !p.value.wrote {
		return append(dst, "{}"...)
	}
	return p.value.close(dst)
}

// restOfObject drops what follows the arguments in the objects that they stand in.
func (p *Parser) restOfObject(final bool) bool {
	if p.head.nest > 0 {
		p.value.reset(jsonSyntax)
		p.value.at = afterValue
		for range p.head.nest {
			p.value.stack = append(p.value.stack, '{')
		}
		p.head.nest = 0
	}
	_, n, s := p.value.read(nil, p.rest(), final)
	p.at += n
	if s == more {
		return false
	}
	p.endOfCall()
	if p.head.array && p.options.Choice.Parallel {
		p.state = (*Parser).nextItem
	}
	return true
}

// nextItem reads on in a list of calls.
func (p *Parser) nextItem(final bool) bool {
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
	if len(rest) < p.retry && !final {
		return false
	}
	blanks := skipBlank(rest[1:])
	h, n, s := p.calls.item(rest[1+blanks:min(len(rest), headLimit)], final)
	if s == more && (final || len(rest) >= headLimit) {
		s = bad
	}
	if s == more {
		p.wait(len(rest))
		return false
	}
	p.retry = 0
	if s == bad {
		p.unreadable++
		p.at += 1 + blanks
		p.state = (*Parser).strayItem
		return true
	}
	h.array = true
	p.at += 1 + blanks + n
	p.begun(h)
	return true
}

// strayItem gives an item that is no call as text.
func (p *Parser) strayItem(final bool) bool {
	rest := p.rest()
	if len(rest) < p.retry && !final {
		return false
	}
	p.value.reset(jsonSyntax)
	_, n, s := p.value.read(nil, rest, final)
	if s == more && !final && len(rest) < headLimit {
		p.wait(len(rest))
		return false
	}
	p.retry = 0
	if s != done {
		p.unreadable-- // it is counted by what follows
		p.breakOff(final)
		return true
	}
	p.take(Content, n)
	p.state = (*Parser).nextItem
	return true
}
