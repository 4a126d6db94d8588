package chat

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// braces runs one str.format.
type braces struct {
	x    *exec
	args args
	auto int // fields numbered by themselves so far, -1 after a numbered one
	w    *builder
}

// textFormat is str.format: {}, {0}, {name.attribute[key]!r:>10.3f}.
func textFormat(x *exec, v Value, a args) (Value, error) {
	f := &braces{x: x, args: a, w: newBuilder(x.budget)}
	f.w.safe = v.safe
	if err := f.text(v, 0); err != nil {
		return Value{}, err
	}
	return f.w.value()
}

// text appends a format string with its fields.
func (f *braces) text(v Value, depth int) error {
	s := v.str
	for pos := 0; pos < len(s); {
		i := strings.IndexAny(s[pos:], "{}")
		if i < 0 {
			f.w.writeText(v.slice(pos, len(s)))
			break
		}
		f.w.writeText(v.slice(pos, pos+i))
		pos += i
		if pos+1 < len(s) && s[pos+1] == s[pos] {
			f.w.writeText(v.slice(pos, pos+1))
			pos += 2
			continue
		}
		n := closingBrace(s[pos:])
		if n < 0 {
			return errors.New("single brace encountered in format string")
		}
		if err := f.field(s[pos+1:pos+n], depth); err != nil {
			return err
		}
		pos += n + 1
	}
	return f.w.err
}

// closingBrace gives the offset of the brace that closes the one at 0.
func closingBrace(s string) int {
	depth := 0
	for i := range len(s) {
		switch s[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i
			}
			if depth < 0 {
				return -1
			}
		}
	}
	return -1
}

// field appends name!conversion:spec.
func (f *braces) field(s string, depth int) error {
	if err := f.x.step(2); err != nil {
		return err
	}
	name, spec, _ := strings.Cut(s, ":")
	name, conversion, _ := strings.Cut(name, "!")
	v, err := f.lookup(name)
	if err != nil {
		return err
	}
	client := false // a client wrote part of the specification
	if strings.Contains(spec, "{") {
		if depth > 0 {
			return errors.New("max string recursion exceeded")
		}
		nested := &braces{x: f.x, args: f.args, auto: f.auto, w: newBuilder(f.x.budget)}
		if err := nested.text(literal(spec), depth+1); err != nil {
			return err
		}
		filled, err := nested.w.value()
		if err != nil {
			return err
		}
		f.auto, spec, client = nested.auto, filled.str, filled.isClient()
	}
	switch conversion {
	case "":
	case "s":
		v, err = f.x.str(v)
	case "r", "a":
		w := newBuilder(f.x.budget)
		w.repr(v)
		v, err = w.value()
	default:
		err = fmt.Errorf("unknown conversion specifier %s", quoted(conversion))
	}
	if err != nil {
		return err
	}
	text, err := formatted(f.x.budget, v, spec, client)
	if err != nil {
		return err
	}
	if f.w.safe && !text.safe {
		f.w.escape(text)
		return f.w.err
	}
	f.w.writeText(text)
	return f.w.err
}

// lookup finds the value of a field name such as 0.a[b].
func (f *braces) lookup(name string) (Value, error) {
	end := strings.IndexAny(name, ".[")
	if end < 0 {
		end = len(name)
	}
	v, err := f.root(name[:end])
	for rest := name[end:]; err == nil && rest != ""; {
		var part string
		if rest[0] == '[' {
			var ok bool
			if part, rest, ok = strings.Cut(rest[1:], "]"); !ok {
				return Value{}, errors.New("expected ']' in a format field")
			}
			key := literal(part)
			if n, err := strconv.Atoi(part); err == nil && isDigit(part[0]) {
				key = integer(n)
			}
			v, err = f.x.item(v, key)
			continue
		}
		if rest[0] != '.' {
			return Value{}, errors.New("only '.' or '[' may follow ']' in a format field")
		}
		rest = rest[1:]
		if end = strings.IndexAny(rest, ".["); end < 0 {
			end = len(rest)
		}
		part, rest = rest[:end], rest[end:]
		v, err = f.x.attribute(v, part)
	}
	return v, err
}

func (f *braces) root(name string) (Value, error) {
	n, err := strconv.Atoi(name)
	switch {
	case name == "" && f.auto < 0 || err == nil && f.auto > 0:
		return Value{}, errors.New("cannot mix automatic and manual field numbering")
	case name == "":
		n = f.auto
		f.auto++
	case err == nil:
		f.auto = -1
	default:
		for i, known := range f.args.names {
			if known == name {
				return f.args.named[i], nil
			}
		}
		return Value{}, fmt.Errorf("no argument named %s for the format", quoted(name))
	}
	if n < 0 || n >= len(f.args.pos) {
		return Value{}, errors.New("replacement index out of range for positional arguments")
	}
	return f.args.pos[n], nil
}

