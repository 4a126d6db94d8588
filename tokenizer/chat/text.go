package chat

import (
	"iter"
	"sort"
	"unicode/utf8"
)

// marks say who wrote each byte of a mixed string: flips are the byte offsets,
// ascending and inside the text, at which the writer changes. Most strings have
// one writer: Value.client names that writer and ref is nil. A slice of a string
// shares the flips of the whole string, from which base is to be subtracted.
type marks struct {
	flips []int
	base  int
}

func (v Value) flips() (flips []int, base int) {
	if m, ok := v.ref.(*marks); ok {
		return m.flips, m.base
	}
	return nil, 0
}

// clientAt reports who wrote byte i.
func (v Value) clientAt(i int) bool {
	flips, base := v.flips()
	before := sort.SearchInts(flips, base+i+1)
	return v.client != (before%2 == 1)
}

// slice cuts bytes [i, j) out of a string, with their marks.
func (v Value) slice(i, j int) Value {
	if i >= j {
		return Value{kind: kindString, safe: v.safe}
	}
	cut := Value{kind: kindString, safe: v.safe, client: v.client, str: v.str[i:j]}
	flips, base := v.flips()
	if flips == nil {
		return cut
	}
	lo, hi := sort.SearchInts(flips, base+i+1), sort.SearchInts(flips, base+j)
	cut.client = v.client != (lo%2 == 1)
	if lo < hi {
		cut.ref = &marks{flips[lo:hi], base + i}
	}
	return cut
}

// runs yields the stretches of one writer and whether that is the client.
func (v Value) runs() iter.Seq2[string, bool] {
	return func(yield func(string, bool) bool) {
		start, client := 0, v.client
		flips, base := v.flips()
		for _, end := range flips {
			end -= base
			if !yield(v.str[start:end], client) {
				return
			}
			start, client = end, !client
		}
		if start < len(v.str) {
			yield(v.str[start:], client)
		}
	}
}

// builder makes a marked string. Errors (limits) stick and come out of value.
type builder struct {
	b      *budget
	buf    []byte
	flips  []int
	first  bool // writer of the first byte
	client bool // writer of the last byte
	safe   bool // the result is a Markup
	err    error
}

// markBytes is the size of a flip.
const markBytes = 8

func newBuilder(b *budget) *builder { return &builder{b: b} }

// write appends s, written by the client or by the template.
func (w *builder) write(s string, client bool) {
	if s == "" || !w.reserve(len(s)) {
		return
	}
	w.mark(client)
	w.buf = append(w.buf, s...)
}

func (w *builder) writeRune(r rune, client bool) {
	if !w.reserve(utf8.RuneLen(r)) {
		return
	}
	w.mark(client)
	w.buf = utf8.AppendRune(w.buf, r)
}

func (w *builder) mark(client bool) {
	switch {
	case len(w.buf) == 0:
		w.first = client
	case client != w.client:
		if err := w.b.alloc(markBytes); err != nil {
			w.fail(err)
		}
		w.flips = append(w.flips, len(w.buf))
	}
	w.client = client
}

// writeText appends a string value with its marks.
func (w *builder) writeText(v Value) {
	if v.ref == nil {
		w.write(v.str, v.client)
		return
	}
	for s, client := range v.runs() {
		w.write(s, client)
	}
}

// reserve pays for n more bytes.
func (w *builder) reserve(n int) bool {
	if w.err == nil {
		w.err = w.b.text(len(w.buf), n)
	}
	return w.err == nil
}

// fail makes err the result, unless there is one already.
func (w *builder) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

func (w *builder) value() (Value, error) {
	if w.err != nil {
		return Value{}, w.err
	}
	v := Value{kind: kindString, str: string(w.buf), client: w.first, safe: w.safe}
	if w.flips != nil {
		v.ref = &marks{flips: w.flips}
	}
	return v, nil
}

// runeCount is the length in characters.
func runeCount(s string) int { return utf8.RuneCountInString(s) }

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// byteOffset is the offset of character n, at most len(s).
func byteOffset(s string, n int) int {
	if n <= 0 {
		return 0
	}
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}

// isSpace is Python's str.isspace for one character.
func isSpace(r rune) bool {
	switch {
	case r <= ' ':
		return r == ' ' || '\t' <= r && r <= '\r' || 0x1c <= r && r <= 0x1f
	case r < 0x1680:
		return r == 0x85 || r == 0xa0
	case r <= 0x200a:
		return r >= 0x2000 || r == 0x1680
	}
	return r == 0x2028 || r == 0x2029 || r == 0x202f || r == 0x205f || r == 0x3000
}
