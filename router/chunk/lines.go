package chunk

import "bytes"

// Lines puts a stream of server-sent events, whose servers may use all that the standard has, into one form: lines end with LF, the data of an
// event is on one line, and there is no byte order mark. Lines of an event's data are joined by a tab in place of the standard's LF:
// in JSON the two mean the same, also where neither may stand. A stream in that form passes as it is, and nothing is allocated.
//
// https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
type Lines struct {
	begun bool   // the beginning of the stream has passed, where a byte order mark may stand
	cr    bool   // the last line has ended with CR, which LF may follow
	start []byte // of a line of which it is not known yet what it is
	kind  lineKind
	mid   bool // the line's start has passed, and its end has not

	open bool   // a line of data has ended, and whether the next one belongs to it is not known yet: its end is held back
	tail []byte // lines that have come behind it

	out []byte
}

type lineKind uint8

const (
	otherLine lineKind = iota // a comment, or another field
	dataLine
	tailLine // another field, behind an event's data
)

const (
	dataField = "data:"
	bareData  = "data" // the field without a value
	byteOrder = "\uFEFF"
)

// maxTailBytes bounds what is held back of an event behind its data. What is more ends the data.
const maxTailBytes = 64 << 10

// Add gives what passes of a piece. It counts until the next call, and the piece is not changed.
func (l *Lines) Add(piece []byte) []byte {
	if pass, ok := l.plain(piece); ok {
		return pass
	}
	l.out = l.out[:0]
	for len(piece) > 0 {
		if l.cr && piece[0] == '\n' {
			l.cr, piece = false, piece[1:]
			continue
		}
		l.cr = false
		i := bytes.IndexAny(piece, "\r\n")
		if i < 0 {
			l.line(piece, false)
			break
		}
		l.line(piece[:i], true)
		l.cr, piece = piece[i] == '\r', piece[i+1:]
	}
	return l.out
}

// plain passes a piece that is in the form already.
func (l *Lines) plain(piece []byte) (pass []byte, ok bool) {
	if !l.begun || l.cr || l.open || len(l.start)+len(l.tail) > 0 || bytes.IndexByte(piece, '\r') >= 0 {
		return nil, false
	}
	kind, mid := l.kind, l.mid
	for at := 0; at < len(piece); {
		rest := piece[at:]
		if !mid {
			kind = otherLine
			if bytes.HasPrefix(rest, []byte(dataField)) {
				kind = dataLine
			}
		}
		end := bytes.IndexByte(rest, '\n') + 1
		switch {
		case end == 0 && !mid && isDataStart(rest):
			l.start, l.mid = append(l.start, rest...), false
			return piece[:at], true
		case end == 0:
			l.kind, l.mid = kind, true
			return piece, true
		case kind == otherLine && string(rest[:end-1]) == bareData:
			return nil, false
		case kind == otherLine:
		case end == len(rest):
			l.mid, l.open = false, true
			return piece[:len(piece)-1], true
		case rest[end] != '\n':
			return nil, false
		default:
			end++
		}
		at, mid = at+end, false
	}
	l.mid = mid
	return piece, true
}

// isDataStart reports whether a line that begins so may become one of data.
func isDataStart(text []byte) bool {
	return len(text) < len(dataField) && string(text) == dataField[:len(text)]
}

// line takes a piece of a line, with its end or without.
func (l *Lines) line(text []byte, ends bool) {
	if !l.mid {
		l.start = append(l.start, text...)
		if text = l.start; !ends && l.undecided() {
			return
		}
		if !l.begun {
			if text = bytes.TrimPrefix(text, []byte(byteOrder)); bytes.HasPrefix(text, []byte(byteOrder)) {
				l.out = append(l.out, '\n') // the second one is of a field's name: at the beginning clients would leave it out
			}
		}
		l.begun, l.start = true, l.start[:0]
		text = l.begin(text, ends)
	}
	if l.kind == tailLine {
		l.tail = append(l.tail, text...)
	} else {
		l.out = append(l.out, text...)
	}
	if l.mid = !ends; ends {
		l.end()
	}
	if len(l.tail) > maxTailBytes {
		l.close()
	}
}

// undecided reports whether it is not known yet what the line is that begins with start, or whether a blank is left out of it.
func (l *Lines) undecided() bool {
	if !l.begun && len(l.start) < len(byteOrder)+len(dataField) {
		mark := min(len(l.start), len(byteOrder))
		return string(l.start[:mark]) == byteOrder[:mark] || isDataStart(l.start)
	}
	return isDataStart(l.start) || l.open && string(l.start) == dataField
}

// begin finds out what a line is, and gives what of its beginning passes.
func (l *Lines) begin(text []byte, ends bool) []byte {
	value, isData := bytes.CutPrefix(text, []byte(dataField))
	if ends && string(text) == bareData {
		text, value, isData = []byte(dataField), nil, true
	}
	switch {
	case len(text) == 0 && ends: // the event's end
		l.close()
		l.kind = otherLine
	case isData && l.open:
		l.out, l.open = append(l.out, '\t'), false
		l.kind = dataLine
		return bytes.TrimPrefix(value, []byte(" "))
	case isData:
		l.kind = dataLine
	case l.open:
		l.kind = tailLine
	default:
		l.kind = otherLine
	}
	return text
}

// end is the end of a line.
func (l *Lines) end() {
	switch l.kind {
	case otherLine:
		l.out = append(l.out, '\n')
	case dataLine:
		l.open = true
	case tailLine:
		l.tail = append(l.tail, '\n')
	}
}

// close passes what was held back behind data.
func (l *Lines) close() {
	if !l.open {
		return
	}
	l.out = append(append(l.out, '\n'), l.tail...)
	if l.open, l.tail = false, l.tail[:0]; l.kind == tailLine {
		l.kind = otherLine
	}
}

// End gives what was held back once the stream has ended.
func (l *Lines) End() []byte {
	l.out = l.out[:0]
	last := l.mid && l.kind == dataLine
	if text := l.start; len(text) > 0 {
		l.start = nil
		if text = l.begin(text, string(text) == bareData); l.kind == tailLine {
			l.tail = append(l.tail, text...)
		} else {
			l.out = append(l.out, text...)
		}
		last = l.kind == dataLine
	}
	l.open = l.open || last && len(l.tail) > 0 // lines that were held back follow it
	l.close()
	return l.out
}
