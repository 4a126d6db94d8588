package markdown

import "bytes"

// start decides what a line is as soon as its beginning tells.
func (w *Writer) start() {
	text := bytes.TrimLeft(w.held, " \t")
	if len(text) == 0 {
		return
	}
	if w.fenced && text[0] != '`' {
		w.begin(text[0])
		return
	}
	last := text[len(text)-1]
	switch text[0] {
	case '#', '`', '~':
		if last != text[0] {
			w.begin(last)
		}
	case '-', '*', '_':
		if !ofRule(text) {
			w.begin(last)
		}
	case '+':
		if len(text) > 1 {
			w.begin(last)
		}
	default:
		w.begin(last)
	}
}

// ofRule says whether text may begin a line that divides: marks of one kind with spaces between them, three or more where it ends.
func ofRule(text []byte) bool { return len(bytes.Trim(text, string(text[:1])+" ")) == 0 }

// begin writes the beginning of a line, whose mark ends with next: the byte behind it, or the line's end.
func (w *Writer) begin(next byte) {
	held := w.held
	text := bytes.TrimLeft(held, " \t")
	indent := held[:len(held)-len(text)]
	w.held, w.inLine = nil, true
	marks := 0
	for marks < len(text) && text[marks] == text[0] {
		marks++
	}
	switch {
	case len(text) == 0:
		w.buf = append(w.buf, indent...)
	case text[0] == '`' && marks >= 3:
		w.fence(indent, text)
	case w.fenced:
		w.style(code, 0)
		w.buf = append(w.buf, held...)
	case text[0] == '#' && marks <= 6 && marks < len(text) && text[marks] == ' ':
		w.style(map[bool]int{true: bold | underline, false: bold}[marks == 1], 0)
		w.rest(text[marks+1:])
	case next == '\n' && bytes.IndexByte([]byte("-*_"), text[0]) >= 0 && ofRule(text) && bytes.Count(text, text[:1]) >= 3:
		w.style(faint, 0)
		w.buf = append(w.buf, "────────"...)
	case (text[0] == '-' || text[0] == '*' || text[0] == '+') && marks == 1 && len(text) > 1 && text[1] == ' ':
		w.buf = append(append(w.buf, indent...), "• "...)
		w.rest(text[2:])
	case text[0] == '>':
		w.buf = append(w.buf, indent...)
		w.style(faint, 0)
		w.buf = append(w.buf, "│"...)
		w.rest(text[1:])
	default:
		w.buf = append(w.buf, indent...)
		w.rest(text)
	}
}

// fence begins or ends a block of code: the line of backquotes shows its language.
func (w *Writer) fence(indent, text []byte) {
	w.fenced = !w.fenced
	w.info = true
	w.style(faint, 0)
	w.buf = append(append(w.buf, indent...), text...)
}

// rest is the text of a line behind its mark.
func (w *Writer) rest(text []byte) {
	for _, b := range text {
		w.inline(b)
	}
}
