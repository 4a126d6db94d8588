package choice

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"weir/api/openai/jsonbody"
	"weir/tokenizer/family"
)

// customInput reads the text of a call of a custom tool out of the JSON of its arguments, which
// comes in pieces. Arguments of any other form are the text themselves: a model that was
// not bound wrote them.
type customInput struct {
	state inputState
	held  []byte // of the beginning, or of an escape
	high  rune   // the first half of a character beyond U+FFFF; 0 is none
}

type inputState uint8

const (
	inputOpening inputState = iota // up to the quote that opens the text
	inputInside                    // behind it
	inputClosed                    // behind the quote that closes it
	inputRaw                       // the arguments have another form
)

// inputHead are the tokens of JSON in front of the text; blanks may stand before each.
var inputHead = [...]string{"{", strconv.Quote(family.InputName), ":", `"`}

// append appends what a piece of the arguments has of the text.
func (c *customInput) append(dst, piece []byte) []byte {
	if c.state == inputOpening {
		c.held = append(c.held, piece...)
		n, s := readInputHead(c.held)
		switch c.state = s; s {
		case inputInside:
			piece = bytes.Clone(c.held[n:])
		case inputRaw:
			piece = bytes.Clone(c.held)
		default:
			return dst
		}
		c.held = c.held[:0]
	}
	switch c.state {
	case inputRaw:
		return append(dst, piece...)
	case inputInside:
		return c.text(dst, piece)
	default:
		return dst
	}
}

// close appends what the end of the arguments leaves.
func (c *customInput) close(dst []byte) []byte {
	if c.state == inputOpening {
		return append(dst, c.held...)
	}
	return dst
}

// readInputHead finds where the text begins.
func readInputHead(arguments []byte) (at int, s inputState) {
	for i, token := range inputHead {
		at += jsonbody.SkipSpace(arguments[at:], 0)
		rest := arguments[at:]
		switch {
		case len(rest) < len(token) && bytes.HasPrefix([]byte(token), rest):
			return 0, inputOpening
		case i == 1 && rest[0] == '}': // no argument is no text
			return at, inputClosed
		case !bytes.HasPrefix(rest, []byte(token)):
			return 0, inputRaw
		}
		at += len(token)
	}
	return at, inputInside
}

// text appends a piece of the string, its escapes read.
func (c *customInput) text(dst, piece []byte) []byte {
	for _, b := range piece {
		switch {
		case c.state == inputClosed:
			return dst
		case len(c.held) > 0:
			c.held = append(c.held, b)
			dst = c.escape(dst)
		case b == '\\':
			c.held = append(c.held, b)
		case b == '"':
			dst = c.half(dst)
			c.state = inputClosed
		default:
			dst = append(c.half(dst), b)
		}
	}
	return dst
}

// half appends the first half of a character whose second half did not come.
func (c *customInput) half(dst []byte) []byte {
	if c.high != 0 {
		dst = utf8.AppendRune(dst, utf8.RuneError)
	}
	c.high = 0
	return dst
}

// shortEscapes are the characters of escapes of two bytes; others stand for themselves.
var shortEscapes = map[byte]byte{'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escape appends the character of the escape that is held, once it is whole.
func (c *customInput) escape(dst []byte) []byte {
	letter := c.held[1]
	if letter != 'u' {
		dst = c.half(dst)
		if plain, ok := shortEscapes[letter]; ok {
			letter = plain
		}
		c.held = c.held[:0]
		return append(dst, letter)
	}
	const whole = len(`\u0000`)
	if len(c.held) < whole {
		return dst
	}
	n, err := strconv.ParseUint(string(c.held[2:whole]), 16, 16)
	c.held = c.held[:0]
	unit := rune(n)
	switch {
	case err != nil:
		unit = utf8.RuneError
	case c.high != 0 && unit >= 0xDC00 && unit < 0xE000:
		unit, c.high = utf16.DecodeRune(c.high, unit), 0
	case unit >= 0xD800 && unit < 0xDC00:
		dst = c.half(dst)
		c.high = unit
		return dst
	}
	return utf8.AppendRune(c.half(dst), unit)
}