// formatted applies a format specification: [[fill]align][sign][#][0][width][,][.precision][type].
func formatted(bud *budget, v Value, spec string, client bool) (Value, error) {
	if spec == "" {
		return bud.softStr(v)
	}
	if err := bud.touch(v); err != nil {
		return Value{}, err
	}
	s, err := parseSpec(spec)
	if err != nil {
		return Value{}, err
	}
	text, err := specText(bud, v, s)
	if err != nil {
		return Value{}, err
	}
	fill := Value{kind: kindString, str: s.fill, client: client}
	where, align := padRight, s.align
	if align == 0 && v.isNumber() {
		align = '>'
	}
	switch align {
	case '>':
		where = padLeft
	case '^':
		missing := max(s.width-runeCount(text.str), 0)
		if text, err = padText(bud, text, integer(runeCount(text.str)+missing/2), fill, padLeft); err != nil {
			return Value{}, err
		}
	case '=':
		return zeroFill(bud, text, integer(s.width))
	}
	return padText(bud, text, integer(s.width), fill, where)
}

// spec is a parsed format specification.
type spec struct {
	fill      string
	align     byte // 0: by type
	sign      string
	alternate bool
	comma     bool
	width     int
	precision int // -1: none
	verb      byte
}

func parseSpec(s string) (spec, error) {
	out := spec{fill: " ", precision: -1}
	if _, n := utf8.DecodeRuneInString(s); len(s) > n && strings.IndexByte("<>=^", s[n]) >= 0 {
		out.fill, out.align, s = s[:n], s[n], s[n+1:]
	} else if s != "" && strings.IndexByte("<>=^", s[0]) >= 0 {
		out.align, s = s[0], s[1:]
	}
	if s != "" && strings.IndexByte("+- ", s[0]) >= 0 {
		out.sign, s = s[:1], s[1:]
	}
	if rest, ok := strings.CutPrefix(s, "#"); ok {
		out.alternate, s = true, rest
	}
	if rest, ok := strings.CutPrefix(s, "0"); ok {
		s = rest
		if out.align == 0 {
			out.fill, out.align = "0", '='
		}
	}
	out.width, s = leadingNumber(s)
	if rest, ok := strings.CutPrefix(s, ","); ok {
		out.comma, s = true, rest
	}
	if rest, ok := strings.CutPrefix(s, "."); ok {
		if rest == "" || !isDigit(rest[0]) {
			return out, errors.New("format specifier missing precision")
		}
		out.precision, s = leadingNumber(rest)
	}
	if len(s) > 1 {
		return out, errors.New("invalid format specifier")
	}
	if s != "" {
		out.verb = s[0]
	}
	if out.align == '=' && out.fill != "0" {
		return out, errors.New("alignment '=' is supported with zeros only")
	}
	return out, nil
}

func leadingNumber(s string) (int, string) {
	n, i := 0, 0
	for i < len(s) && isDigit(s[i]) {
		n = min(10*n+int(s[i]-'0'), maxWidth)
		i++
	}
	return n, s[i:]
}

// specText is the value without padding.
func specText(bud *budget, v Value, s spec) (Value, error) {
	c := conversion{flags: s.sign, precision: s.precision, verb: s.verb}
	if s.alternate {
		c.flags += "#"
	}
	switch {
	case v.isString() && (s.verb == 0 || s.verb == 's'):
		if s.precision >= 0 {
			v = v.slice(0, byteOffset(v.str, s.precision))
		}
		return v, nil
	case !v.isNumber():
		return Value{}, fmt.Errorf("unsupported format specifier for %s", v.typeName())
	case s.verb == 0 && v.kind == kindFloat && s.precision < 0:
		return bud.str(v)
	case s.verb == 0 && v.kind == kindFloat:
		c.verb = 'g'
	case s.verb == 0:
		c.verb = 'd'
	case s.verb == '%':
		c.verb, v = 'f', float(100*v.float64()).from(v)
	case strings.IndexByte("dxXobeEfFgG", s.verb) < 0 || v.kind == kindFloat && strings.IndexByte("dxXob", s.verb) >= 0:
		return Value{}, fmt.Errorf("unknown format code %s for object of type %s", quoted(string(s.verb)), quoted(v.typeName()))
	}
	text, err := formatNumber(v, c)
	if s.comma {
		text.str = grouped(text.str)
	}
	if s.verb == '%' {
		text.str += "%"
	}
	return text, err
}

// grouped puts commas between thousands.
func grouped(s string) string {
	start := 0
	for start < len(s) && !isDigit(s[start]) {
		start++
	}
	end := start
	for end < len(s) && isDigit(s[end]) {
		end++
	}
	var b strings.Builder
	b.WriteString(s[:start])
	for i := start; i < end; i++ {
		if i > start && (end-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteByte(s[i])
	}
	b.WriteString(s[end:])
	return b.String()
}
