package notation

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"weir/tokenizer/grammar/regex"
)

// scanner is a place in a grammar's text.
type scanner struct {
	text  string
	at    int
	depth int
}

func newScanner(text string) (scanner, error) {
	if len(text) > MaxBytes {
		return scanner{}, fmt.Errorf("%w: %d bytes, the limit is %d", grammarTooLarge, len(text), MaxBytes)
	}
	if !utf8.ValidString(text) {
		return scanner{}, fmt.Errorf("%w: it is not UTF-8", ErrSyntax)
	}
	return scanner{text: text}, nil
}

// place names a byte of the text by line and column.
func (s *scanner) place(at int) string {
	before := s.text[:at]
	line := strings.Count(before, "\n") + 1
	return fmt.Sprintf("line %d, column %d", line, at-strings.LastIndexByte(before, '\n'))
}

func (s *scanner) wrong(what string) error {
	return fmt.Errorf("%w: %s: %s", ErrSyntax, s.place(s.at), what)
}

func (s *scanner) refuse(what string) error {
	return fmt.Errorf("%w: %s: %s", ErrUnsupported, s.place(s.at), what)
}

func (s *scanner) done() bool { return s.at >= len(s.text) }

func (s *scanner) has(prefix string) bool { return strings.HasPrefix(s.text[s.at:], prefix) }

func (s *scanner) skip(prefix string) bool {
	if !s.has(prefix) {
		return false
	}
	s.at += len(prefix)
	return true
}

// hasByte reports whether one of the bytes comes next.
func (s *scanner) hasByte(bytes string) bool {
	return !s.done() && strings.IndexByte(bytes, s.text[s.at]) >= 0
}

func (s *scanner) rune() rune {
	r, n := utf8.DecodeRuneInString(s.text[s.at:])
	s.at += n
	return r
}

// while takes the bytes that a test holds for.
func (s *scanner) while(test func(byte) bool) string {
	from := s.at
	for !s.done() && test(s.text[s.at]) {
		s.at++
	}
	return s.text[from:s.at]
}

func (s *scanner) enter() error {
	if s.depth++; s.depth > maxNesting {
		return fmt.Errorf("%w: %s: groups nested more than %d deep", grammarTooLarge, s.place(s.at), maxNesting)
	}
	return nil
}

func (s *scanner) leave() { s.depth-- }

// hex takes a number of hexadecimal digits as a character.
func (s *scanner) hex(count int) (rune, error) {
	if len(s.text)-s.at < count {
		return 0, s.wrong("too few hexadecimal digits")
	}
	n, err := strconv.ParseUint(s.text[s.at:s.at+count], 16, 32)
	if err != nil || n > utf8.MaxRune || n >= 0xD800 && n < 0xE000 {
		return 0, s.wrong("no character of hexadecimal digits")
	}
	s.at += count
	return rune(n), nil
}

// number takes decimal digits; what is above the largest count of a repetition is refused.
func (s *scanner) number() (n int, ok bool, err error) {
	digits := s.while(isDigit)
	if digits == "" {
		return 0, false, nil
	}
	n, err = strconv.Atoi(digits)
	if err != nil || n > regex.MaxCount {
		return 0, false, fmt.Errorf("%w: %s: a count of %.20s, the limit is %d", grammarTooLarge, s.place(s.at), digits, regex.MaxCount)
	}
	return n, true, nil
}

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

func isLower(b byte) bool { return b >= 'a' && b <= 'z' }

func isUpper(b byte) bool { return b >= 'A' && b <= 'Z' }

// controlToken reads <[id]> or <name>, which begins here.
func (s *scanner) controlToken() (*expr, error) {
	end := strings.IndexByte(s.text[s.at:], '>')
	if end < 2 || strings.ContainsAny(s.text[s.at:s.at+end], " \t\n\r") {
		return nil, s.wrong("a < that begins no token, which is <name> or <[id]>")
	}
	name := s.text[s.at : s.at+end+1]
	if digits, ok := strings.CutPrefix(name, "<["); ok {
		id, err := strconv.ParseInt(strings.TrimSuffix(digits, "]>"), 10, 32)
		if err != nil || id < 0 {
			return nil, s.wrong("a token id is a number, as in <[1000]>")
		}
		s.at += len(name)
		return &expr{kind: exprToken, id: int32(id)}, nil
	}
	s.at += len(name)
	return &expr{kind: exprToken, token: name}, nil
}
