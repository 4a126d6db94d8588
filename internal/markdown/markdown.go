// Package markdown shows Markdown at a terminal while it is written: headings, emphasis, code, lists and quotes by the terminal's own
// styles. A text in any pieces gives the same bytes; what is no mark of Markdown stays as it is.
package markdown

import (
	"bytes"
	"io"
)

// Styles of a terminal, by the codes of ECMA-48.
const (
	bold = 1 << iota
	faint
	italic
	underline
	code // cyan
)

var codes = []struct {
	style int
	code  string
}{{bold, ";1"}, {faint, ";2"}, {italic, ";3"}, {underline, ";4"}, {code, ";36"}}

// Writer shows what is written to it. The texts must have no control characters but line feeds and tabs: they would reach the terminal.
type Writer struct {
	out io.Writer
	buf []byte // to out at the end of a Write

	held   []byte // not decided yet: the start of a line, or a run of marks
	inLine bool   // the start of the line is decided
	fenced bool   // between lines of ```
	info   bool   // behind the ``` of a line
	line   int    // styles of the whole line
	spans  int    // styles of the spans that are open
	ticks  int    // backquotes that opened a span of code
	before byte   // the last byte of the line's text; 0 at its start
}

// NewWriter is a Writer to out, which is a terminal.
func NewWriter(out io.Writer) *Writer { return &Writer{out: out} }

// Write shows text. It holds back a mark until what follows decides what it is.
func (w *Writer) Write(text []byte) (int, error) {
	for _, b := range text {
		w.add(b)
	}
	return len(text), w.flush()
}

// Close shows what was held back and ends all styles.
func (w *Writer) Close() error {
	w.decide('\n')
	w.style(0, 0)
	*w = Writer{out: w.out, buf: w.buf}
	return w.flush()
}

func (w *Writer) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	_, err := w.out.Write(w.buf)
	w.buf = w.buf[:0]
	return err
}

func (w *Writer) add(b byte) {
	if b == '\n' {
		w.decide(b)
		w.style(0, 0)
		w.buf = append(w.buf, '\n')
		w.inLine, w.info, w.ticks, w.before = false, false, 0, 0
		return
	}
	if !w.inLine {
		w.held = append(w.held, b)
		w.start()
		return
	}
	w.inline(b)
}

// decide writes what is held back where next follows.
func (w *Writer) decide(next byte) {
	if !w.inLine && len(w.held) > 0 {
		w.begin(next)
	}
	w.marks(next)
}

// style changes the styles of what follows.
func (w *Writer) style(line, spans int) {
	if w.line == line && w.spans == spans {
		return
	}
	w.line, w.spans = line, spans
	w.buf = append(w.buf, "\x1b[0"...)
	for _, c := range codes {
		if (line|spans)&c.style != 0 {
			w.buf = append(w.buf, c.code...)
		}
	}
	w.buf = append(w.buf, 'm')
}

// isMark says whether b may open or close a span.
func isMark(b byte) bool { return b == '*' || b == '_' || b == '`' || b == '\\' }

func (w *Writer) inline(b byte) {
	switch {
	case w.fenced || w.info:
		w.buf = append(w.buf, b)
	case w.ticks > 0 && b != '`' && (len(w.held) == 0 || w.held[0] != '`'):
		w.text(b)
	case len(w.held) > 0 && w.held[0] == '\\':
		w.escaped(b)
	case len(w.held) > 0 && b == w.held[0]:
		w.held = append(w.held, b)
	default:
		w.marks(b)
		if isMark(b) && (w.ticks == 0 || b == '`') {
			w.held = append(w.held, b)
			return
		}
		w.text(b)
	}
}

func (w *Writer) text(b byte) {
	w.buf = append(w.buf, b)
	w.before = b
}

// escaped writes what stands behind a backslash: a mark loses it.
func (w *Writer) escaped(b byte) {
	w.held = w.held[:0]
	if !bytes.ContainsRune([]byte("\\`*_{}[]()#+-.!>|~"), rune(b)) {
		w.buf = append(w.buf, '\\')
	}
	w.text(b)
}

// marks decides what a run of equal marks is, where next follows.
func (w *Writer) marks(next byte) {
	if len(w.held) == 0 {
		return
	}
	run := w.held
	w.held = w.held[:0]
	switch {
	case run[0] == '\\':
		w.text('\\')
	case run[0] == '`':
		w.backquotes(run)
	case !w.emphasis(run, next):
		w.buf = append(w.buf, run...)
		w.before = run[0]
	}
}

// backquotes open a span of code, or close the one that as many opened.
func (w *Writer) backquotes(run []byte) {
	switch {
	case w.ticks == 0:
		w.ticks = len(run)
		w.style(w.line, w.spans|code)
	case w.ticks == len(run):
		w.ticks = 0
		w.style(w.line, w.spans&^code)
	default:
		w.buf = append(w.buf, run...)
	}
	w.before = '`'
}

// emphasis opens or closes bold and italic by CommonMark's rules for what may stand beside a mark; false where it is text.
func (w *Writer) emphasis(run []byte, next byte) bool {
	if len(run) > 3 {
		return false
	}
	styles := []int{0, italic, bold, bold | italic}[len(run)]
	opens := !isSpace(next) && (run[0] == '*' || !isWord(w.before))
	closes := w.before != 0 && !isSpace(w.before) && (run[0] == '*' || !isWord(next))
	switch {
	case closes && w.spans&styles == styles:
		w.style(w.line, w.spans&^styles)
	case opens && w.spans&styles == 0:
		w.style(w.line, w.spans|styles)
	default:
		return false
	}
	w.before = run[0]
	return true
}

func isSpace(b byte) bool { return b == ' ' || b == '\t' || b == '\n' }

func isWord(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= 0x80
}
