package chat

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// tokenKind is the kind of a token. Operators have their spelling in text.
type tokenKind uint8

const (
	tokenEOF tokenKind = iota
	tokenData
	tokenPrintBegin // {{
	tokenPrintEnd
	tokenBlockBegin // {%
	tokenBlockEnd
	tokenName
	tokenString // text is unescaped
	tokenInteger
	tokenFloat
	tokenOperator
)

type token struct {
	kind tokenKind
	line int
	text string
}

// describe names a token in an error message.
func (t token) describe() string {
	switch t.kind {
	case tokenEOF:
		return "end of template"
	case tokenData:
		return "text"
	case tokenBlockEnd:
		return "end of statement block"
	case tokenPrintEnd:
		return "end of print statement"
	case tokenString:
		return "string"
	}
	return quoted(t.text)
}

// lexer cuts a template into tokens with trim_blocks and lstrip_blocks on:
// the newline after a block or comment is removed, and so is the white space
// between the beginning of a line and a block or comment. "-" removes all white
// space on its side, "+" keeps what the two options would remove.
type lexer struct {
	src      string
	pos      int
	line     int
	counted  int  // newlines of src[:counted] are in line
	atStart  bool // the last thing consumed ended a line
	brackets []byte
	tokens   []token
}

// tokenize reads a whole template. Newlines are normalised to \n, and one at
// the end is dropped, as Jinja does by default.
func tokenize(src string) ([]token, error) {
	if strings.Contains(src, "\r") {
		src = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(src)
	}
	l := &lexer{src: strings.TrimSuffix(src, "\n"), line: 1, atStart: true}
	for l.pos < len(l.src) {
		if err := l.root(); err != nil {
			return nil, err
		}
	}
	l.emit(tokenEOF, "")
	return l.tokens, nil
}

func (l *lexer) errorf(format string, args ...any) error {
	l.count()
	return &Error{Reason: Syntax, Line: l.line, Message: fmt.Sprintf(format, args...)}
}

// count brings line up to pos.
func (l *lexer) count() {
	l.line += strings.Count(l.src[l.counted:l.pos], "\n")
	l.counted = l.pos
}

func (l *lexer) emit(kind tokenKind, text string) {
	l.count()
	l.tokens = append(l.tokens, token{kind: kind, line: l.line, text: text})
}

// root reads text up to the next tag, and the tag.
func (l *lexer) root() error {
	begin := l.nextTag()
	if begin < 0 {
		l.data(l.src[l.pos:])
		l.pos = len(l.src)
		return nil
	}
	text, kind := l.src[l.pos:begin], l.src[begin+1]
	sign := byte(0)
	if rest := l.src[begin+2:]; rest != "" && (rest[0] == '-' || rest[0] == '+') {
		sign = rest[0]
	}
	l.data(l.stripBefore(text, sign, kind != '{'))
	l.pos = begin + 2
	if sign != 0 {
		l.pos++
	}
	switch kind {
	case '#':
		return l.comment()
	case '%':
		if body, ok := l.rawBegin(); ok {
			l.pos = body
			return l.raw()
		}
		return l.tag(tokenBlockBegin, tokenBlockEnd, "%}")
	}
	return l.tag(tokenPrintBegin, tokenPrintEnd, "}}")
}

// nextTag finds the next {{, {% or {#.
func (l *lexer) nextTag() int {
	for i := l.pos; ; i++ {
		j := strings.IndexByte(l.src[i:], '{')
		if j < 0 || i+j+1 >= len(l.src) {
			return -1
		}
		i += j
		if c := l.src[i+1]; c == '{' || c == '%' || c == '#' {
			return i
		}
	}
}

// stripBefore removes the white space before a tag that the tag's sign or
// lstrip_blocks says.
func (l *lexer) stripBefore(text string, sign byte, isBlock bool) string {
	if sign == '-' {
		return strings.TrimRightFunc(text, isSpace)
	}
	if sign == '+' || !isBlock {
		return text
	}
	lineStart := strings.LastIndexByte(text, '\n') + 1
	if lineStart == 0 && !l.atStart {
		return text
	}
	if strings.TrimRightFunc(text[lineStart:], isSpace) == "" {
		return text[:lineStart]
	}
	return text
}

func (l *lexer) data(text string) {
	if text != "" {
		l.emit(tokenData, text)
	}
}

// closeTag consumes the end of a tag at pos when there is one: "-" removes
// the white space after it, and trim one newline unless "+" keeps that.
func (l *lexer) closeTag(end string, trim bool) bool {
	rest := l.src[l.pos:]
	switch {
	case strings.HasPrefix(rest, end):
		n := len(end)
		if trim && strings.HasPrefix(rest[n:], "\n") {
			n++
		}
		l.consume(n)
	case strings.HasPrefix(rest, "-"+end):
		n := len(end) + 1
		l.consume(n + len(rest[n:]) - len(strings.TrimLeftFunc(rest[n:], isSpace)))
	case trim && strings.HasPrefix(rest, "+"+end):
		l.consume(len(end) + 1)
	default:
		return false
	}
	return true
}

func (l *lexer) consume(n int) {
	l.pos += n
	l.atStart = l.src[l.pos-1] == '\n'
}

