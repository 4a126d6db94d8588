package family

// objectReader reads arguments that are one value.
type objectReader struct {
	in    *source
	out   *output
	head  head
	value value
}

func newObjectReader(r *request, h head, in *source, out *output) *objectReader {
	o := &objectReader{in: in, out: out, head: h}
	o.value.reset(jsonSyntax)
	if r.calls.syntax != nil {
		o.value.reset(r.calls.syntax)
	}
	return o
}

func (o *objectReader) read(final bool) status { return o.out.value(&o.value, o.in, final) }

func (o *objectReader) complete(dst []byte) []byte {
	if !o.value.wrote {
		return append(dst, "{}"...)
	}
	return o.value.close(dst)
}

func (o *objectReader) then(p *Parser) { p.behindObject(o.head) }

// behindObject reads next what follows the arguments of a head in the objects that they stand in.
func (p *Parser) behindObject(h head) {
	p.array = h.array
	p.around.reset(jsonSyntax)
	p.around.at = afterValue
	for range h.nest {
		p.around.stack = append(p.around.stack, '{')
	}
	p.state = (*Parser).restOfObject
}

// restOfObject drops what follows the arguments in the objects that they stand in.
func (p *Parser) restOfObject(final bool) bool {
	_, n, s := p.around.read(nil, p.in.rest(), final)
	p.in.skip(n)
	if s == more {
		return false
	}
	p.endOfCall()
	if p.array && p.parallel {
		p.state = (*Parser).nextItem
	}
	return true
}

// nextItem reads on in a list of calls.
func (p *Parser) nextItem(final bool) bool {
	p.in.skipBlank()
	rest := p.in.rest()
	if len(rest) == 0 {
		return false
	}
	if rest[0] != ',' {
		if rest[0] == ']' {
			p.in.skip(1)
		}
		p.endOfCall()
		return true
	}
	if p.retry.early(len(rest), final) {
		return false
	}
	blanks := skipBlank(rest[1:])
	h, n, s := p.calls.item(rest[1+blanks:min(len(rest), headLimit)], final)
	if s == more && (final || len(rest) >= headLimit) {
		s = bad
	}
	if s == more {
		p.retry.wait(len(rest))
		return false
	}
	p.retry.reset()
	if s == bad {
		p.unreadable++
		p.in.skip(1 + blanks)
		p.state = (*Parser).strayItem
		return true
	}
	h.array = true
	p.in.skip(1 + blanks + n)
	p.begun(h)
	return true
}

// strayItem gives an item that is no call as text.
func (p *Parser) strayItem(final bool) bool {
	rest := p.in.rest()
	if p.retry.early(len(rest), final) {
		return false
	}
	var item value
	item.reset(jsonSyntax)
	_, n, s := item.read(nil, rest, final)
	if s == more && !final && len(rest) < headLimit {
		p.retry.wait(len(rest))
		return false
	}
	p.retry.reset()
	if s != done {
		p.unreadable-- // it is counted by what follows
		p.breakOff(final)
		return true
	}
	p.take(Content, n)
	p.state = (*Parser).nextItem
	return true
}

// pythonNext reads what follows a call in a list.
func (p *Parser) pythonNext(final bool) bool {
	p.in.skipBlank()
	rest := p.in.rest()
	if len(rest) == 0 {
		return false
	}
	if rest[0] != ',' {
		if rest[0] == ']' {
			p.in.skip(1)
		}
		p.echo.ends(p.in.buf, p.in.at)
		p.endOfCall()
		return true
	}
	if p.retry.early(len(rest), final) {
		return false
	}
	h, n, s := p.pythonCall(rest[1:], false, final)
	switch s {
	case more:
		p.retry.wait(len(rest))
		return false
	case bad:
		if h.broken {
			p.unreadable++
		}
		p.retry.reset()
		p.out.begun = final
		p.echo.drop()
		p.endOfCall()
		return true
	case done:
	}
	p.retry.reset()
	p.in.skip(1 + n)
	p.begun(h)
	return true
}
