package predict

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"weir/api"
)

// scanner reads JSON as it comes, without a tree of values: bodies are numbers for the
// most part. It also takes what TensorFlow Serving takes and JSON does not have: NaN,
// Infinity and -Infinity.
type scanner struct {
	b       []byte
	i       int
	reading *array // whose values are read, for errors
}

const (
	maxDepth      = 16  // of values inside of one another
	maxQuoteBytes = 40  // of a client's value in an error
	maxNameBytes  = 512 // of a field, a tensor or a model
)

// fault is a refusal of what stands at the scanner's place.
func (s *scanner) fault(want string) *api.Error {
	if s.peek(); s.i >= len(s.b) {
		return api.Refuse("invalid_json", fmt.Sprintf("the body ends after %d bytes where there must be %s", len(s.b), want))
	}
	return api.Refuse("invalid_json", fmt.Sprintf("at byte %d of the body stands %s where there must be %s", s.i, s.token(), want))
}

// token shows what stands at the scanner's place, and nothing behind it: a string, a
// number, a word or a bracket.
func (s *scanner) token() string {
	b := s.b[s.i:min(len(s.b), s.i+maxQuoteBytes+utf8.UTFMax)]
	end := min(1, len(b))
	if b[0] == '"' {
		for end < len(b) && b[end] != '"' {
			if b[end] == '\\' {
				end++
			}
			end++
		}
		end = min(end+1, len(b))
	} else if !isBreak(b[0]) {
		for end < len(b) && !isBreak(b[end]) {
			end++
		}
	}
	text := shorten(string(b[:end]))
	if !isPrintable(text) {
		return strconv.Quote(text)
	}
	return text
}

// isBreak reports whether c ends a number or a word.
func isBreak(c byte) bool { return c <= ' ' || strings.IndexByte(`",:[]{}`, c) >= 0 }

func isPrintable(text string) bool {
	return utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// quote shows a client's text in quotation marks, cut to what an error may hold.
func quote[T string | []byte](text T) string {
	return strconv.Quote(shorten(string(text[:min(len(text), maxQuoteBytes+utf8.UTFMax)])))
}

// shorten is a text's beginning of at most maxQuoteBytes, with … where more follows.
func shorten(text string) string {
	if len(text) <= maxQuoteBytes {
		return text
	}
	cut := maxQuoteBytes
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}

// peek is the next byte that is no space; 0 at the end.
func (s *scanner) peek() byte {
	for ; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; c {
		case ' ', '\n', '\t', '\r':
		default:
			return c
		}
	}
	return 0
}

// take moves over c if it is next.
func (s *scanner) take(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.i++
	return true
}

// word moves over a literal if it is next.
func (s *scanner) word(w string) bool {
	s.peek()
	if len(s.b)-s.i < len(w) || string(s.b[s.i:s.i+len(w)]) != w {
		return false
	}
	s.i += len(w)
	return true
}

// end wants nothing but space behind what was read.
func (s *scanner) end() *api.Error {
	if s.peek() != 0 || s.i < len(s.b) {
		return s.fault("the end of the body")
	}
	return nil
}

// fields reads an object and calls each with the name of every field; each reads the
// field's value. A name is valid until the next call. A field that comes twice is
// refused.
func (s *scanner) fields(each func(name []byte) *api.Error) *api.Error {
	if !s.take('{') {
		return s.fault("an object")
	}
	if s.take('}') {
		return nil
	}
	var seen seenFields
	for {
		name, fault := s.text()
		if fault != nil {
			return fault
		}
		if !s.take(':') {
			return s.fault("a colon")
		}
		if !seen.add(name) {
			return api.Refuse("duplicate_parameter", fmt.Sprintf("the field %s comes twice, or its object has more than %d fields", quote(name), maxFields))
		}
		if fault := each(name); fault != nil {
			return fault
		}
		switch {
		case s.take(','):
		case s.take('}'):
			return nil
		default:
			return s.fault("a comma or }")
		}
	}
}

// maxFields bounds the fields of one object.
const maxFields = 4096

// seenFields are those that an object has had so far.
type seenFields struct {
	few  [8][]byte
	n    int
	many map[string]struct{} // from the ninth on, all of them
}

func (s *seenFields) add(name []byte) bool {
	if s.n < len(s.few) {
		for _, other := range s.few[:s.n] {
			if bytes.Equal(other, name) {
				return false
			}
		}
		s.few[s.n] = name
		s.n++
		return true
	}
	if s.many == nil {
		s.many = make(map[string]struct{})
		for _, other := range s.few {
			s.many[string(other)] = struct{}{}
		}
	}
	if _, twice := s.many[string(name)]; twice || len(s.many) >= maxFields {
		return false
	}
	s.many[string(name)] = struct{}{}
	return true
}

// elements reads an array and calls each where an element begins; each reads it.
func (s *scanner) elements(each func() *api.Error) *api.Error {
	if !s.take('[') {
		return s.fault("an array")
	}
	if s.take(']') {
		return nil
	}
	for {
		if fault := each(); fault != nil {
			return fault
		}
		switch {
		case s.take(','):
		case s.take(']'):
			return nil
		default:
			return s.fault("a comma or ]")
		}
	}
}

