package family

// callBehind reads a call next, whose opener stands behind n bytes of white space.
func (p *Parser) callBehind(n int) {
	p.skip = n
	p.retry.reset()
	p.state = (*Parser).callHead
}

// callHead reads a call from its opener, which stands unread after p.skip bytes of white space. Where no call can be read, the
// opener is text.
func (p *Parser) callHead(final bool) bool {
	rest := p.in.rest()[p.skip:]
	if p.retry.early(len(rest), final) {
		return false
	}
	opener := p.calls.opener(rest)
	h, n, s := p.headFrom(opener, rest[:min(len(rest), headLimit)], final)
	if s == more && (final || len(rest) >= headLimit) {
		s = bad
	}
	if s == bad && final && len(rest) < headLimit {
		_, _, open := p.headFrom(opener, rest, false)
		p.out.begun = p.out.begun || open == more
	}
	if s == bad && h.broken {
		p.unreadable++
	}
	if s == done && p.inThought {
		s = p.outOfThought(rest, final)
	}
	switch s {
	case more:
		p.retry.wait(len(rest))
		return false
	case bad:
		p.noCall(p.skip + len(opener))
		return true
	default:
	}
	if p.calls.echoes {
		from := p.skip + len(opener)
		p.echo.begins(p.in.at + from + skipBlank(p.in.rest()[from:]))
	}
	p.in.skip(p.skip + n)
	p.begun(h)
	return true
}

// outOfThought reports whether the call in front of rest ends the thought that it stands in.
func (p *Parser) outOfThought(rest []byte, final bool) status {
	switch p.family.thought.goesOn(rest, final) {
	case more:
		return more
	case done:
		return bad
	default:
		return done
	}
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

// bareHead reads a call that has no opener.
func (p *Parser) bareHead(final bool) bool {
	rest := p.in.rest()[p.skip:]
	h, n, s := p.calls.bare(&p.request, rest[:min(len(rest), headLimit)], final)
	if s == more && (final || len(rest) >= headLimit) {
		s = bad
	}
	if s == bad && final {
		p.out.begun = p.out.begun || len(rest) > 0 && rest[0] == '{' && p.namesTool(rest, false) == done
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
	p.in.skip(p.skip + n)
	p.begun(h)
	return true
}

// begun starts the call of a head.
func (p *Parser) begun(h head) {
	p.inThought = false
	p.retry.reset()
	p.out.start(h.name, h.id)
	if h.args != nil {
		p.out.raw(string(h.args))
		p.out.end()
		p.behindObject(h)
		return
	}
	if p.calls.body != nil && !h.plain && !h.array && h.nest == 0 {
		p.args = p.calls.body(&p.request, h, &p.in, &p.out)
	} else {
		p.args = newObjectReader(&p.request, h, &p.in, &p.out)
	}
	p.state = (*Parser).argumentsOf
}

// argumentsOf reads the arguments of the open call.
func (p *Parser) argumentsOf(final bool) bool {
	switch p.args.read(final) {
	case more:
		return false
	case bad:
		p.endCall()
		p.breakOff(final)
		return true
	default:
	}
	p.out.end()
	p.args.then(p)
	return true
}

// endCall ends the call that is open where the answer has ended inside it, or where its arguments broke off.
func (p *Parser) endCall() {
	if !p.out.open {
		return
	}
	from := len(p.out.json)
	p.out.json = p.args.complete(p.out.json)
	p.out.arguments(from)
	p.out.end()
}

// breakOff goes on after a call whose end cannot be read: what is left of it is text, up to the next closing marker where the family has any.
func (p *Parser) breakOff(final bool) {
	p.echo.drop()
	p.out.begun = p.out.begun || final
	p.unreadable++
	p.endOfCall()
	if len(p.calls.closers) > 0 && p.parallel {
		p.state = (*Parser).broken
	}
}

// broken gives as text what a call has left up to its closing marker or the next call.
func (p *Parser) broken(final bool) bool {
	rest := p.in.rest()
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
		p.in.skip(blanks)
		p.endOfCall()
	}
	return found
}
