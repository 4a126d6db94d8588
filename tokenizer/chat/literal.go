package chat

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// number reads an integer (decimal, 0x, 0o, 0b, with underscores) or a float.
func (l *lexer) number() error {
	rest := l.src[l.pos:]
	if n := prefixedInteger(rest); n > 0 {
		l.emitLength(tokenInteger, n)
		return nil
	}
	n, kind := digits(rest), tokenInteger
	afterDot := l.pos > 0 && l.src[l.pos-1] == '.'
	if !afterDot && n+1 < len(rest) && rest[n] == '.' && isDigit(rest[n+1]) {
		n += 1 + digits(rest[n+1:])
		kind = tokenFloat
	}
	if e := exponent(rest[n:]); !afterDot && e > 0 {
		n += e
		kind = tokenFloat
	}
	if kind == tokenInteger && n > 1 && rest[0] == '0' && strings.Trim(rest[:n], "0_") != "" {
		n = 1 // Jinja reads a leading zero as a number of its own
	}
	l.emitLength(kind, n)
	return nil
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// digits is the length of a run of digits with single underscores inside.
func digits(s string) int {
	n := 0
	for n < len(s) && (isDigit(s[n]) || n > 0 && s[n] == '_' && n+1 < len(s) && isDigit(s[n+1])) {
		n++
	}
	return n
}

func exponent(s string) int {
	if s == "" || s[0] != 'e' && s[0] != 'E' {
		return 0
	}
	n := 1
	if n < len(s) && (s[n] == '+' || s[n] == '-') {
		n++
	}
	d := digits(s[n:])
	if d == 0 {
		return 0
	}
	return n + d
}

func prefixedInteger(s string) int {
	if len(s) < 3 || s[0] != '0' {
		return 0
	}
	valid := map[byte]string{'x': "0123456789abcdefABCDEF_", 'o': "01234567_", 'b': "01_"}[s[1]|0x20]
	n := 2
	for n < len(s) && strings.IndexByte(valid, s[n]) >= 0 {
		n++
	}
	if n == 2 {
		return 0
	}
	return n
}

// constant gives the value of a number token.
func (t token) constant() (Value, bool) {
	text := strings.ReplaceAll(t.text, "_", "")
	if t.kind == tokenInteger && len(text) > 2 && text[0] == '0' && !isDigit(text[1]) {
		n, err := strconv.ParseInt(text, 0, 64)
		return integer64(n), err == nil
	}
	v, err := parseNumber(text)
	return v, err == nil
}

// quotedString reads a string literal; it may run over lines.
func (l *lexer) quotedString(quote byte) error {
	for i := l.pos + 1; i < len(l.src); i++ {
		switch l.src[i] {
		case '\\':
			i++
		case quote:
			text, ok := unescape(l.src[l.pos+1 : i])
			if !ok {
				return l.errorf("invalid escape in a string")
			}
			l.emit(tokenString, text)
			l.pos = i + 1
			return nil
		}
	}
	return l.errorf("string is not closed")
}

// unescape applies Python's escapes; unknown ones stay as they are written.
func unescape(s string) (string, bool) {
	if !strings.Contains(s, `\`) {
		return s, true
	}
	var buf []byte
	for i := 0; i < len(s); {
		if s[i] != '\\' || i+1 == len(s) {
			buf = append(buf, s[i])
			i++
			continue
		}
		var n int
		var ok bool
		if buf, n, ok = appendUnescaped(buf, s[i:]); !ok {
			return "", false
		}
		i += n
	}
	return string(buf), true
}

var simpleEscapes = map[byte]string{
	'\n': "", '\\': `\`, '\'': "'", '"': `"`, 'a': "\a", 'b': "\b", 'f': "\f", 'n': "\n", 'r': "\r", 't': "\t", 'v': "\v",
}

// appendUnescaped handles one escape at the beginning of s, and gives how much
// of s it took.
func appendUnescaped(buf []byte, s string) ([]byte, int, bool) {
	if text, ok := simpleEscapes[s[1]]; ok {
		return append(buf, text...), 2, true
	}
	switch c := s[1]; {
	case c == 'x':
		return appendCodePoint(buf, s, 4)
	case c == 'u':
		if r, ok := surrogatePair(s); ok {
			return utf8.AppendRune(buf, r), 12, true
		}
		return appendCodePoint(buf, s, 6)
	case c == 'U':
		return appendCodePoint(buf, s, 10)
	case '0' <= c && c <= '7':
		n := 2
		for n < 4 && n < len(s) && '0' <= s[n] && s[n] <= '7' {
			n++
		}
		r, _ := strconv.ParseUint(s[1:n], 8, 32)
		return utf8.AppendRune(buf, rune(r)), n, true
	case c == 'N':
		return buf, 0, false
	}
	return append(buf, '\\'), 1, true
}

// appendCodePoint reads the hexadecimal digits in s[2:n].
func appendCodePoint(buf []byte, s string, n int) ([]byte, int, bool) {
	if len(s) < n {
		return buf, 0, false
	}
	r, err := strconv.ParseUint(s[2:n], 16, 32)
	if err != nil || r > utf8.MaxRune {
		return buf, 0, false
	}
	return utf8.AppendRune(buf, rune(r)), n, true
}

func surrogatePair(s string) (rune, bool) {
	if len(s) < 12 || s[6:8] != `\u` {
		return 0, false
	}
	hi, err1 := strconv.ParseUint(s[2:6], 16, 32)
	lo, err2 := strconv.ParseUint(s[8:12], 16, 32)
	r := utf16.DecodeRune(rune(hi), rune(lo))
	return r, err1 == nil && err2 == nil && r != utf8.RuneError
}