func (l *lexer) comment() error {
	for start := l.pos; ; l.pos++ {
		i := strings.Index(l.src[l.pos:], "#}")
		if i < 0 {
			l.pos = start
			return l.errorf("missing end of comment tag")
		}
		l.pos += i
		if l.pos > start && (l.src[l.pos-1] == '-' || l.src[l.pos-1] == '+') {
			l.pos--
		}
		if l.closeTag("#}", true) {
			return nil
		}
	}
}

// rawBegin matches " raw %}" after a block begin and gives the offset after it.
func (l *lexer) rawBegin() (int, bool) {
	rest := strings.TrimLeftFunc(l.src[l.pos:], isSpace)
	rest, ok := strings.CutPrefix(rest, "raw")
	if !ok {
		return 0, false
	}
	rest = strings.TrimLeftFunc(rest, isSpace)
	if after, ok := strings.CutPrefix(rest, "%}"); ok {
		return len(l.src) - len(after), true
	}
	if after, ok := strings.CutPrefix(rest, "-%}"); ok {
		return len(l.src) - len(strings.TrimLeftFunc(after, isSpace)), true
	}
	return 0, false
}

// raw reads text up to {% endraw %}.
func (l *lexer) raw() error {
	l.atStart = l.src[l.pos-1] == '\n'
	start := l.pos
	for i := start; ; {
		j := strings.Index(l.src[i:], "{%")
		if j < 0 {
			return l.errorf("missing end of raw block")
		}
		begin := i + j
		i = begin + 2
		rest, sign := l.src[i:], byte(0)
		if rest != "" && (rest[0] == '-' || rest[0] == '+') {
			sign, rest = rest[0], rest[1:]
		}
		rest, ok := strings.CutPrefix(strings.TrimLeftFunc(rest, isSpace), "endraw")
		if !ok {
			continue
		}
		saved := l.pos
		l.pos = len(l.src) - len(strings.TrimLeftFunc(rest, isSpace))
		atStart := l.atStart
		if l.closeTag("%}", true) {
			after, closed := l.pos, l.atStart
			l.pos, l.atStart = saved, atStart
			l.data(l.stripBefore(l.src[start:begin], sign, true))
			l.pos, l.atStart = after, closed
			return nil
		}
		l.pos = saved
	}
}

// tag reads the tokens between {{ and }} or {% and %}. The end counts only
// outside of brackets, so that {{ {"a": {}} }} works.
func (l *lexer) tag(begin, end tokenKind, endText string) error {
	l.emit(begin, "")
	l.brackets = l.brackets[:0]
	for {
		l.skipSpace()
		if l.pos >= len(l.src) {
			return l.errorf("unexpected end of template, expected %s", quoted(endText))
		}
		if len(l.brackets) == 0 && l.closeTagToken(end, endText) {
			return nil
		}
		if err := l.next(); err != nil {
			return err
		}
	}
}

func (l *lexer) closeTagToken(end tokenKind, endText string) bool {
	l.count()
	line := l.line
	if !l.closeTag(endText, end == tokenBlockEnd) {
		return false
	}
	l.tokens = append(l.tokens, token{kind: end, line: line})
	return true
}

func (l *lexer) skipSpace() {
	rest := l.src[l.pos:]
	l.pos += len(rest) - len(strings.TrimLeftFunc(rest, isSpace))
}

// next reads one name, literal or operator.
func (l *lexer) next() error {
	c := l.src[l.pos]
	r, _ := utf8.DecodeRuneInString(l.src[l.pos:])
	switch {
	case '0' <= c && c <= '9':
		return l.number()
	case c == '_' || unicode.IsLetter(r):
		l.emitLength(tokenName, l.span(isNamePart))
		return nil
	case c == '\'' || c == '"':
		return l.quotedString(c)
	}
	return l.operator()
}

func isNamePart(r rune) bool {
	return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)
}

// span is the length of the run at pos whose runes satisfy f.
func (l *lexer) span(f func(rune) bool) int {
	rest := l.src[l.pos:]
	if i := strings.IndexFunc(rest, func(r rune) bool { return !f(r) }); i >= 0 {
		return i
	}
	return len(rest)
}

// emitLength emits the next n bytes as a token.
func (l *lexer) emitLength(kind tokenKind, n int) {
	text := l.src[l.pos : l.pos+n]
	l.emit(kind, text)
	l.pos += n
}

// operators, the longer ones first.
var operators = []string{
	"//", "**", "==", "!=", ">=", "<=",
	"+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".", ":", "|", ",",
}

func (l *lexer) operator() error {
	for _, op := range operators {
		if strings.HasPrefix(l.src[l.pos:], op) {
			if err := l.balance(op[0]); err != nil {
				return err
			}
			l.emitLength(tokenOperator, len(op))
			return nil
		}
	}
	r, _ := utf8.DecodeRuneInString(l.src[l.pos:])
	return l.errorf("unexpected character %q", r)
}

// balance keeps the stack of open brackets.
func (l *lexer) balance(c byte) error {
	switch c {
	case '(':
		l.brackets = append(l.brackets, ')')
	case '[':
		l.brackets = append(l.brackets, ']')
	case '{':
		l.brackets = append(l.brackets, '}')
	case ')', ']', '}':
		if len(l.brackets) == 0 {
			return l.errorf("unexpected %s", quoted(string(c)))
		}
		want := l.brackets[len(l.brackets)-1]
		if want != c {
			return l.errorf("unexpected %s, expected %s", quoted(string(c)), quoted(string(want)))
		}
		l.brackets = l.brackets[:len(l.brackets)-1]
	}
	return nil
}
