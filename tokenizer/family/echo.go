package family

// echo is the text of the last list of calls, for families whose models write it twice.
type echo struct {
	text []byte
	from int  // where the part of it that is still in the parser's buffer begins
	open bool // the list has not ended
}

// begins starts a list that stands in the buffer from a place on.
func (e *echo) begins(at int) { *e = echo{text: e.text[:0], from: at, open: true} }

// keep takes what the list has of the buffer up to a place; what is in front of that place leaves the buffer.
func (e *echo) keep(buf []byte, at int) {
	if !e.open {
		return
	}
	e.text = append(e.text, buf[e.from:at]...)
	e.from = 0
	if len(e.text) > headLimit {
		e.drop()
	}
}

// ends is the end of the list.
func (e *echo) ends(buf []byte, at int) {
	e.keep(buf, at)
	e.open = false
}

func (e *echo) drop() { *e = echo{text: e.text[:0]} }

// again reads the last list of calls once more, with the closing marker that must follow. It is no text, and no call either.
func (e *echo) again(rest []byte, closers []string, final bool) (int, status) {
	if e.open || len(e.text) == 0 {
		return 0, bad
	}
	if s := prefix(rest, string(e.text), final); s != done {
		return 0, s
	}
	n := len(e.text)
	n += skipBlank(rest[n:])
	end, s := beginsWith(rest[n:], closers, final)
	return n + len(end), s
}
