package chat

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// printf is text % values; values is a tuple, a mapping or one value.
func printf(bud *budget, format, values Value) (Value, error) {
	f := formatter{bud: bud, format: format, values: []Value{values}}
	switch values.kind {
	case kindTuple:
		f.values = values.items()
	case kindDict:
		f.named, f.unusedOK = values.dict(), true
	case kindList, kindRange, kindUndefined: // they can be indexed, which is what Python looks at
		f.unusedOK = true
	}
	return f.run()
}

func filterFormat(x *exec, v Value, a args) (Value, error) {
	s, err := x.softStr(v)
	if err != nil {
		return Value{}, err
	}
	if a.names == nil {
		return printf(x.budget, s, tupleOf(a.pos...))
	}
	if a.pos != nil {
		return Value{}, errors.New("can't handle positional and keyword arguments at the same time")
	}
	named := &dict{}
	for i, name := range a.names {
		named.putText(name, a.named[i])
	}
	return printf(x.budget, s, dictOf(named))
}

// formatter runs one % formatting.
type formatter struct {
	bud      *budget
	format   Value
	pos      int
	values   []Value
	named    *dict // nil unless values came as a mapping
	used     int
	unusedOK bool
	w        *builder
}

// conversion is one conversion of a format, such as %-10.3f.
type conversion struct {
	key       string
	hasKey    bool
	flags     string
	width     int
	precision int // -1: none
	verb      byte
}

func (f *formatter) run() (Value, error) {
	f.w = newBuilder(f.bud)
	f.w.safe = f.format.safe
	s := f.format.str
	for {
		i := strings.IndexByte(s[f.pos:], '%')
		if i < 0 {
			break
		}
		f.w.writeText(f.format.slice(f.pos, f.pos+i))
		f.pos += i + 1
		if err := f.convert(); err != nil {
			return Value{}, err
		}
	}
	f.w.writeText(f.format.slice(f.pos, len(s)))
	if !f.unusedOK && f.used < len(f.values) {
		return Value{}, errors.New("not all arguments converted during string formatting")
	}
	return f.w.value()
}

// byte gives the current character, 0 at the end.
func (f *formatter) byte() byte {
	if f.pos < len(f.format.str) {
		return f.format.str[f.pos]
	}
	return 0
}

func (f *formatter) convert() error {
	if err := f.bud.step(2); err != nil {
		return err
	}
	c := conversion{precision: -1}
	if f.byte() == '(' {
		end := strings.IndexByte(f.format.str[f.pos:], ')')
		if end < 0 || f.named == nil {
			return errors.New("format requires a mapping")
		}
		c.key, c.hasKey = f.format.str[f.pos+1:f.pos+end], true
		f.pos += end + 1
	}
	from := f.pos
	for f.byte() != 0 && strings.IndexByte("-+ #0", f.byte()) >= 0 {
		f.pos++
	}
	c.flags = f.format.str[from:f.pos]
	var err error
	if c.width, err = f.number(); err != nil {
		return err
	}
	if f.byte() == '.' {
		f.pos++
		if c.precision, err = f.number(); err != nil {
			return err
		}
	}
	for f.byte() == 'l' || f.byte() == 'h' || f.byte() == 'L' {
		f.pos++
	}
	c.verb = f.byte()
	client := f.format.clientAt(f.pos)
	f.pos++
	return f.write(c, client)
}

// maxWidth bounds padding and precision.
const maxWidth = 1 << 16

func (f *formatter) number() (int, error) {
	if f.byte() == '*' {
		f.pos++
		v, err := f.next(conversion{})
		if err != nil {
			return 0, err
		}
		n, err := v.count("width")
		return min(max(n, 0), maxWidth), err
	}
	n := 0
	for isDigit(f.byte()) {
		n = min(10*n+int(f.byte()-'0'), maxWidth)
		f.pos++
	}
	return n, nil
}

// next takes the value of a conversion.
func (f *formatter) next(c conversion) (Value, error) {
	if c.hasKey {
		v, ok := f.named.text(c.key)
		if !ok {
			return Value{}, fmt.Errorf("key %s is not in the mapping", quoted(c.key))
		}
		return v, nil
	}
	if f.used >= len(f.values) {
		return Value{}, errors.New("not enough arguments for format string")
	}
	f.used++
	return f.values[f.used-1], nil
}

func (f *formatter) write(c conversion, client bool) error {
	switch c.verb {
	case '%':
		f.w.write("%", client)
		return f.w.err
	case 0:
		return errors.New("incomplete format")
	}
	v, err := f.next(c)
	if err == nil {
		err = f.bud.touch(v)
	}
	if err != nil {
		return err
	}
	text, err := converted(f.bud, v, c)
	if err != nil {
		return err
	}
	if f.format.safe && !text.safe {
		f.w.escape(text)
		return f.w.err
	}
	f.w.writeText(text)
	return f.w.err
}

