package family

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// status is how far a reader came with the bytes that it has.
type status uint8

const (
	more status = iota // the outcome depends on bytes that have not come
	done               // read as a whole
	bad                // not what the reader reads
)

const (
	maxDepth = 128 // nesting of arguments
	maxWord  = 256 // bytes of a number, a literal or a bare key
	maxGap   = 64  // bytes of white space kept between items; more is dropped
)

// syntax is how a family writes values. All families share JSON's objects and lists, and the habits that models bring along
// from Python: single quotes, True, False, None, tuples.
type syntax struct {
	quote  string // a further delimiter of strings, between which nothing is escaped
	bare   bool   // keys stand without quotes, and a word that is no literal is a string
	python bool   // strings may stand between three quotes, and hold their own quote; sets are lists
}

var jsonSyntax = &syntax{}

// value turns one value, as a model writes it, into JSON text while it comes. What it has written is always the beginning of
// valid JSON: a comma waits for the item after it, a number or literal for its end.
type value struct {
	syntax *syntax
	stack  []byte // the containers that are open, as the model opened them
	at     place
	quote  string // the delimiter of the open string
	key    bool   // the open string is a key
	gap    []byte // a comma and white space that wait for the next item
	wrote  bool   // something of the value was written
	named  bool   // it is an argument of a Python call that has its name, and so have those behind it
	bound  bool   // quotes in strings are escaped
	alone  bool   // the call stands alone, without a list around it
}

// place is where in a value a reader stands.
type place uint8

const (
	beforeValue place = iota
	beforeItem        // of a list: a value or the end
	beforeKey         // of an object: a key or the end
	beforeColon
	afterValue
	inString
)

func (v *value) reset(s *syntax) {
	*v = value{syntax: s, stack: v.stack[:0], gap: v.gap[:0]}
}

// read appends the JSON of what src adds and gives how many bytes it has read. On done, the value ended there; on bad, the
// byte there cannot stand in a value; on more, the bytes from there on must be given again with those that follow.
func (v *value) read(dst, src []byte, final bool) (out []byte, n int, s status) {
	for n < len(src) && !v.complete() {
		var used int
		if dst, used, s = v.step(dst, src[n:], final); s != done {
			return dst, n, s
		}
		n += used
	}
	if !v.complete() {
		return dst, n, more
	}
	return dst, n, done
}

func (v *value) complete() bool { return v.at == afterValue && len(v.stack) == 0 }

// step reads the next byte, word or escape.
func (v *value) step(dst, src []byte, final bool) ([]byte, int, status) {
	if v.at == inString {
		return v.stringByte(dst, src, final)
	}
	c := src[0]
	if isBlank(c) {
		v.blank(c)
		return dst, 1, done
	}
	switch {
	case v.at == beforeColon:
		if c != ':' {
			return dst, 0, bad
		}
		dst = v.fill(dst)
		v.at = beforeValue
		return append(dst, ':'), 1, done
	case v.at == afterValue:
		return v.next(dst, c)
	case c == '}' && v.at == beforeKey, (c == ']' || c == ')' || c == '}') && v.at == beforeItem:
		v.gap = v.gap[:0]
		return v.end(dst, c)
	}
	return v.item(dst, src, final)
}

func (v *value) blank(c byte) {
	if v.wrote && len(v.gap) < maxGap {
		v.gap = append(v.gap, c)
	}
}

// fill writes the comma and the white space that waited.
func (v *value) fill(dst []byte) []byte {
	dst = append(dst, v.gap...)
	v.gap = v.gap[:0]
	v.wrote = true
	return dst
}

// next reads a byte after an item of a container.
func (v *value) next(dst []byte, c byte) ([]byte, int, status) {
	if c != ',' {
		return v.end(dst, c)
	}
	v.gap = append(v.gap, ',')
	v.at = beforeItem
	if v.stack[len(v.stack)-1] == '{' {
		v.at = beforeKey
	}
	return dst, 1, done
}

func (v *value) end(dst []byte, c byte) ([]byte, int, status) {
	top := v.stack[len(v.stack)-1]
	if c != closerOf(top) {
		return dst, 0, bad
	}
	dst = v.fill(dst)
	v.stack = v.stack[:len(v.stack)-1]
	v.at = afterValue
	return append(dst, jsonCloser(top)), 1, done
}

func closerOf(open byte) byte {
	switch open {
	case '{', pythonSet:
		return '}'
	case '[':
		return ']'
	}
	return ')'
}

func jsonCloser(open byte) byte {
	if open == '{' {
		return '}'
	}
	return ']'
}

// item reads what begins a value or a key.
func (v *value) item(dst, src []byte, final bool) ([]byte, int, status) {
	c := src[0]
	key := v.at == beforeKey
	if c == '"' || c == '\'' {
		quote, s := v.quoteOf(src, final)
		if s == more {
			return dst, 0, more
		}
		return v.openString(dst, quote, key), len(quote), done
	}
	if q := v.syntax.quote; q != "" {
		if s := prefix(src, q, final); s == done {
			return v.openString(dst, q, key), len(q), done
		} else if s == more {
			return dst, 0, more
		}
	}
	if !key && c == '{' && v.syntax.python {
		kind, s := braces(src, final)
		if s != done {
			return dst, 0, s
		}
		return v.open(dst, kind)
	}
	if !key && (c == '{' || c == '[' || c == '(') {
		return v.open(dst, c)
	}
	return v.word(dst, src, final)
}

