package chat

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// str appends what Python's str() gives. The client's part is marked: text by
// its own marks, other values as a whole.
func (w *builder) str(v Value) {
	switch v.kind {
	case kindString:
		w.writeText(v)
	case kindAbsent, kindUndefined:
	default:
		w.repr(v)
	}
}

// str is str() as a value.
func (b *budget) str(v Value) (Value, error) {
	if v.kind == kindString {
		v.safe = false
		return v, nil
	}
	w := newBuilder(b)
	w.str(v)
	return w.value()
}

// softStr is str() that leaves a Markup as it is.
func (b *budget) softStr(v Value) (Value, error) {
	if v.kind == kindString {
		return v, nil
	}
	return b.str(v)
}

// repr appends what Python's repr() gives.
func (w *builder) repr(v Value) {
	if w.err != nil {
		return
	}
	if err := w.b.step(1); err != nil {
		w.fail(err)
		return
	}
	if err := w.b.enter(); err != nil {
		w.fail(err)
		return
	}
	defer w.b.leave()
	switch v.kind {
	case kindAbsent, kindUndefined:
		w.write("Undefined", false)
	case kindNone:
		w.write("None", v.client)
	case kindBool:
		w.write(boolName(v), v.client)
	case kindInt:
		w.integer(v)
	case kindFloat:
		w.write(formatFloat(v.float64()), v.client)
	case kindString:
		w.reprText(v)
	case kindList:
		w.reprItems("[", v.items(), "]", v.client)
	case kindTuple:
		w.reprTuple(v)
	case kindDict:
		w.reprDict(v.dict(), v.client)
	default:
		w.reprObject(v)
	}
}

func boolName(v Value) string {
	if v.num != 0 {
		return "True"
	}
	return "False"
}

func (w *builder) integer(v Value) {
	if err := w.b.digits(v); err != nil {
		w.fail(err)
		return
	}
	w.write(formatInteger(v), v.client)
}

func formatInteger(v Value) string {
	if v.ref != nil {
		return v.big().String()
	}
	return strconv.FormatInt(int64(v.num), 10)
}

// formatFloat is float.__repr__: the shortest digits that read back, with an
// exponent below 1e-4 and from 1e16 on.
func formatFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	if abs := math.Abs(f); abs != 0 && (abs < 1e-4 || abs >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

func (w *builder) reprItems(open string, items []Value, end string, client bool) {
	w.write(open, client)
	for i, item := range items {
		if i > 0 {
			w.write(", ", client)
		}
		w.repr(item)
	}
	w.write(end, client)
}

func (w *builder) reprTuple(v Value) {
	end := ")"
	if len(v.items()) == 1 {
		end = ",)"
	}
	w.reprItems("(", v.items(), end, v.client)
}

func (w *builder) reprDict(d *dict, client bool) {
	w.write("{", client)
	for i, e := range d.entries {
		if i > 0 {
			w.write(", ", client)
		}
		w.repr(e.key)
		w.write(": ", client)
		w.repr(e.value)
	}
	w.write("}", client)
}

// errNoText is for values whose Python text has an address in it.
var errNoText = errors.New("cannot be printed; make a list of it with | list, or call it with ()")

func (w *builder) reprObject(v Value) {
	switch r := v.ref.(type) {
	case *interval:
		w.reprRange(r)
	case *view:
		items := make([]Value, r.d.len())
		for i := range items {
			items[i] = r.at(i)
		}
		w.reprItems(r.part.typeName()+"([", items, "])", v.client)
	case *dict:
		w.write("<Namespace ", false)
		w.reprDict(r, false)
		w.write(">", false)
	case *macro:
		w.write("<Macro "+r.title()+">", false)
	case *loop:
		n, err := r.length()
		if err != nil {
			w.fail(err)
			return
		}
		w.write(fmt.Sprintf("<LoopContext %d/%d>", r.index0+1, n), false)
	default:
		w.fail(fmt.Errorf("%s %w", v.typeName(), errNoText))
	}
}

func (w *builder) reprRange(r *interval) {
	w.write("range("+strconv.FormatInt(r.start, 10)+", "+strconv.FormatInt(r.stop, 10), false)
	if r.step != 1 {
		w.write(", "+strconv.FormatInt(r.step, 10), false)
	}
	w.write(")", false)
}

// reprText quotes as Python does: single quotes unless only those occur.
func (w *builder) reprText(v Value) {
	if v.safe {
		w.write("Markup(", v.client)
		defer w.write(")", v.client)
	}
	quote := "'"
	if strings.Contains(v.str, "'") && !strings.Contains(v.str, `"`) {
		quote = `"`
	}
	w.write(quote, v.client)
	for s, client := range v.runs() {
		w.reprRun(s, quote[0], client)
	}
	w.write(quote, v.client)
}

func (w *builder) reprRun(s string, quote byte, client bool) {
	if err := w.b.characters(2 * len(s)); err != nil {
		w.fail(err)
		return
	}
	start := 0
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if escape := pythonEscape(r, quote); escape != "" {
			w.write(s[start:i], client)
			w.write(escape, client)
			start = i + n
		}
		i += n
	}
	w.write(s[start:], client)
}

func pythonEscape(r rune, quote byte) string {
	switch {
	case r == rune(quote):
		return `\` + string(r)
	case r == '\\':
		return `\\`
	case r == '\n':
		return `\n`
	case r == '\r':
		return `\r`
	case r == '\t':
		return `\t`
	case ' ' <= r && r < 0x7f || unicode.IsPrint(r):
		return ""
	case r < 0x100:
		return fmt.Sprintf(`\x%02x`, r)
	case r < 0x10000:
		return fmt.Sprintf(`\u%04x`, r)
	}
	return fmt.Sprintf(`\U%08x`, r)
}
