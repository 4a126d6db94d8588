package moderation

import (
	"slices"
	"strconv"
	"unicode/utf8"
)

// jsonState knows which parts of a JSON text are in strings.
type jsonState struct {
	open    bool // in a string
	at      int
	opened  int // where the newest string's content begins
	strings []span
}

type span struct{ from, to int }

// next takes in a rune or an escape.
func (s *jsonState) next(r rune, width int) {
	if r == '"' && width == 1 {
		if s.open {
			s.strings = append(s.strings, span{s.opened, s.at})
			if len(s.strings) > keptStrings {
				s.strings = s.strings[:copy(s.strings, s.strings[1:])]
			}
		}
		s.open, s.opened = !s.open, s.at+1
	}
	s.at += width
}

// keptStrings are remembered: more than a match can reach back over, as one that holds a
// quote is in no string.
const keptStrings = maxMatchBytes

// contains reports whether a part of the text is in one string.
func (s *jsonState) contains(from, to int) bool {
	if s.open && from >= s.opened {
		return true
	}
	for _, inner := range slices.Backward(s.strings) {
		if from >= inner.from {
			return to <= inner.to
		}
	}
	return false
}

// escapeBytes are those of an escape, \u0041.
const escapeBytes = 6

// unescape gives the rune of an escape; width is 0 where more of it has to come.
func unescape(text []byte, last bool) (r rune, width int) {
	if len(text) < 2 || text[1] == 'u' && len(text) < 6 {
		if last {
			return utf8.RuneError, len(text)
		}
		return 0, 0
	}
	switch text[1] {
	case 'u':
		n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
		if err != nil {
			return utf8.RuneError, 2
		}
		return rune(n), 6 // a half of a surrogate pair stands for itself
	case 'n':
		return '\n', 2
	case 't':
		return '\t', 2
	case 'r':
		return '\r', 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	}
	return rune(text[1]), 2
}

// unescaped is a part of a JSON string as a reader sees it.
func unescaped(raw []byte) string {
	text := make([]byte, 0, len(raw))
	for len(raw) > 0 {
		if raw[0] == '\\' {
			r, width := unescape(raw, true)
			text = utf8.AppendRune(text, r)
			raw = raw[width:]
			continue
		}
		text = append(text, raw[0])
		raw = raw[1:]
	}
	return string(text)
}