func (v *value) openString(dst []byte, quote string, key bool) []byte {
	v.at, v.quote, v.key = inString, quote, key
	return append(v.fill(dst), '"')
}

func (v *value) open(dst []byte, c byte) ([]byte, int, status) {
	if len(v.stack) >= maxDepth {
		return dst, 0, bad
	}
	dst = v.fill(dst)
	v.stack = append(v.stack, c)
	if c == '{' {
		v.at = beforeKey
		return append(dst, '{'), 1, done
	}
	v.at = beforeItem
	return append(dst, '['), 1, done
}

// word reads a number, a literal or a bare key, which is held back until its end is there.
func (v *value) word(dst, src []byte, final bool) ([]byte, int, status) {
	n := 0
	for n < len(src) && n < maxWord && isWord(src[n]) {
		n++
	}
	if n == 0 || n == maxWord {
		return dst, 0, bad
	}
	if n == len(src) && !final {
		return dst, 0, more
	}
	word := src[:n]
	if v.at == beforeKey {
		if !v.syntax.bare && !isNumber(word) {
			return dst, 0, bad
		}
		v.at = beforeColon
		return appendQuoted(v.fill(dst), word), n, done
	}
	literal := jsonWord(word)
	if digits := bytes.TrimLeft(word, "0"); literal == nil && v.syntax.python && isNumber(digits) {
		literal = digits // 07, as no Python has it any more
	}
	switch {
	case literal != nil:
		dst = append(v.fill(dst), literal...)
	case v.syntax.bare:
		dst = appendQuoted(v.fill(dst), word)
	default:
		return dst, 0, bad
	}
	v.at = afterValue
	return dst, n, done
}

func isWord(c byte) bool {
	switch c {
	case ',', ':', '{', '}', '[', ']', '(', ')', '"', '\'', '=', '<', '>':
		return false
	}
	return c > ' '
}

// jsonWord is the JSON of a number or literal, nil where the word is neither.
func jsonWord(word []byte) []byte {
	switch string(word) {
	case "True", "true":
		return []byte("true")
	case "False", "false":
		return []byte("false")
	case "None", "null":
		return []byte("null")
	}
	if isNumber(word) {
		return word
	}
	if c := word[len(word)-1]; c == '.' || c >= '0' && c <= '9' { // Python's 5. and .5
		if f, err := strconv.ParseFloat(string(word), 64); err == nil && !math.IsInf(f, 0) {
			return strconv.AppendFloat(nil, f, 'g', -1, 64)
		}
	}
	return nil
}

func isNumber(word []byte) bool {
	return len(word) > 0 && (word[0] == '-' || word[0] >= '0' && word[0] <= '9') && json.Valid(word)
}

// stringByte reads one rune or escape of a string, or its end.
func (v *value) stringByte(dst, src []byte, final bool) ([]byte, int, status) {
	switch prefix(src, v.quote, final) {
	case more:
		return dst, 0, more
	case done:
		if s := v.closes(src[len(v.quote):], final); s == bad {
			return appendEscaped(dst, src[:1]), 1, done
		} else if s == more {
			return dst, 0, more
		}
		v.at = afterValue
		if v.key {
			v.at = beforeColon
		}
		return append(dst, '"'), len(v.quote), done
	default:
	}
	c := src[0]
	if c == '\\' && v.quote != v.syntax.quote {
		return appendEscape(dst, src, final)
	}
	if c >= utf8.RuneSelf && !utf8.FullRune(src) && !final {
		return dst, 0, more
	}
	if c < utf8.RuneSelf {
		return appendEscaped(dst, src[:1]), 1, done
	}
	_, n := utf8.DecodeRune(src)
	return append(dst, src[:n]...), n, done
}

// close appends what is missing to make valid JSON of what was written so far. A value of which nothing was written gives null.
func (v *value) close(dst []byte) []byte {
	if v.at == inString {
		dst = append(dst, '"')
		v.at = afterValue
		if v.key {
			v.at = beforeColon
		}
	}
	switch v.at {
	case beforeColon:
		dst = append(dst, ":null"...)
	case beforeValue:
		dst = append(dst, "null"...)
	default:
	}
	for _, open := range slices.Backward(v.stack) {
		dst = append(dst, jsonCloser(open))
	}
	v.stack, v.gap, v.at = v.stack[:0], v.gap[:0], afterValue
	return dst
}

// prefix says whether src begins with a text: more where src is only the text's beginning and not final.
func prefix(src []byte, text string, final bool) status {
	n := min(len(src), len(text))
	if string(src[:n]) != text[:n] {
		return bad
	}
	if n == len(text) {
		return done
	}
	if final {
		return bad
	}
	return more
}

func isBlank(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

func skipBlank(src []byte) int {
	n := 0
	for n < len(src) && isBlank(src[n]) {
		n++
	}
	return n
}

// asJSON turns one whole value of the syntax into JSON; false where src is not exactly one value.
func asJSON(src []byte, s *syntax) ([]byte, bool) {
	var v value
	v.reset(s)
	out, n, st := v.read(nil, src, true)
	if st != done || len(bytes.TrimSpace(src[n:])) > 0 {
		return nil, false
	}
	return out, true
}