// converted is the text of one conversion, padded.
func converted(bud *budget, v Value, c conversion) (Value, error) {
	var s Value
	var err error
	zero := false
	switch c.verb {
	case 's':
		s, err = bud.softStr(v)
	case 'r', 'a':
		w := newBuilder(bud)
		w.repr(v)
		s, err = w.value()
	case 'c':
		s, err = oneCharacter(v)
	case 'd', 'i', 'u', 'x', 'X', 'o', 'f', 'F', 'e', 'E', 'g', 'G':
		s, err = formatNumber(v, c)
		zero = strings.Contains(c.flags, "0") && !strings.Contains(c.flags, "-")
	default:
		return Value{}, fmt.Errorf("unsupported format character %q", c.verb)
	}
	if err != nil {
		return Value{}, err
	}
	if c.precision >= 0 && (c.verb == 's' || c.verb == 'r') {
		s = s.slice(0, byteOffset(s.str, c.precision))
	}
	if zero {
		return zeroFill(bud, s, integer(c.width))
	}
	where := padLeft
	if strings.Contains(c.flags, "-") {
		where = padRight
	}
	return padText(bud, s, integer(c.width), Value{}, where)
}

func oneCharacter(v Value) (Value, error) {
	if v.isString() && runeCount(v.str) == 1 {
		return v, nil
	}
	if n, ok := v.small(); ok && v.isIntegral() && 0 <= n && n <= utf8.MaxRune {
		return Value{kind: kindString, client: v.client, str: string(rune(n))}, nil
	}
	return Value{}, errors.New("%c requires an integer or a character")
}

// formatNumber is a number with sign, without padding.
func formatNumber(v Value, c conversion) (Value, error) {
	if !v.isNumber() {
		return Value{}, fmt.Errorf("%%%c format: a number is required, not %s", c.verb, v.typeName())
	}
	var s string
	switch c.verb {
	case 'd', 'i', 'u', 'x', 'X', 'o', 'b':
		if v.kind == kindFloat {
			n, ok := truncated(v.float64())
			if !ok || c.verb == 'x' || c.verb == 'X' || c.verb == 'o' {
				return Value{}, fmt.Errorf("%%%c format: an integer is required, not float", c.verb)
			}
			v = n.from(v)
		}
		s = formatBase(v, c.verb, strings.Contains(c.flags, "#"))
	default:
		s = formatReal(v.float64(), c.verb, c.precision)
	}
	if s[0] != '-' {
		switch {
		case strings.Contains(c.flags, "+"):
			s = "+" + s
		case strings.Contains(c.flags, " "):
			s = " " + s
		}
	}
	return Value{kind: kindString, client: v.client, str: s}, nil
}

func formatBase(v Value, verb byte, prefix bool) string {
	base := map[byte]int{'x': 16, 'X': 16, 'o': 8, 'b': 2}[verb]
	if base == 0 {
		return formatInteger(v)
	}
	s := v.big().Text(base)
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	if prefix {
		s = "0" + strings.ToLower(string(verb)) + s
	}
	if verb == 'X' {
		s = strings.ToUpper(s)
	}
	return sign + s
}

func formatReal(f float64, verb byte, precision int) string {
	if precision < 0 {
		precision = 6
	}
	if precision == 0 && (verb == 'g' || verb == 'G') {
		precision = 1
	}
	s := strconv.FormatFloat(f, verb|0x20, precision, 64)
	if verb == 'g' || verb == 'G' {
		s = general(f, precision)
	}
	switch s {
	case "NaN":
		s = "nan"
	case "+Inf":
		s = "inf"
	case "-Inf":
		s = "-inf"
	}
	if verb < 'a' {
		s = strings.ToUpper(s)
	}
	return s
}

// general is C's %g: an exponent outside 1e-4 ... 10^precision, no zeros at
// the end.
func general(f float64, precision int) string {
	s := strconv.FormatFloat(f, 'e', precision-1, 64)
	mantissa, exponent, ok := strings.Cut(s, "e")
	if !ok {
		return s
	}
	exp, _ := strconv.Atoi(exponent)
	if exp < -4 || exp >= precision {
		return trimZeros(mantissa) + "e" + exponent
	}
	return trimZeros(strconv.FormatFloat(f, 'f', precision-1-exp, 64))
}

func trimZeros(s string) string {
	if !strings.Contains(s, ".") {
		return s
	}
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}