// text reads a string. The result is part of the body where the string has no escapes.
func (s *scanner) text() ([]byte, *api.Error) {
	if s.peek() != '"' {
		return nil, s.fault("a string")
	}
	first := s.i
	for i := first + 1; i < len(s.b); i++ {
		switch c := s.b[i]; {
		case c == '"':
			s.i = i + 1
			return s.b[first+1 : i], nil
		case c == '\\', c < ' ', c >= utf8.RuneSelf:
			return s.longText()
		}
	}
	return nil, s.fault("a string with an end")
}

// longText reads a string that is not plain ASCII.
func (s *scanner) longText() ([]byte, *api.Error) {
	first := s.i
	for i := first + 1; i < len(s.b); i++ {
		switch s.b[i] {
		case '\\':
			i++
		case '"':
			var text string
			if json.Unmarshal(s.b[first:i+1], &text) != nil {
				return nil, s.fault("a string")
			}
			s.i = i + 1
			return []byte(text), nil
		}
	}
	return nil, s.fault("a string with an end")
}

// str is text as a string of its own, of at most maxNameBytes.
func (s *scanner) str(what string) (string, *api.Error) {
	text, fault := s.text()
	if fault == nil && len(text) > maxNameBytes {
		fault = api.Refuse("invalid_value", fmt.Sprintf("%s has %d bytes; at most %d are taken", what, len(text), maxNameBytes))
	}
	return string(text), fault
}

// boolean reads true or false.
func (s *scanner) boolean(what string) (bool, *api.Error) {
	switch {
	case s.word("true"):
		return true, nil
	case s.word("false"):
		return false, nil
	}
	return false, s.wrong(what, "true or false")
}

// count reads a whole number of at least 0, which may be written as a string: Triton's
// clients send both.
func (s *scanner) count(what string) (int64, *api.Error) {
	n, ok := s.whole()
	if !ok {
		return 0, s.wrong(what, wantCount)
	}
	return n, nil
}

const wantCount = "a whole number of at least 0, which 64 bits hold"

// whole is count, which stays where it is if the value is none.
func (s *scanner) whole() (n int64, ok bool) {
	at := s.i
	quoted := s.take('"')
	s.peek()
	var d decimal
	if end, number := d.read(s.b, s.i); number {
		n, ok = d.whole(0, 1<<63-1)
		s.i = end
		if ok && (!quoted || s.take('"')) {
			return n, true
		}
	}
	s.i = at
	return 0, false
}

// wrong refuses the value that stands at the scanner's place.
func (s *scanner) wrong(what, want string) *api.Error {
	var is string
	switch s.peek() {
	case '[':
		is = "an array"
	case '{':
		is = "an object"
	default:
		if s.i >= len(s.b) {
			return s.fault(want)
		}
		is = s.token()
	}
	e := api.Refuse("invalid_value", fmt.Sprintf("%s is %s; it must be %s", what, is, want))
	e.Param = what
	return e
}

// wrongValue is wrong for a value of the array that is read.
func (s *scanner) wrongValue(want string) *api.Error {
	s.peek()
	e := s.wrong(s.reading.place(s), want)
	e.Param = shorten(s.reading.name)
	return e
}

// skip moves over a value and returns its bytes, whose brackets and strings are whole;
// more is not checked.
func (s *scanner) skip() ([]byte, *api.Error) {
	s.peek()
	first, depth := s.i, 0
	for s.i < len(s.b) {
		switch c := s.b[s.i]; c {
		case '"':
			if fault := s.skipText(); fault != nil {
				return nil, fault
			}
			s.i--
		case '[', '{':
			if depth++; depth > maxDepth {
				return nil, s.fault(fmt.Sprintf("at most %d values inside of one another", maxDepth))
			}
		case ']', '}':
			if depth == 0 {
				return s.skipped(first)
			}
			depth--
		case ',':
			if depth == 0 {
				return s.skipped(first)
			}
		}
		s.i++
	}
	if depth > 0 {
		return nil, s.fault("the end of a value")
	}
	return s.skipped(first)
}

func (s *scanner) skipped(first int) ([]byte, *api.Error) {
	if s.i == first {
		return nil, s.fault("a value")
	}
	return s.b[first:s.i], nil
}

func (s *scanner) skipText() *api.Error {
	for i := s.i + 1; i < len(s.b); i++ {
		switch s.b[i] {
		case '\\':
			i++
		case '"':
			s.i = i + 1
			return nil
		}
	}
	return s.fault("a string with an end")
}

// ignore moves over a value that is not used, and wants it to be JSON.
func (s *scanner) ignore() *api.Error {
	at := s.i
	raw, fault := s.skip()
	if fault == nil && !json.Valid(raw) {
		s.i = at
		fault = s.fault("a value")
	}
	return fault
}
