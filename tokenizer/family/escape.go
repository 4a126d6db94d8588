package family

import (
	"strconv"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// appendEscaped appends text as it stands between the quotes of a JSON string.
func appendEscaped(dst, text []byte) []byte {
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, `\n`...)
		case c == '\r':
			dst = append(dst, `\r`...)
		case c == '\t':
			dst = append(dst, `\t`...)
		case c < ' ' || c == 0x7f:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

func appendQuoted(dst, text []byte) []byte {
	return append(appendEscaped(append(dst, '"'), text), '"')
}

// appendEscape reads one escape of a string, JSON's or Python's, and appends JSON's. A backslash that escapes nothing stands
// for itself.
func appendEscape(dst, src []byte, final bool) ([]byte, int, status) {
	if len(src) < 2 {
		if final {
			return dst, len(src), done
		}
		return dst, 0, more
	}
	switch c := src[1]; c {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return append(dst, '\\', c), 2, done
	case '\'':
		return append(dst, '\''), 2, done
	case '\n': // Python's continuation of a line
		return dst, 2, done
	case 'x':
		return appendCodePoint(dst, src, 2, final)
	case 'u':
		return appendCodePoint(dst, src, 4, final)
	case 'U':
		return appendCodePoint(dst, src, 8, final)
	}
	return append(dst, `\\`...), 1, done
}

// appendCodePoint reads \x, \u or \U with that many hexadecimal digits.
func appendCodePoint(dst, src []byte, digits int, final bool) ([]byte, int, status) {
	n := 2
	for n < len(src) && n < 2+digits && isHex(src[n]) {
		n++
	}
	if n == len(src) && n < 2+digits && !final {
		return dst, 0, more
	}
	if n < 2+digits {
		return append(dst, `\\`...), 1, done
	}
	if digits == 4 { // halves of surrogate pairs, too, stand in JSON as they are
		return append(dst, src[:n]...), n, done
	}
	r, err := strconv.ParseUint(string(src[2:n]), 16, 32)
	if err != nil || r > utf8.MaxRune {
		return append(dst, `\\`...), 1, done
	}
	return appendEscaped(dst, utf8.AppendRune(nil, rune(r))), n, done
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}
